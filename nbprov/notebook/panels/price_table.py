"""The price table as a panel of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.offers import Offer, Plan
from nbprov.notebook.rendering.packed_table import packed_column
from nbprov.notebook.rendering.price_data import ColumnData, TableData
from nbprov.notebook.rendering.prices import off_lines, table_html, table_text

from .panel import Panel, RankCallback, call


def table_of(source: TableData | Plan | Sequence[Offer]) -> TableData:
    """Return the table of a plan's candidates or of offers; a table is returned unchanged."""
    if isinstance(source, TableData):
        return source
    return (
        TableData.from_plan(source) if isinstance(source, Plan) else TableData.from_offers(source)
    )


class PriceTable(Panel[TableData]):
    """A table of prices of any length that sorts and filters in the browser.

    Parameters
    ----------
    source
        A `TableData`, a plan, or offers.
    title
        The line above the table.
    on_select
        Called with the rank of the row that the person chose; 0 is the first row as given.
    on_look
        Called now and then while somebody sees the table; it may answer with `renew_column`.
    now
        When the prices were looked up, for the static form.

    Examples
    --------
    >>> print(PriceTable([], title="prices of A100"))
    prices of A100: no offers
    """

    def __init__(
        self,
        source: TableData | Plan | Sequence[Offer],
        *,
        title: str = "",
        on_select: RankCallback | None = None,
        on_look: Callable[[], None] | None = None,
        now: Instant = 0.0,
    ) -> None:
        self._title, self._on_select, self._now = title, on_select, now
        self._on_look = on_look
        super().__init__(table_of(source))

    def update(self, view: TableData | Plan | Sequence[Offer]) -> None:
        """Show other prices. May be called from any thread."""
        super().update(table_of(view))

    def renew_column(self, make: Callable[[TableData], ColumnData]) -> None:
        """Give a column of the table other values: the one that `make` returns for the table.

        The saved form stays as it is. May be called from any thread.
        """
        with self._lock:
            column = make(self._view)
            self._view = self._view.with_column(column)
            head, values, _ = packed_column(column)
            content = {"type": "column", "view": "", "version": self._version, "column": head}
            self._send(content, [values])

    def state(self) -> dict[str, Any]:
        return {
            "title": self._heading(),
            "version": self._version,
            "asks_stock": self._on_look is not None,
            "notes": off_lines(self._view.off, in_brackets=False),
        }

    def html(self) -> str:
        return table_html(self._view, heading=self._heading(), now=self._now)

    def text(self) -> str:
        return table_text(self._view, heading=self._heading(), now=self._now)

    def _heading(self) -> str:
        if self._view.rows > self._view.tail:
            return self._title
        return f"{self._title}: no {self._view.noun}s" if self._title else f"no {self._view.noun}s"

    def _widget_class(self) -> Callable[..., Any]:
        from .widget import PriceTableWidget

        return PriceTableWidget

    def _table(self, view: TableData) -> TableData:
        return view

    def _has_new_table(self, before: TableData, after: TableData) -> bool:
        return before is not after

    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "select":
            call(self._on_select, int(content["rank"]))
        elif kind == "look":
            call(self._on_look)
        elif kind == "frame":
            (ranks,) = content["buffers"]
            self.notice(self._make_frame(memoryview(ranks).cast("B").cast("I").tolist()))

    def _make_frame(self, ranks: Sequence[int]) -> str:
        """Make a DataFrame of the rows with these ranks, and return what to tell the person."""
        return "these rows have no DataFrame: %prices has one"
