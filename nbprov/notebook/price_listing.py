"""`%prices`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from nbprov.api import Prices, session
from nbprov.model.money import usd
from nbprov.model.places import Market

from .panels import PriceTable
from .rendering import TableData

LISTED = 40_000
"""Offers that go to the browser: what its table sorts and scrolls without a pause."""


class PriceResult(PriceTable):
    """The table in the cell, and the data behind it: `x = %prices A100`, then `x.to_frame()`, `len(x)`, `x[0]`."""

    def __init__(self, prices: Prices, title: str) -> None:
        self.prices = prices
        super().__init__(TableData.from_offers(prices.offers(LISTED)), title=title, now=time.time())

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an offer; prices in US dollars an hour a node."""
        return self.prices.to_frame()

    def __len__(self) -> int:
        return len(self.prices)

    def __getitem__(self, index: int) -> Any:
        return self.prices[index]


def list_prices(shell: Any, arguments: argparse.Namespace) -> PriceResult:
    """The answer to a `%prices` line; shown because it is the cell's value."""
    from nbprov.catalog import Query

    market = Market.SPOT if arguments.spot else Market.ON_DEMAND if arguments.on_demand else None
    query = Query(
        cloud=tuple(arguments.cloud),
        region=tuple(arguments.region),
        market=market,
        max_hourly=None if arguments.max_price is None else usd(arguments.max_price),
    )
    prices = session().prices(arguments.accelerator, query=query, live=arguments.live)
    what = arguments.accelerator or "everything"
    return PriceResult(prices, f"prices of {what}: {len(prices):,} offers" if len(prices) else f"prices of {what}")
