"""Marks prices that moved by more than half, so that nothing is bought at them unseen.

A new list is compared with the shipped prices and with the list before it. What moved is neither
hidden nor believed: it is shown with both figures, and a launch takes it only if its cloud confirms
the price or the user accepted it (`%nbprov catalog accept`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbprov.model.money import Micros

from .price_entry import PriceEntry, Reading

FOLDER = ".moved"
"""Folder beside the clouds' folders with one file of `MovedPrices` a cloud."""

SHARE = 0.5
"""A price that changed by more than this share of the one before counts as moved.

List prices of one machine changed by 44 % at most in the cuts that clouds announced.
"""

MovedKey = tuple[str, str, str, str, float, str]
"""Region, zone, instance type, accelerator, devices and market."""


@dataclass(slots=True)
class MovedPrices:
    """What is remembered of one cloud's prices beside its files.

    Attributes
    ----------
    before
        The price before, of each that moved in a refresh and was not accepted.
    accepted
        The prices that the user accepted.
    """

    before: dict[MovedKey, Micros] = field(default_factory=dict)
    accepted: dict[MovedKey, Micros] = field(default_factory=dict)

    @staticmethod
    def path(root: Path, cloud: str) -> Path:
        """Return the file of a cloud, below the folder of all clouds' price files."""
        return root / FOLDER / f"{cloud}.json"

    @classmethod
    def read(cls, path: Path | None) -> MovedPrices:
        """Read a file; one that is missing or damaged remembers nothing."""
        try:
            told = json.loads(path.read_bytes()) if path is not None else {}
            return cls(*({_key(line): int(line[-1]) for line in told[n]} for n in _PARTS))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return cls()

    def to_json(self) -> bytes:
        """Return the content of the file."""
        parts = {n: [[*key, price] for key, price in getattr(self, n).items()] for n in _PARTS}
        return json.dumps(parts, separators=(",", ":")).encode()

    def learn(self, old: Iterable[PriceEntry], new: Iterable[PriceEntry]) -> None:
        """Compare a new list with the one before it.

        The price before stays the one to compare with until a list comes near it again.
        """
        known = {key: price for entry in old for key, price in _prices(entry)}
        moved = {}
        for entry in new:
            for key, price in _prices(entry):
                before = self.before.get(key, known.get(key))
                if before and is_moved(price, before) and not self.is_accepted(key, price):
                    moved[key] = before
        self.before = moved

    def is_accepted(self, key: MovedKey, price: Micros) -> bool:
        """Whether the user accepted this price, or one near it."""
        accepted = self.accepted.get(key)
        return accepted is not None and not is_moved(price, accepted)


_PARTS = ("before", "accepted")


def is_moved(price: Micros, before: Micros) -> bool:
    """Whether a price differs by more than half from the one before.

    Examples
    --------
    >>> is_moved(4_420_000, 88_490_000), is_moved(55_000_000, 98_320_000)
    (True, False)
    """
    return abs(price - before) > before * SHARE


def mark(reading: Reading, shipped: Sequence[PriceEntry], remembered: MovedPrices) -> None:
    """Note in each entry the price before, where its price moved by more than half.

    Parameters
    ----------
    shipped
        The shipped prices of the same cloud. A place that they lack is compared with the same type
        elsewhere. Of several prices the nearest counts.
    """
    by_region: dict[tuple[object, ...], list[Micros]] = defaultdict(list)
    by_type: dict[tuple[object, ...], list[Micros]] = defaultdict(list)
    for entry in shipped:
        for key, price in _prices(entry):
            by_region[key[0], *key[2:]].append(price)
            by_type[key[2:]].append(price)

    def before(key: MovedKey, price: Micros) -> Micros:
        if remembered.is_accepted(key, price):
            return 0
        last = remembered.before.get(key, 0)
        if last and is_moved(price, last):
            return last
        known = by_region.get((key[0], *key[2:])) or by_type.get(key[2:])
        nearest = min(known, key=lambda one: abs(one - price)) if known else price
        return nearest if is_moved(price, nearest) else 0

    for at, entry in enumerate(reading.entries):
        on_demand = spot = 0
        for key, price in _prices(entry):
            if key[-1] == "spot":
                spot = before(key, price)
            else:
                on_demand = before(key, price)
        if on_demand or spot:
            reading.entries[at] = entry._replace(on_demand_before=on_demand, spot_before=spot)


def _prices(entry: PriceEntry) -> list[tuple[MovedKey, Micros]]:
    return [
        ((*entry.key, market), price)
        for market, price in (("on-demand", entry.on_demand), ("spot", entry.spot))
        if price
    ]


def _key(line: Sequence[object]) -> MovedKey:
    region, zone, kind, accelerator, devices, market, _ = line
    return (str(region), str(zone), str(kind), str(accelerator), float(str(devices)), str(market))
