"""Arrays with a number for each row of the catalogue, borrowed for one search.

A plan of a few rows must not pay for allocating a million numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .catalog_columns import Ints

NONE = -1
_KEPT = 4
"""Arrays kept for the next searches: two per search, for two searches at once."""

_lock = threading.Lock()
_free: list[ScratchArray] = []


class ScratchArray:
    """Numbers by row, `NONE` if not set; only rows that were written are cleared."""

    def __init__(self, size: int) -> None:
        self._values = np.full(size, NONE, dtype=np.int32)
        self._written: list[Ints] = []

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: Ints) -> Ints:
        return np.asarray(self._values[rows])

    def __setitem__(self, rows: Ints, value: Any) -> None:
        self._written.append(rows)
        self._values[rows] = value

    def empty(self) -> None:
        """Clear all numbers."""
        for rows in self._written:
            self._values[rows] = NONE
        self._written.clear()


@contextmanager
def borrowed(size: int) -> Iterator[ScratchArray]:
    """Borrow an empty array for this many rows, and return it at the end."""
    with _lock:
        marks = next((m for m in _free if len(m) >= size), None)
        if marks is not None:
            _free.remove(marks)
    if marks is None:
        marks = ScratchArray(size)
    try:
        yield marks
    finally:
        marks.empty()
        with _lock:
            _free.append(marks)
            del _free[:-_KEPT]
