"""The price table's data as columns, made from a plan, from offers or from a column store.

The browser and the static forms show the same data.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Instant
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer, Plan, Unusable
from nbprov.model.stock import Pool, Stock, StockLevel

from .formatting import DASH, format_age, format_number, format_stock
from .price_columns import COLUMNS, ColumnKind, PriceColumn, PriceTableRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = Sequence[int] | NDArray[Any]
    Numbers = Sequence[float] | NDArray[Any]

NAN = math.nan
GREYED = 5
"""The most grey rows below a plan, for clouds that are not set up. The cheapest are shown; the
lines beside the table name all of them."""
NO_RANK = -1
"""The rank of a row that no launch uses."""


_CODED = (ColumnKind.TEXT, ColumnKind.DATE, ColumnKind.STOCK)
_TYPE_CODES = {ColumnKind.RANK: "i", ColumnKind.MONEY: "d", ColumnKind.NUMBER: "f"}


def _stock_from_code(word: str) -> Stock | None:
    if not word:
        return None
    level, at = word.split("@")[:2]  # levels of the last day may follow
    return Stock(float(at), Pool("", "", "", "", ""), StockLevel(level))


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A text column in dictionary form: `words[codes[i]]` is row i."""

    codes: Codes
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
    is_drawn
        Whether the table shows it.
    """

    key: str
    label: str
    kind: ColumnKind
    values: CodedColumn | Numbers
    is_drawn: bool = True

    @property
    def has_values(self) -> bool:
        """Whether any row has a value; a table without rows keeps all its columns."""
        if isinstance(self.values, CodedColumn):
            return any(self.values.words) or not len(self.values.codes)
        if not len(self.values):
            return True
        if not isinstance(self.values, array):
            return bool((self.values == self.values).any())  # type: ignore[union-attr]
        return any(value == value for value in self.values)

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
    off
        Why each cloud with a grey row cannot be used, by its name.
    """

    columns: tuple[ColumnData, ...]
    rows: int
    total: int
    noun: str = "offer"
    tail: int = 0
    off: Mapping[str, str] = field(default_factory=dict)

    def with_column(self, column: ColumnData) -> TableData:
        """Return the table with this column in the place of the one with its key."""
        columns = (column if one.key == column.key else one for one in self.columns)
        return replace(self, columns=tuple(columns))

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
            without={"total", "why", "chance", "other", "country", "continent"},
            hidden={"rank"},
            off={cloud: why[cloud] for cloud in sorted({row.offer.cloud for row in rows} & {*why})},
        )

    @classmethod
    def from_plan(cls, plan: Plan, *, limit: int | None = None) -> TableData:
        """Make a table of a plan's candidates in the plan's order, with rank and reason.

        Below them stand, in grey, offers of clouds that are not set up.
        """
        rows = [_candidate_row(c) for c in islice(plan.candidates, limit)]
        without = {"other", "country", "continent"}
        without |= set() if any(r.nodes > 1 for r in rows) else {"total"}
        tail = [_unusable_row(u, plan.spec.num_nodes) for u in plan.unusable[:GREYED]]
        return cls._of_rows(
            [*rows, *tail],
            len(plan.candidates),
            "candidate",
            without=without,
            tail=len(tail),
            off={row.offer.cloud: row.off for row in tail},
        )

    @classmethod
    def _of_rows(
        cls,
        rows: Sequence[PriceTableRow],
        total: int,
        noun: str,
        *,
        without: set[str],
        hidden: Container[str] = (),
        tail: int = 0,
        off: Mapping[str, str],
    ) -> TableData:
        specs = [
            c._replace(is_drawn=c.is_drawn and c.key not in hidden)
            for c in COLUMNS
            if c.key not in without
        ]
        return cls(
            tuple(table_column(c, [c.value(r) for r in rows]) for c in specs),
            len(rows),
            total,
            noun,
            tail,
            off,
        )

    def cells(self, row: int, today: date, now: Instant = 0.0) -> dict[str, str]:
        """Return one row as a person reads it, by column key."""
        return {
            c.key: c.cell(row, today, now) for c in self.columns if c.is_drawn or c.key == "off"
        }


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
    standing = "no answer" if unusable.silent else "not set up"
    return PriceTableRow(NO_RANK, unusable.offer, nodes, standing, off=unusable.reason)


def table_column(spec: PriceColumn, values: Any) -> ColumnData:
    """Return a column with its values as it is stored and shown."""
    if spec.kind in _CODED:
        return ColumnData(spec.key, spec.label, spec.kind, CodedColumn.of(values), spec.is_drawn)
    code = _TYPE_CODES[spec.kind]
    numbers = values if spec.kind is ColumnKind.RANK else (NAN if v is None else v for v in values)
    return ColumnData(spec.key, spec.label, spec.kind, array(code, numbers), spec.is_drawn)
