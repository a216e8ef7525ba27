"""What a process on a Linux machine can be given as its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST_BYTES = 131_071
"""Bytes of one variable, `NAME=value`: Linux takes 32 pages of 4 kB, with the NUL at its end."""
MOST_BYTES_TOGETHER = 1_500_000
"""Bytes of all variables together: Linux takes 2 MB, with the machine's own and the arguments."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def why_unfit(name: str, value: str) -> str:
    """Why a variable cannot have a value, which is not repeated; empty where it can.

    Examples
    --------
    >>> why_unfit("DATA", "x" * 131_066), why_unfit("DATA", "x" * 131_067)
    ('', 'has 131,067 bytes; Linux takes at most 131,066 for this name')
    >>> why_unfit("DATA", "a\\0b")
    'holds a NUL character, which no variable can hold'
    """
    if "\0" in value:
        return "holds a NUL character, which no variable can hold"
    if _SURROGATE.search(value):
        return "is not UTF-8: it holds half of a surrogate pair, which no machine is sent"
    size = size_of(value)
    most = MOST_BYTES - size_of(name) - 1
    return f"has {size:,} bytes; Linux takes at most {most:,} for this name" if size > most else ""


def size_of(text: str) -> int:
    """The bytes of a text in an environment."""
    return len(text.encode("utf-8", "surrogatepass"))


def size_together(values: Mapping[str, str]) -> int:
    """The bytes of all variables together."""
    return sum(size_of(name) + size_of(value) + 2 for name, value in values.items())
