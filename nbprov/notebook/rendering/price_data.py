"""The price table's data as columns, from a plan, from offers or from a column store; what the browser and the static forms both show."""

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
from nbprov.model.errors import UsageError
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer, Plan, Unusable
from nbprov.model.stock import Pool, Stock, StockLevel

from .formatting import DASH, age_words, number_words, stock_words

NAN = math.nan
GREYED = 5
"""Clouds that are not set up and have a row below a plan, the cheapest; all are named in the lines beside it."""
NO_RANK = -1
"""Of a row that no launch takes."""


class Kind(StrEnum):
    """How a column is stored, shown and sorted. Stock is kept as a level and its instant, so that the age shown is that of the moment."""

    RANK = "rank"
    TEXT = "text"
    DATE = "date"
    STOCK = "stock"
    MONEY = "money"
    NUMBER = "number"


class Row(NamedTuple):
    """What a row of the price table is made from; `off` says why its cloud cannot be used, where it cannot."""

    rank: int
    offer: Offer
    nodes: int = 1
    why: str = ""
    stock: Stock | None = None
    chance: str = ""
    off: str = ""


class PriceColumn(NamedTuple):
    """One column of the price table: its key, header, kind, and where its value comes from (micros for money, None for unknown)."""

    key: str
    label: str
    kind: Kind
    value: Callable[[Row], Any]


COLUMNS: tuple[PriceColumn, ...] = (
    PriceColumn("rank", "#", Kind.RANK, lambda r: r.rank),
    PriceColumn("gpu", "GPU", Kind.TEXT, lambda r: r.offer.gpus if r.offer.accelerator else ""),
    PriceColumn("cloud", "cloud", Kind.TEXT, lambda r: r.offer.cloud),
    PriceColumn("region", "region", Kind.TEXT, lambda r: r.offer.region),
    PriceColumn("zone", "zone", Kind.TEXT, lambda r: r.offer.zone),
    PriceColumn("type", "type", Kind.TEXT, lambda r: r.offer.instance_type),
    PriceColumn("market", "market", Kind.TEXT, lambda r: r.offer.market.value),
    PriceColumn("hourly", "$/h", Kind.MONEY, lambda r: r.offer.hourly),
    PriceColumn("total", "$/h, all nodes", Kind.MONEY, lambda r: r.offer.hourly * r.nodes),
    PriceColumn("vcpus", "vCPU", Kind.NUMBER, lambda r: r.offer.vcpus),
    PriceColumn("memory", "GiB", Kind.NUMBER, lambda r: r.offer.memory_gib),
    PriceColumn(
        "gpu_memory",
        "GPU GiB",
        Kind.NUMBER,
        lambda r: r.offer.accelerator_memory_gib and round(r.offer.accelerator_memory_gib, 1),
    ),
    PriceColumn("stock", "stock", Kind.STOCK, lambda r: stock_code(r.stock)),
    PriceColumn("chance", "chance", Kind.TEXT, lambda r: r.chance),
    PriceColumn("why", "why here", Kind.TEXT, lambda r: r.why),
    PriceColumn("source", "source", Kind.TEXT, lambda r: r.offer.source),
    PriceColumn("as_of", "age", Kind.DATE, lambda r: r.offer.as_of),
    PriceColumn("off", "", Kind.TEXT, lambda r: r.off),
)
"""All columns the table knows, in the order shown. `off` is none that is drawn: its rows are grey, and say so on hover and below."""

_BY_KEY = {c.key: c for c in COLUMNS}
_CODED = (Kind.TEXT, Kind.DATE, Kind.STOCK)
_FORMATS: dict[Kind, tuple[str, str]] = {
    Kind.RANK: ("i", "i4"),
    Kind.MONEY: ("d", "f8"),
    Kind.NUMBER: ("f", "f4"),
}


def stock_code(stock: Stock | None) -> str:
    """A statement of stock as one word, `high@1790000000.0`; empty where there is none."""
    return "" if stock is None else f"{stock.level.value}@{stock.at!r}"


def _decoded(word: str) -> Stock | None:
    level, _, at = word.partition("@")
    return Stock(float(at), Pool("", "", "", "", ""), StockLevel(level)) if level else None


@dataclass(frozen=True, slots=True)
class Coded:
    """A text column in dictionary form: `words[codes[i]]` is row i. Codes may be a numpy array."""

    codes: Sequence[int]
    words: Sequence[str]

    @classmethod
    def of(cls, values: Iterable[Any]) -> Coded:
        """Code a column of texts; None and empty stand for unknown."""
        index: dict[str, int] = {}
        codes = array(
            "I", (index.setdefault(str(v) if v is not None else "", len(index)) for v in values)
        )
        return cls(codes, tuple(index))


@dataclass(frozen=True, slots=True)
class ColumnData:
    """A column with its values: `Coded` for text and dates, else numbers (NaN is unknown; money is in micros)."""

    key: str
    label: str
    kind: Kind
    values: Coded | Sequence[float]

    def cell(self, row: int, today: date, now: Instant = 0.0) -> str:
        """The cell as a person reads it; `now` is what the age of a stock counts to."""
        if isinstance(self.values, Coded):
            word = str(self.values.words[int(self.values.codes[row])])
            if self.kind is Kind.STOCK:
                return stock_words(_decoded(word), now)
            return age_words(word, today) if self.kind is Kind.DATE else word or DASH
        value = float(self.values[row])
        if self.kind is Kind.RANK:
            return DASH if value == NO_RANK else str(int(value) + 1)
        if self.kind is Kind.MONEY:
            return DASH if value != value else format_usd(int(value))
        return number_words(value)


