"""The price table's data as columns, made from a plan, from offers or from a column store.

The browser and the static forms show the same data.
"""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from nbprov.model.clock import Instant
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer, Plan, Unusable
from nbprov.model.stock import Pool, Stock, StockLevel

from .formatting import DASH, format_age, format_number, format_stock

NAN = math.nan
GREYED = 5
"""The most grey rows below a plan, for clouds that are not set up. The cheapest are shown; the
lines beside the table name all of them."""
NO_RANK = -1
"""The rank of a row that no launch uses."""


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
    """

    key: str
    label: str
    kind: ColumnKind
    value: Callable[[Any], Any]


def price_source(offer: Offer) -> str:
    """Return where a price comes from, with the price before if it moved by more than half."""
    return " · ".join(words for words in (offer.moved_words, offer.source) if words)


COLUMNS: tuple[PriceColumn, ...] = (
    PriceColumn("rank", "#", ColumnKind.RANK, lambda r: r.rank),
    PriceColumn(
        "gpu", "GPU", ColumnKind.TEXT, lambda r: r.offer.gpus if r.offer.accelerator else ""
    ),
    PriceColumn("cloud", "cloud", ColumnKind.TEXT, lambda r: r.offer.cloud),
    PriceColumn("region", "region", ColumnKind.TEXT, lambda r: r.offer.region),
    PriceColumn("zone", "zone", ColumnKind.TEXT, lambda r: r.offer.zone),
    PriceColumn("type", "type", ColumnKind.TEXT, lambda r: r.offer.instance_type),
    PriceColumn("market", "market", ColumnKind.TEXT, lambda r: r.offer.market.value),
    PriceColumn("hourly", "$/h", ColumnKind.MONEY, lambda r: r.offer.hourly),
    PriceColumn("total", "$/h, all nodes", ColumnKind.MONEY, lambda r: r.offer.hourly * r.nodes),
    PriceColumn("vcpus", "vCPU", ColumnKind.NUMBER, lambda r: r.offer.vcpus),
    PriceColumn("memory", "GiB", ColumnKind.NUMBER, lambda r: r.offer.memory_gib),
    PriceColumn(
        "gpu_memory",
        "GPU GiB",
        ColumnKind.NUMBER,
        lambda r: r.offer.accelerator_memory_gib and round(r.offer.accelerator_memory_gib, 1),
    ),
    PriceColumn("stock", "stock", ColumnKind.STOCK, lambda r: stock_code(r.stock)),
    PriceColumn("chance", "chance", ColumnKind.TEXT, lambda r: r.chance),
    PriceColumn("why", "why here", ColumnKind.TEXT, lambda r: r.why),
    PriceColumn("source", "source", ColumnKind.TEXT, lambda r: price_source(r.offer)),
    PriceColumn("as_of", "age", ColumnKind.DATE, lambda r: r.offer.as_of),
    PriceColumn("off", "", ColumnKind.TEXT, lambda r: r.off),
)
"""All columns of the table, in the order shown. `off` is not drawn: its rows are grey, and the
reason appears on hover and below the table."""

_BY_KEY = {c.key: c for c in COLUMNS}
_CODED = (ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.STOCK)
_FORMATS: dict[ColumnKind, tuple[str, str]] = {
    ColumnKind.RANK: ("i", "i4"),
    ColumnKind.MONEY: ("d", "f8"),
    ColumnKind.NUMBER: ("f", "f4"),
}


def stock_code(stock: Stock | None) -> str:
    """Return a stock report as one word, `high@1790000000.0`; empty where there is none."""
    return "" if stock is None else f"{stock.level.value}@{stock.at!r}"


def _stock_from_code(word: str) -> Stock | None:
    level, _, at = word.partition("@")
    return Stock(float(at), Pool("", "", "", "", ""), StockLevel(level)) if level else None


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A text column in dictionary form: `words[codes[i]]` is row i."""

    codes: Sequence[int]
    words: Sequence[str]

    @classmethod
    def of(cls, values: Iterable[Any]) -> CodedColumn:
        """Make the dictionary form of a column of texts; None and empty mean unknown."""
        index: dict[str, int] = {}
        codes = array(
            "I", (index.setdefault(str(v) if v is not None else "", len(index)) for v in values)
        )
        return cls(codes, tuple(index))


@dataclass(frozen=True, slots=True)
class ColumnData:
    """A column with its values.

    Attributes
    ----------
    values
        A `CodedColumn` for text and dates, else numbers; NaN is unknown and money is in micros.
    """

    key: str
    label: str
    kind: ColumnKind
    values: CodedColumn | Sequence[float]

    def cell(self, row: int, today: date, now: Instant = 0.0) -> str:
        """Return the cell as a person reads it; the age of stock is counted up to `now`."""
        if isinstance(self.values, CodedColumn):
            word = str(self.values.words[int(self.values.codes[row])])
            if self.kind is ColumnKind.STOCK:
                return format_stock(_stock_from_code(word), now)
            return format_age(word, today) if self.kind is ColumnKind.DATE else word or DASH
        value = float(self.values[row])
        if self.kind is ColumnKind.RANK:
            return DASH if value == NO_RANK else str(int(value) + 1)
        if self.kind is ColumnKind.MONEY:
            return DASH if value != value else format_usd(int(value))
        return format_number(value)


class Packed(NamedTuple):
    """A table ready for the browser: a JSON header and one little-endian buffer per column."""

    header: dict[str, Any]
    buffers: list[bytes]


