"""Prices of whole machines, added up from the prices of their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from nbprov.clouds.gcp.catalog.accelerator_zones import ZonesByType
from nbprov.clouds.gcp.catalog.machine_types import MachineType, machines
from nbprov.clouds.gcp.catalog.skus import SSD, BilledPart, PartKind, Rates
from nbprov.clouds.pricing.region_fetch import price as hourly_price
from nbprov.model.money import Micros
from nbprov.model.price_list import PriceRow

MAKER = "NVIDIA"
ARCH = "x86_64"


@dataclass(slots=True)
class Assembled:
    """The rows, and the machines that were left out, each with the region and the part without a
    price.
    """

    rows: list[PriceRow] = field(default_factory=list)
    incomplete: Counter[tuple[str, BilledPart]] = field(default_factory=Counter)


def parts(machine: MachineType) -> Iterator[tuple[BilledPart, float]]:
    """Return the parts that a machine is billed for, with the number of units of each."""
    if machine.host:
        yield BilledPart(PartKind.CORE, machine.host), machine.vcpus
        yield BilledPart(PartKind.MEMORY, machine.host), machine.memory_gib
    if machine.device:
        yield BilledPart(PartKind.DEVICE, machine.device.name), machine.count
    if machine.ssd_gib:
        yield SSD, machine.ssd_gib


def assemble(
    rates: Rates, places: ZonesByType, wanted: Iterable[MachineType], regions: Iterable[str]
) -> Assembled:
    """Add up the parts of each machine, in every region that sells all of them."""
    done = Assembled()
    for region in sorted(regions):
        for machine in wanted:
            zones = places.of(machine, region)
            if not zones:
                continue
            on_demand = None if machine.spot_only else _sum(rates, region, machine, spot=False)
            spot = _sum(rates, region, machine, spot=True)
            if on_demand is None and spot is None:
                _note_incomplete(rates, region, machine, done)
                continue
            done.rows += [_row(machine, region, zone, on_demand, spot) for zone in zones]
    return done


def machine_price(rates: Rates, region: str, instance_type: str, *, spot: bool) -> Micros | None:
    """Return what one machine costs in a region; None if its parts or a price are not known.

    Examples
    --------
    >>> machine_price(Rates(), "us-central1", "n1-standard-4+1xT4", spot=False) is None
    True
    """
    host, _, attached = instance_type.partition("+")
    count, _, device = attached.partition("x")
    names = [m for m in machines() if m.name == host]
    if attached:
        names += [m for m in machines() if _is_device(m, device, count)]
    if len(names) != 1 + bool(attached):
        return None
    prices = [_sum(rates, region, machine, spot=spot) for machine in names]
    return sum(p for p in prices if p is not None) if None not in prices else None


def _is_device(machine: MachineType, device: str, count: str) -> bool:
    known = machine.device
    return (
        not machine.name
        and known is not None
        and (known.name, f"{machine.count:g}")
        == (
            device,
            count,
        )
    )


def _sum(rates: Rates, region: str, machine: MachineType, *, spot: bool) -> Micros | None:
    total = Decimal(0)
    for part, units in parts(machine):
        price = rates.of(region, part, spot=spot)
        if price is None:
            return None
        total += price * Decimal(str(units))
    return hourly_price(total)


def _note_incomplete(rates: Rates, region: str, machine: MachineType, done: Assembled) -> None:
    """Record a machine that has a price for its own part here but none for another.

    A machine that is not sold in the region lacks nothing.
    """
    first, *others = (part for part, _ in parts(machine))
    own = BilledPart(PartKind.DEVICE, machine.device.name) if machine.device else first
    for spot in (False, True):
        if rates.of(region, own, spot=spot) is None:
            continue
        lacking = next(
            (part for part in (first, *others) if rates.of(region, part, spot=spot) is None), None
        )
        if lacking is not None:
            done.incomplete[region, lacking] += 1
            return


def _row(
    machine: MachineType, region: str, zone: str, on_demand: Micros | None, spot: Micros | None
) -> PriceRow:
    device = machine.device
    return PriceRow(
        region,
        machine.name,
        zone,
        device.name if device else "",
        machine.count,
        device.gib if device else None,
        MAKER if device else "",
        machine.vcpus or None,
        machine.memory_gib or None,
        ARCH if machine.name else "",
        on_demand,
        spot,
    )