class Packed(NamedTuple):
    """A table ready for the browser: a JSON header and one binary buffer a column, little-endian."""

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
        How many rows there are in all; more than `rows` where the table was cut.
    noun
        What a row is: `offer` or `candidate`.
    tail
        So many of the rows, the last ones, are no candidates: what clouds that are not set up would offer. Not counted in `total`.
    """

    columns: tuple[ColumnData, ...]
    rows: int
    total: int
    noun: str = "offer"
    tail: int = 0

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Any], *, total: int | None = None, noun: str = "offer"
    ) -> TableData:
        """Make a table of lists, numpy arrays or `Coded` columns under the keys of `COLUMNS`.

        Texts are unknown where empty, numbers where NaN, money is in micros. `rank` is made where it is not given.

        Raises
        ------
        UsageError
            An unknown key, or columns of unequal length.
        """
        unknown = [key for key in columns if key not in _BY_KEY]
        if unknown:
            raise UsageError(
                f"the price table has no column {unknown[0]!r}",
                hint=f"its columns are {', '.join(_BY_KEY)}",
            )
        lengths = {len(v.codes) if isinstance(v, Coded) else len(v) for v in columns.values()}
        if len(lengths) > 1:
            raise UsageError(
                f"the columns have unequal lengths: {', '.join(str(n) for n in sorted(lengths))}"
            )
        rows = lengths.pop() if lengths else 0
        given = {"rank": range(rows), **columns}
        made = tuple(_column(spec, given[spec.key]) for spec in COLUMNS if spec.key in given)
        return cls(made, rows, rows if total is None else total, noun)

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
        """Make a table of offers in their order.

        Parameters
        ----------
        stock
            Tells what a cloud said of an offer's stock.
        off
            Why clouds cannot be used, by name: their rows are grey.
        """
        known, why = stock or (lambda offer: None), off or {}
        rows = [
            Row(i, offer, stock=known(offer), off=why.get(offer.cloud, ""))
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
        """Make a table of a plan's candidates in the plan's order, with their rank and why they stand there; below, grey, who is not set up."""
        rows = [_candidate_row(c) for c in islice(plan.candidates, limit)]
        without = set() if any(r.nodes > 1 for r in rows) else {"total"}
        tail = [_unusable_row(u, plan.spec.num_nodes) for u in plan.unusable[:GREYED]]
        return cls._of_rows(
            [*rows, *tail], len(plan.candidates), "candidate", without=without, tail=len(tail)
        )

    @classmethod
    def _of_rows(
        cls, rows: Sequence[Row], total: int, noun: str, *, without: set[str], tail: int = 0
    ) -> TableData:
        specs = [c for c in COLUMNS if c.key not in without]
        return cls(
            tuple(_column(c, [c.value(r) for r in rows]) for c in specs),
            len(rows),
            total,
            noun,
            tail,
        )

    def cells(self, row: int, today: date, now: Instant = 0.0) -> dict[str, str]:
        """One row as a person reads it, by column key."""
        return {c.key: c.cell(row, today, now) for c in self.columns}

    def off(self) -> dict[str, str]:
        """Why each cloud with a grey row cannot be used, by its name."""
        columns = {c.key: c.values for c in self.columns}
        reasons, clouds = columns.get("off"), columns.get("cloud")
        if not (isinstance(reasons, Coded) and isinstance(clouds, Coded)) or not any(reasons.words):
            return {}
        pairs = {(int(c), int(r)) for c, r in zip(clouds.codes, reasons.codes, strict=True)}
        return {
            str(clouds.words[c]): str(reasons.words[r])
            for c, r in sorted(pairs)
            if reasons.words[r]
        }

    def pack(self) -> Packed:
        """The table as one binary buffer a column; texts as codes into a dictionary."""
        heads: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        for column in self.columns:
            head: dict[str, Any] = {
                "key": column.key,
                "label": column.label,
                "kind": column.kind.value,
            }
            if isinstance(column.values, Coded):
                small = len(column.values.words) <= 0x10000
                code, dtype = ("H", "u2") if small else ("I", "u4")
                head["words"] = [str(w) for w in column.values.words]
                buffers.append(_little_endian(column.values.codes, code, dtype))
            else:
                code, dtype = _FORMATS[column.kind]
                buffers.append(_little_endian(column.values, code, dtype))
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


def _candidate_row(candidate: Candidate) -> Row:
    # The chance has a column of its own, so that a narrow terminal does not cut it off.
    chance = "" if candidate.success is None else f"{candidate.success:.0%} likely"
    why = candidate.why.removesuffix(chance).removesuffix(", ") if chance else candidate.why
    return Row(candidate.rank, candidate.offer, candidate.count, why, candidate.stock, chance)


def _unusable_row(unusable: Unusable, nodes: int) -> Row:
    return Row(NO_RANK, unusable.offer, nodes, "not set up", off=unusable.reason)


def _column(spec: PriceColumn, values: Any) -> ColumnData:
    if spec.kind in _CODED:
        return ColumnData(
            spec.key,
            spec.label,
            spec.kind,
            values if isinstance(values, Coded) else Coded.of(values),
        )
    if not hasattr(values, "dtype"):
        code = _FORMATS[spec.kind][0]
        values = (
            array(code, values)
            if spec.kind is Kind.RANK
            else array(code, (NAN if v is None else v for v in values))
        )
    return ColumnData(spec.key, spec.label, spec.kind, values)


def _little_endian(values: Any, code: str, dtype: str) -> bytes:
    """The values as bytes of one machine type; numpy arrays are converted by numpy, all else by the standard library."""
    if hasattr(values, "astype"):
        return bytes(values.astype(f"<{dtype}").tobytes())
    packed = (
        values if isinstance(values, array) and values.typecode == code else array(code, values)
    )
    if sys.byteorder == "big":
        packed = array(code, packed)
        packed.byteswap()
    return packed.tobytes()
