"""A number a row of the catalogue, lent for one search: a plan of a few rows must not pay for a million."""

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
"""Arrays kept for the next searches: two a search, for two at once."""

_lock = threading.Lock()
_free: list[Marks] = []


class Marks:
    """Numbers by row, `NONE` where none was set; emptied only where it was written."""

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
        """Take every number away."""
        for rows in self._written:
            self._values[rows] = NONE
        self._written.clear()


@contextmanager
def lent(size: int) -> Iterator[Marks]:
    """Empty marks for so many rows, given back at the end."""
    with _lock:
        marks = next((m for m in _free if len(m) >= size), None)
        if marks is not None:
            _free.remove(marks)
    if marks is None:
        marks = Marks(size)
    try:
        yield marks
    finally:
        marks.empty()
        with _lock:
            _free.append(marks)
            del _free[:-_KEPT]
