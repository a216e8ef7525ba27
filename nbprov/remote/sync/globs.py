"""Globs as regular expressions that take about as long as the name they read.

A pattern may come from somebody else's task file or repository, and the names from a machine. Of
several wildcards all but the last take the first place that fits and keep it: a later place never
lets the rest match where the first does not. Otherwise `*a*a*a*a*b` would try every combination.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

WITHIN = "[^/]*"
_FOLDER = "[^/]*/"


def path_expression(parts: Sequence[str], folder: str = _FOLDER, hidden: str = "") -> str:
    """Return the expression for a path, given the patterns of its names.

    A part `**` stands for any number of folders.

    Parameters
    ----------
    folder
        Matches one of the folders that `**` stands for, with its slash.
    hidden
        Stands before the expression of a name that does not itself begin with a dot.

    Examples
    --------
    >>> path_expression(["a", "*.pt"]), path_expression(["**", "b*c"])
    ('a/[^/]*\\\\.pt', '(?:[^/]*/)*b[^/]*c')
    >>> bool(re.match(path_expression(["**", "a", "**", "b"]) + r"\\Z", "x/a/y/z/b"))
    True
    """
    numbers = itertools.count(1)
    stretches: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            stretches.append([])
        else:
            lead = "" if part.startswith(".") else hidden
            stretches[-1].append(lead + _name_expression(part, numbers))
    first, *later = ("/".join(stretch) for stretch in stretches)
    out = first + ("/" if first and later else "")
    later, last = [text for text in later[:-1] if text], later[-1:]
    for text in later:
        out += _kept(f"(?:{folder})*?{text}/", numbers)
    return out + "".join(f"(?:{folder})*{text}" for text in last)


def _name_expression(part: str, numbers: Iterator[int]) -> str:
    """Return the expression for one name; one that is no valid pattern is taken literally."""
    pieces = _between_stars(part)
    try:
        re.compile("".join(pieces))
    except re.error:
        return re.escape(part)
    out = pieces[0]
    for piece in pieces[1:-1]:
        out += _kept(f"{WITHIN}?{piece}", numbers) if piece else ""
    return out + "".join(WITHIN + piece for piece in pieces[1:][-1:])


def _kept(expression: str, numbers: Iterator[int]) -> str:
    """Return an expression that is not tried again elsewhere once it has matched.

    `(?>…)` means the same, and Python has it from 3.11 on; machines may have 3.8.
    """
    name = f"k{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _between_stars(part: str) -> list[str]:
    """Return the expressions of what stands between the stars of a name; each has one length."""
    pieces, at = [""], 0
    while at < len(part):
        letter = part[at]
        end = _class_end(part, at)
        if letter == "*":
            pieces.append("")
            at += 1
            continue
        if letter == "?":
            pieces[-1] += "[^/]"
        elif end > 0:
            inner = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inner = "^" + inner[1:] if inner[0] in "!^" else inner
            pieces[-1] += f"(?!/)[{inner}]"
            at = end
        else:
            at += letter == "\\" and at + 1 < len(part)
            pieces[-1] += re.escape(part[at])
        at += 1
    return pieces


def _class_end(part: str, at: int) -> int:
    """Return where a class such as `[0-9]` ends; -1 if none begins here."""
    if part[at] != "[":
        return -1
    return part.find("]", at + (3 if part[at + 1 : at + 2] in ("!", "^") else 2))
