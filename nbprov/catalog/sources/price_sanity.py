"""Absurd prices are hidden and reported, never offered.

A wrong match in somebody's price list must not become the cheapest offer of a plan. The bounds are
wide on purpose: a market place sells an old GPU for a twentieth of a big cloud's list price, and
that is real."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from nbprov.catalog.vocabulary.geography import ground_of
from nbprov.model.money import MICROS_PER_USD

from .price_entry import Entry, Reading

ABSURD_FOR_KIND = "price absurd for this kind of accelerator"
ABSURD_FOR_TYPE = "price far below the same type's in the cloud's other regions"
ABSURD_FOR_CPUS = "price absurd for its vCPUs"
ABSURD_SPOT = "spot price above on-demand"
FLAT = "one price in many regions, far below the type's other prices"

LOW, HIGH = 1 / 8, 20.0
"""Beside the median over clouds of each cloud's cheapest device of a kind.

V100 go from 1/5 (market places) to 14 times (Azure's dearest region).
"""
SPOT_LOW = 1 / 50
TYPE_LOW = 0.4
"""Beside the median over a cloud's regions.

List prices of one GPU type differ by up to 1.7 times down and 2.4 times up.
"""
TYPE_REGIONS = 4
FLAT_REGIONS, FLAT_PARTS = 4, 2
"""One price in so many regions, on so many continents, is flat."""
VCPU_LOW, VCPU_HIGH = MICROS_PER_USD // 1000, 2 * MICROS_PER_USD
HOST_PER_VCPU = MICROS_PER_USD // 10
"""What a vCPU beside an accelerator may cost.

A machine with one T4 and 64 vCPUs costs mostly vCPUs.
"""
SPOT_SLACK = 1.001
"""AWS reports spot prices rounded to four digits, on-demand prices to five.

Equal ones may look 0.0001 higher.
"""


def hide_absurd(readings: Mapping[str, Reading]) -> None:
    """Take absurd prices out, in place, and count them under what is wrong with them."""
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


def hide_flat(reading: Reading, witness: Callable[[], Sequence[Entry]] = tuple) -> None:
    """Take out, in place, a wrong price part that a matching of price list lines by text put into
    many regions at once.

    Such a part has one price in regions of several parts of the world and lies far below what the
    same type costs elsewhere: in the list's other regions, or, where there are none, in an earlier
    price list that prices its regions apart (`witness`, read only when needed). Flat alone is no
    reason: some parts do cost the same everywhere."""
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


def _part(entry: Entry) -> _Part:
    return (entry.cloud, entry.instance_type, entry.accelerator, entry.devices)


def _by_devices(entries: Sequence[Entry]) -> dict[tuple[str, float], list[int]]:
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


def _without(entry: Entry, wrong: Mapping[_Part, int], reading: Reading) -> Entry:
    if entry.on_demand is None or wrong.get(_part(entry)) != entry.on_demand:
        return entry
    reading.left_out[FLAT] += 1
    # A part without its price keeps its line: the host that belongs to it must not look as if it
    # were sold alone.
    return entry._replace(on_demand=None)


def _device_prices(readings: Mapping[str, Reading]) -> dict[str, float]:
    """The median over clouds of the cheapest on-demand device of each kind, in micros; only kinds
    that two clouds sell.
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


def _type_medians(entries: Sequence[Entry]) -> dict[str, float]:
    by_region: dict[str, dict[str, int]] = defaultdict(dict)
    for entry in entries:
        if entry.accelerator and entry.instance_type and entry.on_demand is not None:
            by_region[entry.instance_type][entry.region] = entry.on_demand
    return {
        kind: median(prices.values())
        for kind, prices in by_region.items()
        if len(prices) >= TYPE_REGIONS
    }


def _wrong_on_demand(entry: Entry, kinds: Mapping[str, float], types: Mapping[str, float]) -> str:
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


def _wrong_spot(entry: Entry, kinds: Mapping[str, float]) -> str:
    price = entry.spot
    if price is None:
        return ""
    if entry.on_demand is not None and price > entry.on_demand * SPOT_SLACK:
        return ABSURD_SPOT
    usual = kinds.get(entry.accelerator)
    if usual is not None and price / entry.devices < usual * SPOT_LOW:
        return ABSURD_FOR_KIND
    return ""
