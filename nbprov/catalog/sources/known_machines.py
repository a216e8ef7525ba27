"""What one list of prices says that each instance type is and costs, to compare another list with.

A type is what is bought. A list that calls `gpu_8x_h100` a single A10 changes neither the machine
nor its bill, so prices are compared by type, whatever the list says of its hardware.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.model.money import Micros

from .price_entry import PriceEntry

A_LITTLE = 0.1
"""vCPUs and memory that differ by no more than this share are the same: some lists say decimal
gigabytes, others binary ones."""
DIGITS = 2
"""Devices are compared after rounding to so many digits; the smallest share on sale is an
eighth."""

MovedKey = tuple[str, str, str, str, float, str]
"""Region, zone, instance type, accelerator, devices and market, in small letters."""
Prices = Mapping[MovedKey, Micros]


def moved_key(
    region: str, zone: str, kind: str, accelerator: str, devices: float, market: str
) -> MovedKey:
    """Return the key of a price, however its list spells it.

    Examples
    --------
    >>> moved_key("us-1", "", "GPU_8x_H100", "H100", 8.00001, "spot")
    ('us-1', '', 'gpu_8x_h100', 'h100', 8.0, 'spot')
    """
    words = (word.strip().casefold() for word in (region, zone, kind, accelerator))
    region, zone, kind, accelerator = words
    return (region, zone, kind, accelerator, round(devices, DIGITS), market)


def prices_of(entry: PriceEntry) -> list[tuple[MovedKey, Micros]]:
    """Return the prices of an entry, each with its key."""
    return [
        (moved_key(*entry.key, market), price)
        for market, price in (("on-demand", entry.on_demand), ("spot", entry.spot))
        if price
    ]


class Hardware(NamedTuple):
    """What a list says that a machine is."""

    accelerator: str
    devices: float
    vcpus: float | None
    memory_gib: float | None
    device_gib: float | None


class KnownMachines:
    """The hardware and the prices of each type in a list of one cloud.

    Accelerators that are sold alone have no type, and are compared by their name and number.

    Parameters
    ----------
    hardware
        What types are, by their name in small letters, whatever the list says of these.
    """

    def __init__(
        self, entries: Iterable[PriceEntry], hardware: Mapping[str, set[Hardware]] | None = None
    ) -> None:
        self._hardware: dict[str, set[Hardware]] = defaultdict(set)
        self._at: dict[MovedKey, Micros] = {}
        self._prices: dict[tuple[object, ...], list[Micros]] = defaultdict(list)
        for entry in entries:
            if entry.instance_type:
                self._hardware[type_of(entry)].add(_hardware(entry))
            for key, price in prices_of(entry):
                self._at[key] = price
                for group in _groups(key):
                    self._prices[group].append(price)
        self._hardware.update(hardware or {})

    def before(self, entry: PriceEntry, key: MovedKey, price: Micros) -> Micros:
        """Return the price of the same machine in the same zone, or 0.

        A type with other hardware is compared with its nearest price.
        """
        return self.nearest(entry, key, price) if self.is_other(entry) else self._at.get(key, 0)

    def knows(self, entry: PriceEntry) -> bool:
        """Whether the type is known."""
        return type_of(entry) in self._hardware

    def hardware(self, entry: PriceEntry) -> set[Hardware]:
        """Return what the type of an entry is; nothing if that is not known."""
        return self._hardware.get(type_of(entry), set()) if entry.instance_type else set()

    def nearest(self, entry: PriceEntry, key: MovedKey, price: Micros) -> Micros:
        """Return the price of this type that is nearest to a price, or 0 if none is known.

        First that of the same hardware in the same region, then in others; then, and for a type
        with other hardware than is known, any of the type, if need be in the other market.
        """
        for group in _groups(key):
            if known := self._prices.get(group):
                return min(known, key=lambda one: abs(one - price))
        if self.is_other(entry):
            market = "spot" if key[-1] != "spot" else "on-demand"
            for group in _groups((*key[:-1], market)):
                if known := self._prices.get(group):
                    return min(known, key=lambda one: abs(one - price))
        return 0

    def is_other(self, entry: PriceEntry) -> bool:
        """Whether the type is known, and not with this hardware."""
        known = self.hardware(entry)
        if not known:
            return False
        mine, is_typical = _hardware(entry), entry.cloud in MEMORY_IS_TYPICAL
        return not any(_is_same(mine, one, is_typical=is_typical) for one in known)


def type_of(entry: PriceEntry) -> str:
    """Return the instance type of an entry, in small letters."""
    return entry.instance_type.strip().casefold()


def _hardware(entry: PriceEntry) -> Hardware:
    _, _, _, accelerator, devices, _ = moved_key(*entry.key, "")
    return Hardware(accelerator, devices, entry.vcpus, entry.memory_gib, entry.device_gib)


def _is_same(mine: Hardware, known: Hardware, *, is_typical: bool) -> bool:
    if mine[:2] != known[:2]:
        return False
    # Where a type is any host with such a GPU, its memory and vCPUs are an example.
    return is_typical or all(map(_is_near, mine[2:], known[2:]))


def _is_near(mine: float | None, known: float | None) -> bool:
    return mine is None or known is None or abs(mine - known) <= A_LITTLE * known


def _groups(key: MovedKey) -> list[tuple[object, ...]]:
    """Return what a price is compared with, the closest first."""
    region, _, kind, accelerator, devices, market = key
    label = (accelerator, devices)
    groups: list[tuple[object, ...]] = [(region, kind, label, market), (kind, label, market)]
    return [*groups, (region, kind, market), (kind, market)] if kind else groups
