"""The price table's columns straight from the column store: no offer is built, however many rows.

All steps are a few passes of numpy over codes and numbers, so a table of 700,000 rows costs the
kernel a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbprov.api import Prices
from nbprov.model.offers import moved_words
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock

from .price_columns import column_spec, stock_code
from .price_data import CodedColumn, ColumnData, TableData

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbprov.catalog.store.result import Rows
    from nbprov.market import StockIndex
    from nbprov.market.stock_report import Levels, StockReport

    Array = NDArray[Any]

_COUNT_STEPS = 1_000
"""Counts are told apart to a thousandth of a GPU."""
_TEXTS = {
    "cloud": "cloud",
    "region": "region",
    "zone": "zone",
    "type": "instance_type",
    "as_of": "as_of",
    "country": "country",
    "continent": "continent",
}
"""Columns of the table that are a text column of the store."""
_NUMBERS = {"vcpus": "vcpus", "memory": "memory_gib"}


def table_of_prices(prices: Prices, off: Mapping[str, str] | None = None) -> TableData:
    """Make the price table of all offers of a question.

    What can be launched comes first, each part in the order of the question, which is by price.
    Where no machine was asked for, those with GPUs come before the others.

    Parameters
    ----------
    off
        Why clouds cannot be used, by name; their rows are grey.
    """
    import numpy as np

    rows = prices.rows
    reasons = [(off or {}).get(str(cloud), "") for cloud in rows.table("cloud")]
    rank = _rank(prices, reasons)
    sorted_rows = rows.take(rank)
    made: dict[str, CodedColumn | Array] = {
        key: _coded(sorted_rows.codes(name), rows.table(name)) for key, name in _TEXTS.items()
    }
    made |= {key: sorted_rows.column(name).astype(np.float32) for key, name in _NUMBERS.items()}
    count = sorted_rows.column("accelerator_count").astype(np.float64)
    hourly = sorted_rows.column("hourly").astype(np.float64)
    memory = np.round(sorted_rows.column("accelerator_memory_gib"), 1)
    made |= {
        "rank": rank,
        "hourly": hourly,
        "gpu_hourly": hourly / np.where(count > 0, count, np.nan),
        "gpu": _gpus(sorted_rows, count),
        "market": _coded(
            sorted_rows.codes("is_spot").astype(np.uint8),
            np.array((Market.ON_DEMAND, Market.SPOT), dtype=object),
        ),
        "other": _other_market(sorted_rows),
        "gpu_memory": np.where(memory > 0, memory, np.nan).astype(np.float32),
        "source": _sources(sorted_rows),
        "off": _coded(sorted_rows.codes("cloud"), np.array(reasons, dtype=object)),
    }
    # Where nobody asked there is a column all the same, whose values may come while it is shown.
    nothing = CodedColumn(np.zeros(len(rows), dtype=np.uint8), ("",))
    made["stock"] = nothing if prices.said is None else _stock(sorted_rows, prices.said)
    return TableData(
        _columns(made),
        len(rows),
        len(rows),
        off={
            str(cloud): reason
            for cloud, reason in zip(rows.table("cloud"), reasons, strict=True)
            if reason and str(cloud) in _words_of(made["cloud"])
        },
    )


def stock_column(prices: Prices, table: TableData, report: StockReport) -> ColumnData:
    """Return the stock of the offers of a table that `table_of_prices` made, in its order."""
    import numpy as np

    ranks = next(column.values for column in table.columns if column.key == "rank")
    rows = prices.rows.take(np.asarray(ranks))
    (column,) = _columns({"stock": _stock(rows, report.said, report.day_of)})
    return column


def _columns(made: Mapping[str, CodedColumn | Array]) -> tuple[ColumnData, ...]:
    return tuple(
        ColumnData(
            spec.key,
            spec.label,
            spec.kind,
            made[spec.key],
            spec.is_drawn and spec.key != "rank",
        )
        for spec in column_spec(made)
    )


def _rank(prices: Prices, reasons: Sequence[str]) -> Array:
    """The rows in the order of the table; `reasons` say for each cloud why it cannot be used."""
    import numpy as np

    rows = prices.rows
    is_off = np.array([bool(reason) for reason in reasons], dtype=bool)[rows.codes("cloud")]
    has_none = rows.column("accelerator_count") == 0
    later = 2 * is_off + (has_none & (not prices.query.names_hardware))
    return np.argsort(later, kind="stable").astype(np.int32)


def _words_of(column: CodedColumn | Array) -> Sequence[str]:
    assert isinstance(column, CodedColumn)
    return column.words


def _coded(codes: Array, words: Array) -> CodedColumn:
    """Return a coded column that holds only the words in use, each once."""
    import numpy as np

    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    index: dict[str, int] = {}
    places = [index.setdefault(str(words[code]), len(index)) for code in used.tolist()]
    # In the type that the page is sent, where it can be: a smaller one takes less time.
    new = np.zeros(len(words), dtype=np.uint8 if len(index) <= 0x100 else np.uint32)
    new[used] = places
    return CodedColumn(new.take(codes), tuple(index))


def _gpus(rows: Rows, count: Array) -> CodedColumn:
    import numpy as np

    names = rows.table("accelerator")
    steps = np.round(count * _COUNT_STEPS).astype(np.int64)
    width = int(steps.max(initial=0)) + 1
    pairs = rows.codes("accelerator").astype(np.int64) * width + steps
    used = np.flatnonzero(np.bincount(pairs, minlength=1))
    words = [
        f"{names[pair // width]}:{pair % width / _COUNT_STEPS:g}" if names[pair // width] else ""
        for pair in used.tolist()
    ]
    new = np.zeros(int(used[-1]) + 1 if len(used) else 1, dtype=np.uint32)
    new[used] = np.arange(len(used))
    return _coded(new.take(pairs), np.array(words, dtype=object))


def _other_market(rows: Rows) -> Array:
    """Return the price of the same machine in the same place on the other market, or NaN."""
    import numpy as np

    key = np.zeros(len(rows), dtype=np.int64)
    for name in ("cloud", "region", "zone", "instance_type"):
        key = key * len(rows.table(name)) + rows.codes(name)
    is_spot, hourly = rows.column("is_spot").astype(bool), rows.column("hourly").astype(np.float64)
    other = np.full(len(rows), np.nan)
    for mine in (is_spot, ~is_spot):
        theirs = np.flatnonzero(~mine)
        theirs = theirs[np.lexsort((hourly[theirs], key[theirs]))]
        if not len(theirs):
            continue
        place = np.minimum(np.searchsorted(key[theirs], key[mine]), len(theirs) - 1)
        met = key[theirs][place] == key[mine]
        other[mine] = np.where(met, hourly[theirs][place], np.nan)
    return other


def _sources(rows: Rows) -> CodedColumn:
    """Return where prices come from; a price that moved by more than half says what it was."""
    import numpy as np

    base = _coded(rows.codes("source"), rows.table("source"))
    moved_from, hourly = rows.column("moved_from"), rows.column("hourly")
    moved = np.flatnonzero(moved_from)
    if not len(moved):
        return base
    codes, words = np.array(base.codes), list(base.words)
    index: dict[str, int] = {}
    for row in moved.tolist():
        why = moved_words(int(moved_from[row]), int(hourly[row]))
        word = f"{why} · {words[codes[row]]}".removesuffix(" · ")
        codes[row] = len(words) + index.setdefault(word, len(index))
    return CodedColumn(codes, (*words, *index))


def _stock(
    rows: Rows, said: StockIndex, day_of: Callable[[Stock], Levels] = lambda stock: ()
) -> CodedColumn:
    """Return the reports as coded words; only the rows that a report may be about are looked up."""
    import numpy as np

    told = [*said.types]
    clouds = _named(rows, "cloud", {cloud for cloud, _, _ in told})
    about = np.flatnonzero(clouds & _named(rows, "instance_type", {name for _, name, _ in told}))
    picked = rows.take(about)
    places = zip(
        *(picked.column(name) for name in ("cloud", "region", "zone", "instance_type", "market")),
        strict=True,
    )
    index: dict[str, int] = {"": 0}
    codes = np.zeros(len(rows), dtype=np.uint32)
    for row, place in zip(about.tolist(), places, strict=True):
        stock = said.fresh(Pool(*map(str, place)))
        word = stock_code(stock, () if stock is None else day_of(stock))
        codes[row] = index.setdefault(word, len(index))
    return CodedColumn(codes, tuple(index))


def _named(rows: Rows, column: str, names: set[str]) -> Array:
    """Return which rows have one of these names; an empty name stands for all."""
    import numpy as np

    if "" in names:
        return np.ones(len(rows), dtype=bool)
    is_named = np.array([str(word) in names for word in rows.table(column)], dtype=bool)
    return np.asarray(is_named[rows.codes(column)])
