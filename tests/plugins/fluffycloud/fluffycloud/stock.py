"""What is left of each size: FluffyCloud counts, so this is exact at the moment it is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock, StockLevel


def levels(
    sizes: Sequence[Mapping[str, Any]], offers: Iterable[Offer], count: int, at: Instant
) -> list[Stock]:
    """The stock of these offers for `count` machines at once.

    Offers that FluffyCloud does not count are left out: their stock is unknown.
    """
    left = {(size["burrow"], size["size"]): size["left"] for size in sizes}
    said = []
    for offer in offers:
        number = left.get((offer.region, offer.instance_type))
        if number is not None and offer.market is Market.ON_DEMAND:
            level = StockLevel.HIGH
            if number < count:
                level = StockLevel.NONE
            elif number < 2 * count:
                level = StockLevel.LOW
            said.append(Stock(at, offer.pool, level))
    return said
