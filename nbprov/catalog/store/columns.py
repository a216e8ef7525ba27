"""The column store: rows sorted by price, strings coded by dictionaries, and indexes.

The indexes serve the most frequent questions. A store is one block of bytes with a JSON head, made
once and kept as a file; opening it reads the head and maps the columns. The head alone answers
questions that need no numpy: names, places, counts sold and sources.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Final

from nbprov.catalog.errors import CatalogError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT: Final = 2
"""Part of the cache's name. Raise it when the bytes or the meaning of a column change."""
MAGIC: Final = b"nbprovC1"
_HEAD: Final = struct.Struct("<8sQQI")
_ALIGN: Final = 64

STRINGS: Final = (
    "cloud",
    "region",
    "zone",
    "instance_type",
    "accelerator",
    "arch",
    "maker",
    "family",
    "quota_family",
    "source",
    "as_of",
    "country",
    "continent",
)
NUMBERS: Final[Mapping[str, str]] = {
    "hourly": "<i8",
    "accelerator_count": "<f4",
    "accelerator_memory_gib": "<f4",
    "device_gb": "<f4",
    "vcpus": "<f4",
    "memory_gib": "<f4",
    "is_spot": "|b1",
    "is_us": "|b1",
    "is_default": "|b1",
    "asked_only": "|b1",
    "moved_from": "<i8",
}
"""Columns of numbers: `hourly` is in micro-dollars; figures that are not known are NaN.

`device_gb` is the memory of a device as its maker names it. `is_default` marks general-purpose
families. `asked_only` marks rows that only match queries that name vCPUs, memory or the type.
`moved_from` is the price before, where the price moved by more than half, else 0.
"""

COLUMNS: Final = STRINGS + tuple(NUMBERS)


class ColumnStore:
    """Columns over a buffer, never changed. `encode` makes one and `ColumnStore.of` reads it back.

    Attributes
    ----------
    meta
        The head: `rows`, `tables` (the strings of each coded column, sorted), `places`,
        `accelerators`, `clouds`, `layout`.
    content
        Hash of the files that it was made of, if it came through the cache.
    meant
        The meaning of words for places, by the codes of cloud and region; questions fill it.
    """

    def __init__(self, meta: dict[str, Any], body: memoryview) -> None:
        self.meta = meta
        self.content = ""
        self.meant: dict[str, Array] = {}
        self.rows: int = meta["rows"]
        self._body = body
        self._arrays: dict[str, Array] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._folded: dict[str, dict[str, list[int]]] = {}

    @staticmethod
    def of(buffer: bytes | memoryview) -> ColumnStore:
        """Open a store from its bytes.

        Raises
        ------
        CatalogError
            If the bytes are not a whole store of this format.
        """
        view = memoryview(buffer)
        if len(view) < _HEAD.size:
            raise CatalogError("the price cache is too short", code="catalog.cache")
        magic, head_size, body_size, check = _HEAD.unpack(view[: _HEAD.size])
        start = _aligned(_HEAD.size + head_size)
        if (
            magic != MAGIC
            or len(view) != start + body_size
            or zlib.crc32(view[_HEAD.size :]) != check
        ):
            raise CatalogError("the price cache is torn", code="catalog.cache")
        meta = json.loads(bytes(view[_HEAD.size : _HEAD.size + head_size]))
        if not meta["layout"].keys() >= set(COLUMNS):
            raise CatalogError("the price cache has other columns", code="catalog.cache")
        return ColumnStore(meta, view[start:])

    def array(self, name: str) -> Array:
        """Return a stored column (codes for strings) or an index by name, read-only."""
        found = self._arrays.get(name)
        if found is None:
            import numpy as np

            dtype, offset, length = self.meta["layout"][name]
            found = np.frombuffer(self._body, dtype=dtype, count=length, offset=offset)
            self._arrays[name] = found
        return found

    def table(self, name: str) -> list[str]:
        """Return the strings of a coded column, sorted; a code is a position in it."""
        table: list[str] = self.meta["tables"][name]
        return table

    def codes(self, name: str) -> dict[str, int]:
        """Return the code of each string of a column; the map is made once."""
        known = self._codes.get(name)
        if known is None:
            known = self._codes[name] = {text: code for code, text in enumerate(self.table(name))}
        return known

    def folded(self, name: str) -> dict[str, list[int]]:
        """Return the codes of each lower-case string of a column; the map is made once."""
        known = self._folded.get(name)
        if known is None:
            known = {}
            for code, text in enumerate(self.table(name)):
                known.setdefault(text.lower(), []).append(code)
            self._folded[name] = known
        return known

    def group(self, name: str, code: int) -> Array:
        """Return the rows with this code, ascending, from the index of the column.

        Only `accelerator` and `instance_type` have an index.
        """
        starts = self.array(f"{name}.starts")
        return self.array(f"{name}.rows")[int(starts[code]) : int(starts[code + 1])]