@dataclass(frozen=True, slots=True)
class TableData:
    """The price table's rows as columns.

    Attributes
    ----------
    rows
        How many rows the columns hold.
    total
        How many rows there are in total; more than `rows` where the table was cut.
    noun
        What a row is: `offer` or `candidate`.
    tail
        How many of the last rows are not candidates but offers of clouds that are not set up.
        They are not counted in `total`.
    """

    columns: tuple[ColumnData, ...]
    rows: int
    total: int
    noun: str = "offer"
    tail: int = 0

    @classmethod
    def from_offers(
        cls,
        offers: Sequence[Offer],
        *,
        stock: Callable[[Offer], Stock | None] | None = None,
        off: Mapping[str, str] | None = None,
        limit: int | None = None,
        total: int | None = None,
    ) -> TableData:
        """Make a table of offers, in their order.

        Parameters
        ----------
        stock
            Returns what a cloud reported of an offer's stock.
        off
            Why clouds cannot be used, by name; their rows are grey.
        """
        known, why = stock or (lambda offer: None), off or {}
        rows = [
            PriceTableRow(i, offer, stock=known(offer), off=why.get(offer.cloud, ""))
            for i, offer in enumerate(islice(offers, limit))
        ]
        return cls._of_rows(
            rows,
            len(offers) if total is None else total,
            "offer",
            without={"total", "why", "chance"},
        )

    @classmethod
    def from_plan(cls, plan: Plan, *, limit: int | None = None) -> TableData:
        """Make a table of a plan's candidates in the plan's order, with rank and reason.

        Below them stand, in grey, offers of clouds that are not set up.
        """
        rows = [_candidate_row(c) for c in islice(plan.candidates, limit)]
        without = set() if any(r.nodes > 1 for r in rows) else {"total"}
        tail = [_unusable_row(u, plan.spec.num_nodes) for u in plan.unusable[:GREYED]]
        return cls._of_rows(
            [*rows, *tail], len(plan.candidates), "candidate", without=without, tail=len(tail)
        )

    @classmethod
    def _of_rows(
        cls,
        rows: Sequence[PriceTableRow],
        total: int,
        noun: str,
        *,
        without: set[str],
        tail: int = 0,
    ) -> TableData:
        specs = [c for c in COLUMNS if c.key not in without]
        return cls(
            tuple(table_column(c, [c.value(r) for r in rows]) for c in specs),
            len(rows),
            total,
            noun,
            tail,
        )

    def cells(self, row: int, today: date, now: Instant = 0.0) -> dict[str, str]:
        """Return one row as a person reads it, by column key."""
        return {c.key: c.cell(row, today, now) for c in self.columns}

    def off(self) -> dict[str, str]:
        """Return why each cloud with a grey row cannot be used, by its name."""
        columns = {c.key: c.values for c in self.columns}
        reasons, clouds = columns.get("off"), columns.get("cloud")
        if not (isinstance(reasons, CodedColumn) and isinstance(clouds, CodedColumn)) or not any(
            reasons.words
        ):
            return {}
        pairs = {(int(c), int(r)) for c, r in zip(clouds.codes, reasons.codes, strict=True)}
        return {
            str(clouds.words[c]): str(reasons.words[r])
            for c, r in sorted(pairs)
            if reasons.words[r]
        }

    def pack(self) -> Packed:
        """Return the table as one binary buffer per column; texts are codes into a dictionary."""
        heads: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        for column in self.columns:
            head: dict[str, Any] = {
                "key": column.key,
                "label": column.label,
                "kind": column.kind.value,
            }
            if isinstance(column.values, CodedColumn):
                small = len(column.values.words) <= 0x10000
                code, dtype = ("H", "u2") if small else ("I", "u4")
                head["words"] = [str(w) for w in column.values.words]
                buffers.append(_little_endian(column.values.codes, code))
            else:
                code, dtype = _FORMATS[column.kind]
                buffers.append(_little_endian(column.values, code))
            heads.append({**head, "dtype": dtype})
        head = {
            "rows": self.rows,
            "total": self.total,
            "noun": self.noun,
            "tail": self.tail,
            "now": time.time(),
            "columns": heads,
        }
        return Packed(head, buffers)


def _candidate_row(candidate: Candidate) -> PriceTableRow:
    # The chance has its own column so that a narrow terminal does not cut it off.
    return PriceTableRow(
        candidate.rank,
        candidate.offer,
        candidate.count,
        candidate.standing,
        candidate.stock,
        candidate.chance,
    )


def _unusable_row(unusable: Unusable, nodes: int) -> PriceTableRow:
    return PriceTableRow(NO_RANK, unusable.offer, nodes, "not set up", off=unusable.reason)


def table_column(spec: PriceColumn, values: Any) -> ColumnData:
    """Return a column with its values as it is stored and shown."""
    if spec.kind in _CODED:
        return ColumnData(spec.key, spec.label, spec.kind, CodedColumn.of(values))
    code = _FORMATS[spec.kind][0]
    numbers = values if spec.kind is ColumnKind.RANK else (NAN if v is None else v for v in values)
    return ColumnData(spec.key, spec.label, spec.kind, array(code, numbers))


def _little_endian(values: Iterable[Any], code: str) -> bytes:
    """Return the values as little-endian bytes of one machine type."""
    packed = (
        values if isinstance(values, array) and values.typecode == code else array(code, values)
    )
    if sys.byteorder == "big":
        packed = array(code, packed)
        packed.byteswap()
    return packed.tobytes()
