"""Patterns of what a pull brings: the folder to list, and the rules that leave out all else."""

from __future__ import annotations

import re
from typing import Any

from nbprov.remote.sync.globs import path_expression

MAGIC = re.compile(r"[*?\[]")
_NO_DOT = r"(?!\.)"
_SEEN = "[^/.][^/]*"
"""A name that is not hidden."""


def split_pattern(source: str) -> tuple[str, str]:
    """Return the folder before the first wildcard, and the pattern below it.

    The pattern is empty where the source is a plain name.

    Examples
    --------
    >>> split_pattern("~/runs/*/best.pt"), split_pattern("~/runs"), split_pattern("/*.ckpt")
    (('~/runs', '*/best.pt'), ('~/runs', ''), ('/', '*.ckpt'))
    """
    parts = source.split("/")
    first = next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def only(pattern: str) -> list[list[Any]]:
    """Return listing rules that leave out all but what a pattern matches, folders whole.

    Examples
    --------
    >>> from nbprov.on_machine.sync_files import Rules
    >>> rules = Rules(only("a/*.pt"))
    >>> rules.ignores("a", True), rules.ignores("a/x.pt", False), rules.ignores("a/x.pt/b", False)
    (False, False, False)
    >>> rules.ignores("b", True), rules.ignores("a/.pt", False)
    (True, True)
    """
    rules: list[list[Any]] = [[r".*\Z", False, False]]
    parts = [part for part in pattern.split("/") if part]
    for number, part in enumerate(parts):
        above, is_last = parts[:number], number == len(parts) - 1
        if part == "**":
            body = path_expression([*above, part, "*"], _SEEN + "/", _NO_DOT)
            rules.append([rf"{body}\Z", True, not is_last])
        else:
            body = path_expression([*above, part], _SEEN + "/", _NO_DOT)
            rules += [] if is_last else [[rf"{body}\Z", True, True]]
        if is_last:
            rules.append([rf"{body}(?:/.*)?\Z", True, False])
    return rules


def literal(name: str) -> list[list[Any]]:
    """Return rules as `only` does, for a name that is no pattern."""
    return [[r".*\Z", False, False], [re.escape(name) + r"\Z", True, False]]
