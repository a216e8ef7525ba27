"""The first lines of the cells that this kernel sent to machines, for `%nbprov cells`.

They are kept here only, because others might read what is on a machine's disk.
"""

from __future__ import annotations

LENGTH = 48
"""Characters of a first line that are kept."""

_first_lines: dict[str, str] = {}


def remember_source(id: str, text: str) -> None:
    """Keep the first line of a cell."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    _first_lines[id] = first if len(first) <= LENGTH else first[: LENGTH - 1] + "…"


def first_line_of(id: str) -> str:
    """Return the first line of a cell; empty if another kernel sent it."""
    return _first_lines.get(id, "")
