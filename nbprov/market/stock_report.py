"""What clouds say of their stock now, beside what they said in the last day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbprov.model.clock import Instant
from nbprov.model.stock import Pool, Stock, StockLevel

from .stock_index import StockIndex

Levels = Sequence[StockLevel | None]
"""The last level that was told in each of several periods, oldest first; None where none was."""


class StockReport:
    """Answers on stock, with the day before them.

    Parameters
    ----------
    stock
        The answers; at least one.
    now
        The instant that ages are counted from.
    last_day
        The levels of pools in the periods of the last day, of which the last one is now.

    Attributes
    ----------
    said
        The answers by pool.
    latest
        When the last of them was given.
    """

    def __init__(
        self, stock: Sequence[Stock], now: Instant, last_day: Mapping[Pool, Levels]
    ) -> None:
        self.said = StockIndex(stock, now=now)
        self.latest = max(one.at for one in stock)
        self._last_day = last_day

    def day_of(self, stock: Stock) -> Levels:
        """Return the levels of an answer's pool in the last day, the answer included."""
        before = self._last_day.get(stock.pool, ())
        return [*before[:-1], stock.level]
