"""What is left of each size: FluffyCloud counts, so this is exact at the moment it is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Level, Pool, Stock


def levels(
    sizes: Sequence[Mapping[str, Any]], offers: Iterable[Offer], count: int, at: Instant
) -> list[Stock]:
    """The stock of these offers for `count` machines at once.

    What FluffyCloud does not count is left out: nothing said, nothing known.
    """
    left = {(size["burrow"], size["size"]): size["left"] for size in sizes}
    said = []
    for offer in offers:
        number = left.get((offer.region, offer.instance_type))
        if number is not None and offer.market is Market.ON_DEMAND:
            level = Level.HIGH if number >= 2 * count else Level.LOW
            if number < count:
                level = Level.NONE
            said.append(Stock(at, Pool.of(offer), level))
    return said
