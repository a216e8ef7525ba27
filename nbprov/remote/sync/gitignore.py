"""Ignore files: patterns of `.gitignore` matched against paths below one folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .globs import path_expression

IGNORE_FILES = (".nbprovignore", ".skyignore", ".gitignore")
"""The first of these in the copied folder counts; the others are not read."""


@dataclass(frozen=True, slots=True)
class _Rule:
    matcher: re.Pattern[str]
    is_negated: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """What of a folder is left out.

    Comments, `!`, a trailing `/`, anchoring, `*`, `?`, `[…]` and `**` work as in git; `.git` is
    always left out.

    Examples
    --------
    >>> rules = IgnoreRules.parse("*.ckpt\\n/data/\\n!keep.ckpt\\n")
    >>> rules.ignores("a/b.ckpt", is_folder=False), rules.ignores("a/keep.ckpt", is_folder=False)
    (True, False)
    >>> rules.ignores("data", is_folder=True)
    True
    """

    rules: tuple[_Rule, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> IgnoreRules:
        """Read the rules of a folder; only `.git` is ignored where it has no ignore file."""
        for name in IGNORE_FILES:
            if (folder / name).is_file():
                return cls.parse((folder / name).read_text(encoding="utf-8", errors="replace"))
        return cls()

    @classmethod
    def parse(cls, text: str) -> IgnoreRules:
        """Read the lines of an ignore file."""
        return cls(
            tuple(rule for line in text.splitlines() if (rule := _parse_line(line)) is not None)
        )

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path (with `/`, relative to the folder) is left out.

        What lies below an ignored folder is not asked about.
        """
        if path == ".git" or path.endswith("/.git"):
            return True
        verdict = False
        for rule in self.rules:
            if (is_folder or not rule.folders_only) and rule.matcher.match(path):
                verdict = not rule.is_negated
        return verdict


def _parse_line(line: str) -> _Rule | None:
    whole = line.rstrip("\r\n")
    line = whole.rstrip(" ")
    if line.endswith("\\") and line != whole:
        line += " "  # a backslash keeps the space after it
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = (
        line[1:] if is_negated else line.removeprefix("\\") if line[:2] in ("\\#", "\\!") else line
    )
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    parts = line.lstrip("/").split("/") if "/" in line else ["**", re.sub(r"\*+", "*", line)]
    folders = [*parts]
    while folders and folders[-1] == "**":  # all that lies below, at any depth
        folders.pop()
    below = ("/.+" if folders else ".+") if len(folders) < len(parts) else ""
    matcher = re.compile(path_expression(folders) + below + r"\Z", re.DOTALL)
    return _Rule(matcher, is_negated, folders_only)
