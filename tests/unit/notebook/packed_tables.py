"""Read a packed price table as the browser does."""

from __future__ import annotations

import struct

from nbprov.notebook.rendering.packed_table import PackedTable
from nbprov.notebook.rendering.price_data import TableData

FORMATS = {"u1": "B", "u2": "H", "u4": "I", "i4": "i", "f4": "f", "f8": "d"}


def unpack(data: TableData) -> dict[str, list[object]]:
    """Read a packed table as the browser does: little-endian, and only by its header."""
    packed = PackedTable(data)
    read: dict[str, list[object]] = {head["key"]: [] for head in packed.header["columns"]}
    for page in packed.pages():
        rows = page.end - page.start
        for head, buffer in zip(packed.header["columns"], page.buffers, strict=True):
            values = struct.unpack(f"<{rows}{FORMATS[head['dtype']]}", buffer)
            read[head["key"]] += [head["words"][v] for v in values] if "words" in head else values
    return read
