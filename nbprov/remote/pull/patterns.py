"""Patterns of what is brought here: the sure folder of one, and the rules by which a listing leaves out all else."""

from __future__ import annotations

import re
from typing import Any

from nbprov.remote.sync.gitignore import _translate

MAGIC = re.compile(r"[*?\[]")


def split_pattern(source: str) -> tuple[str, str]:
    """The folder that is sure, and the pattern below it; no pattern where the source is a plain name.

    Examples
    --------
    >>> split_pattern("~/runs/*/best.pt"), split_pattern("~/runs"), split_pattern("/*.ckpt")
    (('~/runs', '*/best.pt'), ('~/runs', ''), ('/', '*.ckpt'))
    """
    parts = source.split("/")
    first = next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts))
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def only(pattern: str) -> list[list[Any]]:
    """The rules, as a listing takes them, that leave out all but what a pattern means; a folder that it means is whole.

    Examples
    --------
    >>> from nbprov.on_machine.sync_files import Rules
    >>> rules = Rules(only("a/*.pt"))
    >>> [rules.ignores(*name) for name in (("a", True), ("a/x.pt", False), ("a/x.pt/deep", False), ("b", True), ("a/.pt", False))]
    [False, False, False, True, True]
    """
    rules: list[list[Any]] = [[r".*\Z", False, False]]
    parts, body = [part for part in pattern.split("/") if part], ""
    any_name = r"[^/.][^/]*"
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            rules.append([rf"{body}(?:{any_name}/)*{any_name}\Z", True, not is_last])
            body += rf"(?:{any_name}/)*"
            piece = any_name
        else:
            piece = _piece(part)
        if is_last:
            rules.append([rf"{body}{piece}(?:/.*)?\Z", True, False])
        elif part != "**":
            rules.append([rf"{body}{piece}\Z", True, True])
            body += piece + "/"
    return rules


def _piece(part: str) -> str:
    """One name of a pattern; one that cannot be read as a pattern is a plain name."""
    lead = "" if part.startswith(".") else r"(?!\.)"
    body = _translate(re.sub(r"\*+", "*", part))
    try:
        re.compile(body)
    except re.error:
        body = re.escape(part)
    return lead + body


def literal(name: str) -> list[list[Any]]:
    """As `only`, for a name that is no pattern."""
    return [[r".*\Z", False, False], [re.escape(name) + r"\Z", True, False]]
