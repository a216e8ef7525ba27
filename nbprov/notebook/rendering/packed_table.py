"""A price table as bytes for the browser: a JSON header, and little-endian columns in pages."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from .price_columns import ColumnKind
from .price_data import CodedColumn, ColumnData, TableData

FIRST_PAGE = 1_000
"""Rows of the first page: more than anyone sees at once, and drawn before the rest arrives."""
PAGE = 200_000
"""Rows of each later page: a few megabytes."""
_NUMBER_TYPES = {ColumnKind.RANK: "i", ColumnKind.MONEY: "d", ColumnKind.NUMBER: "f"}
_DTYPES = {"B": "u1", "H": "u2", "I": "u4", "i": "i4", "f": "f4", "d": "f8"}


class Page(NamedTuple):
    """The rows from `start` on, up to `end`, with one buffer a column."""

    start: int
    end: int
    buffers: list[memoryview]


class PackedTable:
    """A table ready for the browser; texts are codes into a dictionary that the header holds.

    Attributes
    ----------
    header
        What `widgets/types.d.ts` calls `TableHead`.
    """

    def __init__(self, table: TableData) -> None:
        self.rows = table.rows
        columns = [packed_column(column) for column in table.columns]
        self._buffers = [(buffer, size) for _, buffer, size in columns]
        self.header: dict[str, Any] = {
            "rows": table.rows,
            "total": table.total,
            "noun": table.noun,
            "tail": table.tail,
            "now": time.time(),
            "columns": [head for head, _, _ in columns],
        }

    def pages(self) -> Iterator[Page]:
        """Yield the table page by page, the first a short one; a table without rows has one."""
        start, end = 0, min(FIRST_PAGE, self.rows)
        while True:
            yield self.page(start, end)
            if end == self.rows:
                return
            start, end = end, min(end + PAGE, self.rows)

    def page(self, start: int, end: int) -> Page:
        """Return a page without copying it."""
        return Page(
            start, end, [buffer[start * size : end * size] for buffer, size in self._buffers]
        )


def packed_column(column: ColumnData) -> tuple[dict[str, Any], memoryview, int]:
    """Return a column's head (`ColumnHead` in `widgets/types.d.ts`), its bytes, and those of one
    value.
    """
    head: dict[str, Any] = {"key": column.key, "label": column.label, "kind": column.kind.value}
    values: Any
    if isinstance(column.values, CodedColumn):
        words = [str(word) for word in column.values.words]
        code = "B" if len(words) <= 0x100 else "H" if len(words) <= 0x10000 else "I"
        head["words"], values = words, column.values.codes
    else:
        code, values = _NUMBER_TYPES[column.kind], column.values
    # An empty column would push the others out of sight.
    if not column.is_drawn or not column.has_values:
        head["hidden"] = True
    buffer = memoryview(_little_endian(values, code))
    return {**head, "dtype": _DTYPES[code]}, buffer, array(code).itemsize


def _little_endian(values: Any, code: str) -> bytes:
    """Return the values, an `array`, a numpy array or a sequence, as bytes of one machine type."""
    if hasattr(values, "astype"):  # numpy is imported then, and not here
        return bytes(values.astype(f"<{_DTYPES[code]}", copy=False).tobytes())
    packed = (
        values if isinstance(values, array) and values.typecode == code else array(code, values)
    )
    if sys.byteorder == "big":
        packed = array(code, packed)
        packed.byteswap()
    return packed.tobytes()
