"""Cells that are a magic's line alone."""

from __future__ import annotations

from collections.abc import Sequence

_MAGIC = "%%provision"


def give_body(lines: Sequence[str]) -> list[str]:
    """Give a `%%provision` cell without a body an empty line.

    IPython refuses to call the magic of a cell without one, and this magic has a form to show.

    Examples
    --------
    >>> give_body(["%%provision"])
    ['%%provision\\n', '\\n']
    >>> give_body(["print()"])
    ['print()']
    """
    if len(lines) == 1 and lines[0].split()[:1] == [_MAGIC]:
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return list(lines)
