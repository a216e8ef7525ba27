"""The columns of the price table: their keys, labels and kinds, and how an offer fills them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from nbprov.model.offers import Offer
from nbprov.model.stock import Stock, StockLevel

_LEVELS = (StockLevel.NONE, StockLevel.LOW, StockLevel.MEDIUM, StockLevel.HIGH)


class ColumnKind(StrEnum):
    """How a column is stored, shown and sorted.

    Stock is stored as a level and its time, so that the age shown is always the current one.
    """

    RANK = "rank"
    TEXT = "text"
    DATE = "date"
    STOCK = "stock"
    MONEY = "money"
    NUMBER = "number"


class PriceTableRow(NamedTuple):
    """What a row of the price table is made from.

    Attributes
    ----------
    off
        Why its cloud cannot be used; empty where it can.
    """

    rank: int
    offer: Offer
    nodes: int = 1
    why: str = ""
    stock: Stock | None = None
    chance: str = ""
    off: str = ""


class PriceColumn(NamedTuple):
    """One column of the price table.

    Attributes
    ----------
    value
        Computes the column's value of a row: micros for money, None where it is unknown.
    is_drawn
        Whether the table shows it; the browser filters and greys by the others.
    """

    key: str
    label: str
    kind: ColumnKind
    value: Callable[[Any], Any]
    is_drawn: bool = True


def price_source(offer: Offer) -> str:
    """Return where a price comes from, with the price before if it moved by more than half."""
    return " · ".join(words for words in (offer.moved_words, offer.source) if words)


COLUMNS: tuple[PriceColumn, ...] = (
    PriceColumn("rank", "#", ColumnKind.RANK, lambda r: r.rank),
    PriceColumn(
        "gpu", "GPU", ColumnKind.TEXT, lambda r: r.offer.gpus if r.offer.accelerator else ""
    ),
    PriceColumn("gpu_hourly", "$/GPU-h", ColumnKind.MONEY, lambda r: gpu_hourly(r.offer)),
    PriceColumn("hourly", "$/h", ColumnKind.MONEY, lambda r: r.offer.hourly),
    PriceColumn("total", "$/h, all nodes", ColumnKind.MONEY, lambda r: r.offer.hourly * r.nodes),
    PriceColumn("other", "other market", ColumnKind.MONEY, lambda r: None),
    PriceColumn("market", "market", ColumnKind.TEXT, lambda r: r.offer.market.value),
    PriceColumn("stock", "stock", ColumnKind.STOCK, lambda r: stock_code(r.stock)),
    PriceColumn("chance", "chance", ColumnKind.TEXT, lambda r: r.chance),
    PriceColumn("cloud", "cloud", ColumnKind.TEXT, lambda r: r.offer.cloud),
    PriceColumn("region", "region", ColumnKind.TEXT, lambda r: r.offer.region),
    PriceColumn("zone", "zone", ColumnKind.TEXT, lambda r: r.offer.zone),
    PriceColumn("type", "type", ColumnKind.TEXT, lambda r: r.offer.instance_type),
    PriceColumn("vcpus", "vCPU", ColumnKind.NUMBER, lambda r: r.offer.vcpus),
    PriceColumn("memory", "GiB", ColumnKind.NUMBER, lambda r: r.offer.memory_gib),
    PriceColumn(
        "gpu_memory",
        "GPU GiB",
        ColumnKind.NUMBER,
        lambda r: r.offer.accelerator_memory_gib and round(r.offer.accelerator_memory_gib, 1),
    ),
    PriceColumn("why", "why here", ColumnKind.TEXT, lambda r: r.why),
    PriceColumn("source", "source", ColumnKind.TEXT, lambda r: price_source(r.offer)),
    PriceColumn("as_of", "age", ColumnKind.DATE, lambda r: r.offer.as_of),
    PriceColumn("off", "", ColumnKind.TEXT, lambda r: r.off, False),
    PriceColumn("country", "", ColumnKind.TEXT, lambda r: "", False),
    PriceColumn("continent", "", ColumnKind.TEXT, lambda r: "", False),
)
"""All columns of the table, in the order shown. Rows with a word in `off` are grey, and the reason
appears on hover and below the table. `other`, `country` and `continent` are known only where the
table comes from the price lists (`offer_columns.py`)."""


def gpu_hourly(offer: Offer) -> float | None:
    """Return the price of one GPU an hour in micros; None where there is none."""
    count = offer.accelerator_count if offer.accelerator else 0.0
    return offer.hourly / count if count else None


def column_spec(keys: Container[str]) -> list[PriceColumn]:
    """Return the columns with these keys, in the order shown."""
    return [column for column in COLUMNS if column.key in keys]


def stock_code(stock: Stock | None, last_day: Sequence[StockLevel | None] = ()) -> str:
    """Return a stock report as one word, `high@1790000000.0`; empty where there is none.

    Levels of the time before it follow as digits, oldest first, from 0 (none) to 3 (high), and `-`
    where nothing was said: `high@1790000000.0@--003333`.
    """
    if stock is None:
        return ""
    digits = level_digits(last_day)
    return f"{stock.level.value}@{stock.at!r}" + (f"@{digits}" if digits.strip("-") else "")


def level_digits(levels: Sequence[StockLevel | None]) -> str:
    """Return levels as digits from 0 (none) to 3 (high), and `-` where nothing was said."""
    return "".join("-" if level is None else str(_LEVELS.index(level)) for level in levels)
