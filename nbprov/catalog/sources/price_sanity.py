"""Hide and report absurd prices, so that they are never offered.

A wrong match in a price list must not become the cheapest offer of a plan. The bounds are wide on
purpose: a marketplace may really sell an old GPU for a twentieth of a large cloud's list price.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from nbprov.catalog.vocabulary.geography import ground_of
from nbprov.model.money import MICROS_PER_USD

from .price_entry import PriceEntry, Reading

ABSURD_FOR_KIND = "price absurd for this kind of accelerator"
ABSURD_FOR_TYPE = "price far below the same type's in the cloud's other regions"
ABSURD_FOR_CPUS = "price absurd for its vCPUs"
ABSURD_SPOT = "spot price above on-demand"
FLAT = "one price in many regions, far below the type's other prices"

LOW, HIGH = 1 / 8, 20.0
"""Bounds relative to the median over clouds of each cloud's cheapest device of a kind.

Real prices of a V100 range from 1/5 (marketplaces) to 14 times (Azure's dearest region).
"""
SPOT_LOW = 1 / 50
TYPE_LOW = 0.4
"""Lower bound relative to the median over a cloud's regions.

List prices of one GPU type differ by up to 1.7 times downwards and 2.4 times upwards.
"""
TYPE_REGIONS = 4
FLAT_REGIONS, FLAT_PARTS = 4, 2
"""A price counts as flat if it is the same in this many regions on this many continents."""
VCPU_LOW, VCPU_HIGH = MICROS_PER_USD // 1000, 2 * MICROS_PER_USD
HOST_PER_VCPU = MICROS_PER_USD // 10
"""The most that a vCPU beside an accelerator may cost.

Most of the price of a machine with one T4 and 64 vCPUs is that of its vCPUs.
"""
SPOT_SLACK = 1.001
"""How much a spot price may exceed the on-demand price.

AWS rounds spot prices to four digits and on-demand prices to five, so equal prices may look 0.0001
apart.
"""


def hide_absurd(readings: Mapping[str, Reading]) -> None:
    """Remove absurd prices, in place, and count them by reason."""
    kinds = _device_prices(readings)
    for reading in readings.values():
        types = _type_medians(reading.entries)
        kept = []
        for entry in reading.entries:
            on_demand, spot = entry.on_demand, entry.spot
            said, said_spot = (
                ((entry.key, is_spot) in reading.said for is_spot in (False, True))
                if reading.said
                else (False, False)
            )
            wrong = "" if said else _wrong_on_demand(entry, kinds, types)
            if wrong:
                reading.left_out[wrong] += 1
                on_demand = None
            wrong = "" if said_spot else _wrong_spot(entry, kinds)
            if wrong:
                reading.left_out[wrong] += 1
                spot = None
            if on_demand is not None or spot is not None:
                kept.append(
                    entry
                    if (on_demand, spot) == (entry.on_demand, entry.spot)
                    else entry._replace(on_demand=on_demand, spot=spot)
                )
        reading.entries = kept


def hide_flat(reading: Reading, witness: Callable[[], Sequence[PriceEntry]] = tuple) -> None:
    """Remove, in place, wrong flat prices of parts.

    Matching the lines of a price list by their text may put one wrong part into many regions at
    once. Such a part has one price in regions of several parts of the world and costs far less than
    the same type elsewhere: in other regions of the list or, if there are none, in an earlier list
    with different prices by region (`witness`, read only when needed). A flat price alone is no
    reason, since some parts do cost the same everywhere.
    """
    prices: dict[_Part, dict[str, int]] = defaultdict(dict)
    for entry in reading.entries:
        if entry.accelerator and entry.on_demand is not None:
            prices[_part(entry)][entry.region] = entry.on_demand
    wrong: dict[_Part, int] = {}
    before: dict[tuple[str, float], list[int]] | None = None
    for part, by_region in prices.items():
        price, regions = _most_common(by_region)
        if (
            len(regions) < FLAT_REGIONS
            or len({ground_of(part[0], region).part for region in regions}) < FLAT_PARTS
        ):
            continue
        others = [other for region, other in by_region.items() if region not in regions]
        if len(others) < 2:
            before = _by_devices(witness()) if before is None else before
            others = before.get(part[2:], [])
            others = others if len(set(others)) > 1 else []
        if others and price < median(others) * TYPE_LOW:
            wrong[part] = price
    if wrong:
        reading.entries = [_without(entry, wrong, reading) for entry in reading.entries]


_Part = tuple[str, str, str, float]


def _part(entry: PriceEntry) -> _Part:
    return (entry.cloud, entry.instance_type, entry.accelerator, entry.devices)


def _by_devices(entries: Sequence[PriceEntry]) -> dict[tuple[str, float], list[int]]:
    found: dict[tuple[str, float], list[int]] = defaultdict(list)
    for entry in entries:
        if entry.accelerator and entry.on_demand is not None:
            found[entry.accelerator, entry.devices].append(entry.on_demand)
    return found


def _most_common(by_region: Mapping[str, int]) -> tuple[int, set[str]]:
    regions: dict[int, set[str]] = defaultdict(set)
    for region, price in by_region.items():
        regions[price].add(region)
    return max(regions.items(), key=lambda pair: (len(pair[1]), -pair[0]))


def _without(entry: PriceEntry, wrong: Mapping[_Part, int], reading: Reading) -> PriceEntry:
    if entry.on_demand is None or wrong.get(_part(entry)) != entry.on_demand:
        return entry
    reading.left_out[FLAT] += 1
    # A part without its price keeps its line, or the host that belongs to it would look as if it
    # were sold alone.
    return entry._replace(on_demand=None)


def _device_prices(readings: Mapping[str, Reading]) -> dict[str, float]:
    """Return the median over clouds of the cheapest on-demand device of each kind, in micros.

    Only kinds that at least two clouds sell are included.
    """
    cheapest: dict[str, dict[str, float]] = defaultdict(dict)
    for cloud, reading in readings.items():
        for entry in reading.entries:
            if (
                entry.accelerator
                and entry.on_demand is not None
                and entry.devices >= 1
                and (entry.key, False) not in reading.said
            ):
                each = entry.on_demand / entry.devices
                known = cheapest[entry.accelerator].get(cloud)
                if known is None or each < known:
                    cheapest[entry.accelerator][cloud] = each
    return {
        kind: median(by_cloud.values()) for kind, by_cloud in cheapest.items() if len(by_cloud) > 1
    }


def _type_medians(entries: Sequence[PriceEntry]) -> dict[str, float]:
    by_region: dict[str, dict[str, int]] = defaultdict(dict)
    for entry in entries:
        if entry.accelerator and entry.instance_type and entry.on_demand is not None:
            by_region[entry.instance_type][entry.region] = entry.on_demand
    return {
        kind: median(prices.values())
        for kind, prices in by_region.items()
        if len(prices) >= TYPE_REGIONS
    }


def _wrong_on_demand(
    entry: PriceEntry, kinds: Mapping[str, float], types: Mapping[str, float]
) -> str:
    price = entry.on_demand
    if price is None:
        return ""
    if entry.accelerator:
        usual = kinds.get(entry.accelerator)
        host = HOST_PER_VCPU * (entry.vcpus or 0)
        if (
            usual is not None
            and not usual * LOW <= price / entry.devices <= usual * HIGH + host / entry.devices
        ):
            return ABSURD_FOR_KIND
        if price < types.get(entry.instance_type, 0.0) * TYPE_LOW:
            return ABSURD_FOR_TYPE
    elif entry.vcpus and not VCPU_LOW <= price / entry.vcpus <= VCPU_HIGH:
        return ABSURD_FOR_CPUS
    return ""


def _wrong_spot(entry: PriceEntry, kinds: Mapping[str, float]) -> str:
    price = entry.spot
    if price is None:
        return ""
    if entry.on_demand is not None and price > entry.on_demand * SPOT_SLACK:
        return ABSURD_SPOT
    usual = kinds.get(entry.accelerator)
    if usual is not None and price / entry.devices < usual * SPOT_LOW:
        return ABSURD_FOR_KIND
    return ""
