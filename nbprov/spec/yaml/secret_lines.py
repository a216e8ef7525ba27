"""Which keys name secrets, and how to hide the lines below them in text without structure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

from .diagnostics import Findings

_KEY = re.compile(r"""(?:^|[{,\s-])["']?([A-Za-z_][\w.-]*)["']?\s*:""")


@lru_cache(maxsize=1024)
def looks_secret(name: str) -> bool:
    """Whether values below a key of this name must not be shown; misspelt names count too.

    Examples
    --------
    >>> [looks_secret(n) for n in ("secrets", "secerts", "managed_secrets", "resources")]
    [True, True, True, False]
    """
    lower = name.lower()
    return "secret" in lower or SequenceMatcher(None, lower, "secrets").ratio() >= 0.75


def is_internal(name: str) -> bool:
    """Whether a top-level key is internal to SkyPilot; its values can hold passwords."""
    return name.startswith("_") or name in ("volume_mounts", "file_mounts_mapping")


def _is_hidden(name: str) -> bool:
    """Whether values below a key may be secret; `notify` can hold the address of a webhook."""
    return name == "notify" or looks_secret(name) or is_internal(name)


def hide_secret_lines(findings: Findings) -> None:
    """Hide the lines below keys that name secrets, by indentation and brackets alone.

    It is for text that could not be parsed.
    """
    if findings.lines_are_hidden:
        return
    findings.lines_are_hidden = True
    indent, depth, inside = 0, 0, False
    for number, line in enumerate(findings.lines):
        stripped = line.strip()
        column = len(line) - len(line.lstrip())
        if (
            inside
            and stripped
            and column <= indent
            and depth <= 0
            and not stripped.startswith(("}", "]"))
        ):
            inside = False
        if inside:
            findings.hide_line(number, 0)
            depth += _opened(line)
            continue
        key = next((m for m in _KEY.finditer(line) if _is_hidden(m.group(1))), None)
        if key:
            inside, indent = True, column
            findings.hide_line(number, key.end())
            depth = _opened(line[key.end() :])


def _opened(text: str) -> int:
    return sum((c in "{[") - (c in "}]") for c in text)
