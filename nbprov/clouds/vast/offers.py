"""Vast's offers, each one real machine, grouped into types with the cheapest offer's price.

A type is named like SkyPilot's, `1x-RTX_4090-32-65536`: GPUs, name, and the least vCPUs and MiB of
its machines. A host of eight GPUs rents each with an eighth of its cores and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.region_fetch import number, price
from nbprov.model.price_list import PriceRow

SIZES = ((32, 65536), (16, 32768), (8, 16384), (4, 8192))
"""The least vCPUs and MiB of a type, largest first; a smaller machine is of no use for a notebook.
"""
ARCHS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}

# Countries by continent, with the letters that Vast's own SDK adds to a place (NA: North America;
# LC: Latin America and the Caribbean).
_CONTINENTS = {
    "AF": "DZ AO BJ BW BF BI CM CV CF TD KM CD CG CI DJ EG GQ ER ET GA GM GH GN GW KE LS LR LY "
    "MG MW ML MR MA MU MZ NA NE NG RE RW SC SH SL SN SO"
    " SS ST SD SZ TZ TG TN UG YT ZA ZM ZW",
    "AS": "AE AF AM AZ BD BH BN BT CN HK ID IL IN IQ IR JO JP KG KH KP KR KW LA LB LK MM MN MO "
    "MV MY NP OM PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ"
    " VN YE",
    "EU": "AD AL AT BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GE GG GI GR HR HU IE IM IS IT "
    "JE KZ LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU"
    " SE SI SK SM UA VA XK",
    "LC": (
        "AG AR AW BB BO BR BS BZ CL CO CR CU CW DM DO EC GD GF GP GT GY HN HT JM KN KY LC MQ "
        "MX NI PA PE PR PY SR SV TT UY VC VE"
    ),
    "NA": "BM CA GL US",
    "OC": "AS AU CK FJ FM GU KI MH NC NR NZ PF PG PW SB TO TV VU WS",
}
CONTINENT_OF = {
    country: continent
    for continent, countries in _CONTINENTS.items()
    for country in countries.split()
}
_COUNTRY = re.compile(r"(?:^|,\s*)([A-Z]{2})$")


@dataclass(slots=True)
class GroupedOffers:
    """The result of grouping the offers.

    Attributes
    ----------
    rows
        One for each type, accelerator and place, with the cheapest offer's price.
    small, unread
        The number of offers smaller than the smallest type, and of unreadable offers.
    """

    rows: list[PriceRow] = field(default_factory=list)
    small: int = 0
    unread: int = 0


def aggregate(offers: Iterable[Mapping[str, Any]]) -> GroupedOffers:
    """Group offers, in any order."""
    market = GroupedOffers()
    best: dict[tuple[str, str, str, int], PriceRow] = {}
    for offer in offers:
        size = _size(offer)
        if size is None:
            market.small += 1
            continue
        row = _row(offer, size)
        if row is None:
            market.unread += 1
            continue
        # Some GPUs are sold with two sizes of memory under one name.
        key = (row.region, row.instance_type, row.accelerator, round(row.device_gib or 0))
        best[key] = _cheaper(best[key], row) if key in best else row
    market.rows = [best[key] for key in sorted(best)]
    return market


def region_of(geolocation: object) -> str:
    """Return a place with its continent, as the catalogue writes Vast's places.

    A place without a known country is returned unchanged.

    Examples
    --------
    >>> region_of("Texas, US"), region_of(", US"), region_of("Sweden, SE"), region_of("Atlantis")
    ('Texas, US, NA', ', US, NA', 'Sweden, SE, EU', 'Atlantis')
    """
    place = " ".join(str(geolocation or "").split())
    if place.startswith(","):
        place = f", {place.lstrip(', ')}"
    country = _COUNTRY.search(place)
    if country and len(place) == 2:
        place = f", {place}"
    continent = CONTINENT_OF.get(country[1], "") if country else ""
    return f"{place}, {continent}" if continent else place


def _size(offer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the largest of `SIZES` that the offer has; None if it is smaller, or does not say."""
    cores, memory = number(offer.get("cpu_cores")), number(offer.get("cpu_ram"))
    if cores is None or memory is None:
        return None
    share = number(offer.get("cpu_cores_effective")) or cores
    memory *= min(1.0, share / cores)
    # A machine sold as 64 GB reports a little less.
    return next((size for size in SIZES if share >= size[0] and memory >= size[1] * 0.98), None)


def _row(offer: Mapping[str, Any], size: tuple[int, int]) -> PriceRow | None:
    said, count, device_mib = (
        str(offer.get("gpu_name") or ""),
        number(offer.get("num_gpus")),
        number(offer.get("gpu_ram")),
    )
    on_demand, bid = price(offer.get("dph_total")), price(offer.get("min_bid"))
    region = region_of(offer.get("geolocation"))
    if not said or count is None or not count.is_integer() or on_demand is None or not region:
        return None
    device_gib = round(device_mib / 1024, 3) if device_mib else None
    gpu = gpu_names.read(said, device_gib)
    name = f"{int(count)}x-{'_'.join(said.split())}-{size[0]}-{size[1]}"
    return PriceRow(
        region,
        name,
        "",
        # On Vast the catalogue keeps both forms of the A100 under one name, and those of other GPUs
        # apart.
        gpu.name if gpu.name.startswith("A100") else gpu.formed,
        count,
        gpu.device_gib,
        gpu.maker or str(offer.get("gpu_arch") or "").upper(),
        size[0],
        size[1] / 1024,
        ARCHS.get(str(offer.get("cpu_arch") or "amd64"), ""),
        on_demand,
        # A bid must be below the price at which nobody can take the machine away.
        bid if bid is not None and bid <= on_demand else None,
    )


def _cheaper(one: PriceRow, other: PriceRow) -> PriceRow:
    """Merge two rows of one type and place: the cheaper on demand, with the lower of their bids."""

    first, second = sorted(
        (one, other), key=lambda row: (row.on_demand or 0, row.device_gib or 0, row.arch)
    )
    bids = [row.spot for row in (first, second) if row.spot is not None]
    return replace(first, spot=min(bids) if bids else None)
