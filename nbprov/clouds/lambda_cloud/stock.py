"""What Lambda's list of instance types tells about stock and prices.

`GET /instance-types` names the regions that have stock now for each type: yes or no, no numbers. It
is a good hint and no promise: of eleven launches that it promised three were refused (a public log
of 2026), so yes counts as medium and never as high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbprov.clouds.pricing.region_fetch import expect
from nbprov.model.clock import Instant
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock, StockLevel

Types = Mapping[str, Mapping[str, Any]]
"""The `data` of the answer: the entry of each type by its name."""


def read(data: Any) -> Types:
    """Read the answer.

    Raises
    ------
    CloudError
        `transient` if it does not have the documented shape: no conclusion is drawn from part of
        it.
    """
    types = expect(data, dict, "Lambda's list of instance types")
    for name, entry in types.items():
        places = expect(
            expect(entry, dict, f"Lambda's entry {name}").get("regions_with_capacity_available"),
            list,
            f"the stock of {name}",
        )
        for place in places:
            expect(
                expect(place, dict, f"a region of {name}").get("name"),
                str,
                f"a region's name of {name}",
            )
    return types


def levels(types: Types, offers: Iterable[Offer], at: Instant) -> list[Stock]:
    """Return the stock of these offers; a type that is not listed is not sold to this account."""
    said = []
    for offer in offers:
        if offer.market is not Market.ON_DEMAND:
            continue
        entry = types.get(offer.instance_type)
        places = (
            {place["name"] for place in entry["regions_with_capacity_available"]}
            if entry
            else set()
        )
        said.append(
            Stock(at, offer.pool, StockLevel.MEDIUM if offer.region in places else StockLevel.NONE)
        )
    return said


def hourly(types: Types, instance_type: str) -> Micros | None:
    """Return the hourly price of one machine; None if the list has no price for it."""
    said = types.get(instance_type, {}).get("instance_type")
    cents = said.get("price_cents_per_hour") if isinstance(said, dict) else None
    if isinstance(cents, bool) or not isinstance(cents, int) or cents <= 0:
        return None
    return cents * MICROS_PER_USD // 100
