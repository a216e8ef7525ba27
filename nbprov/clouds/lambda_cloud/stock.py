"""What Lambda's list of instance types says of stock and prices.

`GET /instance-types` names, for each type, the regions that have stock now: yes or no, no numbers. It is a good hint and no promise: of
eleven launches inside such windows three were refused (a public log of 2026), so a yes counts as medium and never as high.
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
    """The answer, checked.

    Raises
    ------
    CloudError
        `transient` where it has not the documented shape: nothing is concluded from half an answer.
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
    """The stock of these offers. A type that is not in the list is not sold to this account: none."""
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
    """The price of one machine an hour; None where the list has no such type, or no price for it."""
    said = types.get(instance_type, {}).get("instance_type")
    cents = said.get("price_cents_per_hour") if isinstance(said, dict) else None
    if isinstance(cents, bool) or not isinstance(cents, int) or cents <= 0:
        return None
    return cents * MICROS_PER_USD // 100