class RowColumns:
    """Rows on their way into a store, as compact as they are there.

    A hundred thousand rows take a few MB.
    """

    def __init__(self) -> None:
        self._values: dict[str, array[Any]] = {name: array("I") for name in STRINGS} | {
            name: array(_LETTERS[kind]) for name, kind in NUMBERS.items()
        }
        self._codes: dict[str, dict[str, int]] = {name: {} for name in STRINGS}

    def __len__(self) -> int:
        return len(self._values["hourly"])

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows in the order of `COLUMNS`; None stands for a figure that is not known."""
        for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=False):
            codes = self._codes.get(name)
            if codes is not None:
                self._values[name].extend([codes.setdefault(text, len(codes)) for text in values])
            elif NUMBERS[name] == "<f4":
                self._values[name].extend([nan if value is None else value for value in values])
            else:
                self._values[name].extend(values)

    def of(self, name: str) -> Iterator[Any]:
        """Return a column in the order of adding; NaN stands for a figure that is not known."""
        codes = self._codes.get(name)
        return (
            iter(self._values[name])
            if codes is None
            else map(list(codes).__getitem__, self._values[name])
        )

    def finished(self) -> tuple[dict[str, list[str]], dict[str, Array]]:
        """Return the sorted strings of each coded column, and the columns as a store has them.

        The rows are in the order of adding.
        """
        import numpy as np

        tables: dict[str, list[str]] = {}
        arrays: dict[str, Array] = {}
        for name, values in self._values.items():
            if name in NUMBERS:
                arrays[name] = np.frombuffer(values, dtype=values.typecode).astype(NUMBERS[name])
                continue
            codes = self._codes[name]
            table = tables[name] = sorted(codes)
            wide = "|u1" if len(table) <= 0x100 else "<u2" if len(table) <= 0x10000 else "<u4"
            rank = np.empty(len(table), dtype=wide)
            rank[[codes[text] for text in table]] = np.arange(len(table))
            arrays[name] = rank[np.frombuffer(values, dtype=values.typecode)]
        return tables, arrays


_LETTERS: Final[Mapping[str, str]] = {"<i8": "q", "<f4": "d", "|b1": "b"}


def encode(columns: RowColumns, meta: Mapping[str, Any]) -> bytes:
    """Sort rows and write them as the bytes of a store.

    Parameters
    ----------
    meta
        What goes into the head besides the store's own keys.
    """
    import numpy as np

    tables, arrays = columns.finished()
    keys = ("is_spot", "instance_type", "zone", "region", "cloud", "hourly")
    order = np.lexsort([arrays[k] for k in keys])
    arrays = {name: array[order] for name, array in arrays.items()}
    _add_index(arrays, "accelerator", len(tables["accelerator"]))
    _add_index(arrays, "instance_type", len(tables["instance_type"]))
    arrays["default.rows"] = np.flatnonzero(arrays["is_default"]).astype("<i4")
    return _pack(arrays, {**meta, "rows": len(order), "tables": tables})


def _add_index(arrays: dict[str, Array], name: str, codes: int) -> None:
    import numpy as np

    column = arrays[name]
    arrays[f"{name}.rows"] = np.argsort(column, kind="stable").astype("<i4")
    starts = np.zeros(codes + 1, dtype="<i8")
    np.cumsum(np.bincount(column, minlength=codes), out=starts[1:])
    arrays[f"{name}.starts"] = starts


def _pack(arrays: Mapping[str, Array], meta: dict[str, Any]) -> bytes:
    layout: dict[str, tuple[str, int, int]] = {}
    offset = 0
    for name, column in arrays.items():
        layout[name] = (column.dtype.str, offset, len(column))
        offset = _aligned(offset + column.nbytes)
    body = bytearray(offset)
    for name, column in arrays.items():
        start = layout[name][1]
        body[start : start + column.nbytes] = column.tobytes()
    head = json.dumps({**meta, "layout": layout}, separators=(",", ":"), sort_keys=True).encode()
    gap = bytes(_aligned(_HEAD.size + len(head)) - _HEAD.size - len(head))
    rest = b"".join((head, gap, body))
    return _HEAD.pack(MAGIC, len(head), len(body), zlib.crc32(rest)) + rest


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def member_mask(codes: Array, wanted: Iterable[int], size: int) -> NDArray[np.bool_]:
    """Return which of `codes` are among `wanted`; `size` is the number of codes there are."""
    import numpy as np

    chosen = tuple(wanted)
    if len(chosen) == 1:
        return np.asarray(codes == chosen[0])
    table = np.zeros(size, dtype=bool)
    table[list(chosen)] = True
    return np.asarray(table[codes])
