"""Reader of the Cloud Billing catalogue: which of its 30,000 lines prices which part of a machine.

A line (SKU) has no key that names the part, only a description: "Spot Preemptible N2 Instance Core
running in Americas". Descriptions are matched **whole**, after the market and the place are cut
off, against the list below. That alone keeps out similar lines that cost something else:
commitments, sole tenancy, custom shapes, "Reserved …", DWS and calendar mode, virtual workstations,
other families. A part with two different prices in one region has none: it is counted and never
guessed.

The shape of a SKU is that of Google's `cloudbilling.v1` Discovery document. The descriptions are
those of google-cloud-pricing-cost-calculator `build/mapping.csv` (Apache-2.0) and of three other
public price tools that agree with it, read in 2026-11.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

SERVICE = "6F81-5844-456A"
"""The id of Compute Engine in the billing catalogue."""
HOURS_A_MONTH = 730
"""The number by which Google divides a monthly price of storage."""
_GB_IN_GIB = Decimal(2**30) / Decimal(10**9)


class PartKind(StrEnum):
    """The kind of a part."""

    CORE = "core"
    MEMORY = "memory"
    DEVICE = "device"
    SSD = "local SSD"


class BilledPart(NamedTuple):
    """One part that is billed: cores and memory by family, accelerators by name."""

    kind: PartKind
    of: str = ""

    def __str__(self) -> str:
        return f"{self.of} {self.kind}".strip()


SSD = BilledPart(PartKind.SSD)

_FAMILIES = {
    "n1": ("N1 Predefined Instance"),
    "n2": "N2 Instance",
    "n2d": "N2D AMD Instance",
    "n4": "N4 Instance",
    "e2": "E2 Instance",
    "t2d": "T2D AMD Instance",
    "c2d": "C2D AMD Instance",
    "c3": "C3 Instance",
    "a2": "A2 Instance",
    "a3": "A3 Instance",
    "a3plus": "A3Plus Instance",
    "a3ultra": "A3Ultra Instance",
    "g2": "G2 Instance",
    "g4": "G4 Instance",
}
_DEVICES = {
    "Nvidia Tesla K80 GPU": "K80",
    "Nvidia Tesla P4 GPU": "P4",
    "Nvidia Tesla P100 GPU": "P100",
    "Nvidia Tesla T4 GPU": "T4",
    "Nvidia Tesla V100 GPU": "V100",
    "Nvidia Tesla A100 GPU": "A100",
    "Nvidia Tesla A100 80GB GPU": "A100-80GB",
    "Nvidia L4 GPU": "L4",
    "Nvidia H100 80GB GPU": "H100",
    "Nvidia H100 80GB Mega GPU": "H100-MEGA",
    "Nvidia H100 Mega 80GB GPU": "H100-MEGA",
    "Nvidia H100 80GB Plus GPU": "H100-MEGA",
    "H200 141GB GPU": "H200",
    "A4 Nvidia B200 (1 gpu slice)": "B200",
    "RTX 6000 96GB": "RTXPRO6000",
}
_SENTENCES: dict[str, BilledPart] = {
    **{f"{words} Core": BilledPart(PartKind.CORE, family) for family, words in _FAMILIES.items()},
    **{f"{words} Ram": BilledPart(PartKind.MEMORY, family) for family, words in _FAMILIES.items()},
    **{
        f"Compute optimized {infix}Core": BilledPart(PartKind.CORE, "c2")
        for infix in ("", "Instance ")
    },
    **{
        f"Compute optimized {infix}Ram": BilledPart(PartKind.MEMORY, "c2")
        for infix in ("", "Instance ")
    },
    **{words: BilledPart(PartKind.DEVICE, name) for words, name in _DEVICES.items()},
    "SSD backed Local Storage": SSD,
}
_PLACE = re.compile(r"(?: running)?(?: in [A-Z].*)?$")
_SPOT_HEAD = re.compile(r"^(?:Spot )?Preemptible ")
_SPOT_TAIL = re.compile(r" attached to (?:Spot )?Preemptible VMs?$")
# Accelerators with these words are known and left out on purpose.
_OTHER_DEALS = re.compile(
    (
        r"commit|sole tenancy|reserved|dws|defined duration|calendar|capacity optimized|virtual "
        r"workstation|custom"
    ),
    re.IGNORECASE,
)
# The unit of a price, and how much of the unit that a part is counted in (an hour of one core, one
# GiB or one device) it is for.
_UNITS: Mapping[PartKind, Mapping[str, Decimal]] = {
    PartKind.CORE: {"h": Decimal(1)},
    PartKind.DEVICE: {"h": Decimal(1)},
    PartKind.MEMORY: {"GiBy.h": Decimal(1), "GBy.h": 1 / _GB_IN_GIB},
    PartKind.SSD: {"GiBy.mo": Decimal(HOURS_A_MONTH), "GBy.mo": HOURS_A_MONTH / _GB_IN_GIB},
}


class Priced(NamedTuple):
    """The content of one SKU.

    Dollars an hour for one unit of a part, in a market, in these regions.
    """

    part: BilledPart
    spot: bool
    dollars: Decimal
    regions: tuple[str, ...]


@dataclass(slots=True)
class Rates:
    """Dollars an hour for one unit, by part, market and region.

    Attributes
    ----------
    disputed
        Parts with two different prices in a region, which therefore have none.
    unknown
        Accelerators sold by the hour that have no name here, with the number of their lines.
    unreadable
        The number of lines of known parts without a readable price.
    """

    by_place: dict[tuple[str, BilledPart, bool], Decimal] = field(default_factory=dict)
    regions: set[str] = field(default_factory=set)
    disputed: set[tuple[str, BilledPart, bool]] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0

    def of(self, region: str, part: BilledPart, *, spot: bool) -> Decimal | None:
        """Return the price of a part; None if the list has none, or two."""
        return self.by_place.get((region, part, spot))


def rates(skus: Iterable[Mapping[str, Any]]) -> Rates:
    """Read the lines, in any order."""
    found = Rates()
    said: dict[tuple[str, BilledPart, bool], set[Decimal]] = defaultdict(set)
    for sku in skus:
        part, spot = part_of(sku)
        if part is None:
            _note_unknown(sku, found)
            continue
        priced = _priced(sku, part, spot)
        if priced is None:
            found.unreadable += 1
            continue
        for region in priced.regions:
            said[region, part, spot].add(priced.dollars)
    for place, prices in said.items():
        found.regions.add(place[0])
        if len(prices) == 1:
            found.by_place[place] = prices.pop()
        else:
            found.disputed.add(place)
    return found


def part_of(sku: Mapping[str, Any]) -> tuple[BilledPart | None, bool]:
    """Return the part that a SKU prices, or None, and whether it is for the spot market.

    Examples
    --------
    >>> spot = "Spot Preemptible N2 Instance Core running in Americas"
    >>> part_of({"description": spot, "category": {"usageType": "Preemptible"}})
    (BilledPart(kind=<PartKind.CORE: 'core'>, of='n2'), True)
    >>> custom = "N2 Custom Instance Core running in Americas"
    >>> part_of({"description": custom, "category": {"usageType": "OnDemand"}})
    (None, False)
    """
    usage = _category(sku).get("usageType")
    if usage not in ("OnDemand", "Preemptible"):
        return None, False
    sentence, spot = _market_off(str(sku.get("description", "")))
    # Google files some spot accelerators under "OnDemand"; the description is right.
    return _SENTENCES.get(sentence), spot or usage == "Preemptible"


def _market_off(description: str) -> tuple[str, bool]:
    sentence = _PLACE.sub("", description.strip(), count=1)
    bare = _SPOT_TAIL.sub("", _SPOT_HEAD.sub("", sentence))
    return bare, bare != sentence


def _note_unknown(sku: Mapping[str, Any], found: Rates) -> None:
    category = _category(sku)
    if category.get("resourceGroup") != "GPU" or category.get("usageType") not in (
        "OnDemand",
        "Preemptible",
    ):
        return
    sentence, _ = _market_off(str(sku.get("description", "")))
    if not _OTHER_DEALS.search(sentence):
        found.unknown[sentence] += 1


def _category(sku: Mapping[str, Any]) -> Mapping[str, Any]:
    category = sku.get("category")
    return category if isinstance(category, Mapping) else {}


def _priced(sku: Mapping[str, Any], part: BilledPart, spot: bool) -> Priced | None:
    try:
        expression = sku["pricingInfo"][-1]["pricingExpression"]
        share = _UNITS[part.kind].get(expression["usageUnit"])
        # A line with several tiers begins with a free allowance; the price beyond it counts.
        price = max(expression["tieredRates"], key=lambda tier: tier.get("startUsageAmount", 0))[
            "unitPrice"
        ]
        dollars = (
            Decimal(str(price.get("units") or 0)) + Decimal(str(price.get("nanos") or 0)) / 10**9
        )
        regions = tuple(str(region) for region in sku["serviceRegions"])
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    if (
        share is None
        or not dollars.is_finite()
        or dollars <= 0
        or price.get("currencyCode", "USD") != "USD"
    ):
        return None
    return Priced(part, spot, dollars / share, regions)
