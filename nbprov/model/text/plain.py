"""Plain text: what others wrote, without anything that controls a terminal or a reader's eye."""

from __future__ import annotations

import re
import unicodedata

# Whole control sequences go: half of one would leave its parameters as words.
_SEQUENCE = (
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x18\x1a\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,256}[@-~]?"
    r"|\x1b[ -/]{0,256}[0-Z\\-~]?"
)
_KEPT = "\n\t"
_DROPPED = ("Cf", "Co", "Cn")
"""Invisible characters (such as overrides of the direction), and those that no font has."""


def plain(text: str) -> str:
    r"""The text without escape sequences, control characters and invisible characters.

    Line ends and tabs stay. Any other white space and control character becomes a space. Half a
    surrogate pair stays, since a message is stored as it came; `printable` replaces it.

    Examples
    --------
    >>> plain("\x1b]0;owned\x07no \x1b[31mstock\x1b[0m\u202e left\r\n")
    'no stock left \n'
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, re.sub(_SEQUENCE, "", text)))


def _shown(character: str) -> str:
    if character.isprintable() or character in _KEPT:
        return character
    category = unicodedata.category(character)
    if category == "Cs":
        return character
    return "" if category in _DROPPED else " "


def printable(text: str) -> str:
    """Plain text that every terminal and file can take."""
    cleaned = plain(text)
    if cleaned.isprintable():
        return cleaned
    return cleaned.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, most: int | None = None) -> str:
    r"""Plain text in one line with single spaces, of at most so many characters.

    Examples
    --------
    >>> one_line("no\n  stock\x07 left"), one_line("no stock left", 9)
    ('no stock left', 'no stock…')
    """
    line = " ".join(printable(text).split())
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"
