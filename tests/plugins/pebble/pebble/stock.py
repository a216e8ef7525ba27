"""The stock that Pebble reports before a launch."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock, StockLevel

from .api import api


def levels(offers: Sequence[Offer], count: int) -> list[Stock]:
    """Return the stock of these offers for `count` machines at once, as far as it is known."""
    told = api().call("GET", "/types", seconds=STOCK_SECONDS)
    left = {(k["name"], region): n for k in told for region, n in k["left"].items()}
    found = []
    for offer in offers:
        number = left.get((offer.instance_type, offer.region))
        if number is not None and offer.market is Market.ON_DEMAND:
            enough = StockLevel.HIGH if number >= 2 * count else StockLevel.LOW
            level = enough if number >= count else StockLevel.NONE
            found.append(Stock(time.time(), offer.pool, level))
    return found
