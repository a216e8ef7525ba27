"""The accelerators of a price question as the columns of a price table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .price_columns import ColumnKind, PriceColumn
from .price_data import TableData, table_column

if TYPE_CHECKING:
    from nbprov.catalog.accelerators_on_sale import AcceleratorOnSale

_COLUMNS: tuple[tuple[str, str, ColumnKind, Callable[[AcceleratorOnSale], Any]], ...] = (
    ("gpu", "GPU", ColumnKind.TEXT, lambda a: a.name),
    ("counts", "in one machine", ColumnKind.TEXT, lambda a: _counts(a.counts)),
    ("gpu_memory", "GPU GiB", ColumnKind.NUMBER, lambda a: a.memory_gib and round(a.memory_gib, 1)),
    ("hourly", "$/h from", ColumnKind.MONEY, lambda a: a.hourly),
    ("each", "$/h each from", ColumnKind.MONEY, lambda a: a.each),
    ("clouds", "clouds", ColumnKind.TEXT, lambda a: ", ".join(a.clouds)),
)


def accelerator_table(items: Sequence[AcceleratorOnSale]) -> TableData:
    """Make a table with one row an accelerator; it sorts and filters as a price table does."""
    columns = tuple(
        table_column(PriceColumn(key, label, kind, value), [value(item) for item in items])
        for key, label, kind, value in _COLUMNS
    )
    return TableData(columns, len(items), len(items), "accelerator")


def _counts(counts: Sequence[float]) -> str:
    return ", ".join(f"{count:g}" for count in counts)
