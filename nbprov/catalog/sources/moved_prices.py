"""Marks prices that moved by more than half, so that nothing is bought at them unseen.

A new list is compared with the shipped prices and with the list before it, by instance type: that
is what is bought, whatever the list says is in it. What moved, or is another machine by now, is
neither hidden nor believed: it is shown with both figures, and a launch takes it only if its cloud
confirms the price or the user accepted it (`%nbprov catalog accept`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbprov.model.money import Micros
from nbprov.model.offers import is_moved

from .known_machines import (
    Hardware,
    KnownMachines,
    MovedKey,
    Prices,
    moved_key,
    prices_of,
    type_of,
)
from .price_entry import PriceEntry, Reading

FOLDER = ".moved"
"""Folder beside the clouds' folders with one file of `MovedPrices` a cloud."""


@dataclass(slots=True)
class MovedPrices:
    """What is remembered of one cloud's prices beside its files.

    Attributes
    ----------
    before
        The price before, of each that moved in a refresh and was not accepted.
    changed
        The price before, of each type that a refresh listed with other hardware than before.
    accepted
        The prices that the user accepted.
    hardware
        What each type in doubt was before, by its name: the doubt ends when a list says it again.
    """

    before: dict[MovedKey, Micros] = field(default_factory=dict)
    changed: dict[MovedKey, Micros] = field(default_factory=dict)
    accepted: dict[MovedKey, Micros] = field(default_factory=dict)
    hardware: dict[str, set[Hardware]] = field(default_factory=dict)

    @staticmethod
    def path(root: Path, cloud: str) -> Path:
        """Return the file of a cloud, below the folder of all clouds' price files."""
        return root / FOLDER / f"{cloud}.json"

    @classmethod
    def read(cls, path: Path | None) -> MovedPrices:
        """Read a file; one that is missing or damaged remembers nothing."""
        try:
            told = json.loads(path.read_bytes()) if path is not None else {}
            before, changed, accepted = (
                {_key(line): int(line[-1]) for line in told[n]} for n in _PARTS
            )
            return cls(before, changed, accepted, _hardware(told["hardware"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return cls()

    def to_json(self) -> bytes:
        """Return the content of the file."""
        parts = {n: [[*key, price] for key, price in getattr(self, n).items()] for n in _PARTS}
        hardware = [
            [name, *one] for name, was in self.hardware.items() for one in sorted(was, key=repr)
        ]
        return json.dumps({**parts, "hardware": hardware}, separators=(",", ":")).encode()

    @property
    def in_doubt(self) -> Mapping[MovedKey, Micros]:
        """The price before, of all that nobody confirmed."""
        return {**self.changed, **self.before}

    def learn(self, old: Iterable[PriceEntry], new: Iterable[PriceEntry]) -> None:
        """Compare a new list with the one before it.

        The price before stays the one to compare with until a list comes near it again, and so
        does the hardware before.
        """
        known = KnownMachines(old, self.hardware)
        doubted = {_without_label(key): price for key, price in self.in_doubt.items()}
        moved: dict[MovedKey, Micros] = {}
        changed: dict[MovedKey, Micros] = {}
        hardware: dict[str, set[Hardware]] = {}
        for entry in new:
            for key, price in prices_of(entry):
                doubt = doubted.get(_without_label(key))
                before = doubt or known.before(entry, key, price)
                if not before or self.is_accepted(key, price):
                    continue
                if is_moved(price, before):
                    moved[key] = before
                elif known.is_other(entry):
                    changed[key] = before
                else:
                    continue
                if was := known.hardware(entry):
                    hardware[type_of(entry)] = was
        self.before, self.changed, self.hardware = moved, changed, hardware

    def accept(self, prices: Prices) -> None:
        """Note what the user accepted."""
        given = {moved_key(*key): price for key, price in prices.items()}
        self.accepted |= given
        self.before = {k: v for k, v in self.before.items() if k not in given}
        self.changed = {k: v for k, v in self.changed.items() if k not in given}
        in_doubt = {kind for _, _, kind, *_ in self.in_doubt}
        self.hardware = {name: was for name, was in self.hardware.items() if name in in_doubt}

    def is_accepted(self, key: MovedKey, price: Micros) -> bool:
        """Whether the user accepted this price, or one near it."""
        accepted = self.accepted.get(key)
        return accepted is not None and not is_moved(price, accepted)


_PARTS = ("before", "changed", "accepted")


def mark(reading: Reading, shipped: Sequence[PriceEntry], remembered: MovedPrices) -> None:
    """Note in each entry the price before, where its price moved or its machine is another one.

    Parameters
    ----------
    shipped
        The shipped prices of the same cloud. A place that they lack is compared with the same type
        elsewhere. Of several prices the nearest counts.
    """
    known = KnownMachines(shipped)
    for at, entry in enumerate(reading.entries):
        on_demand = spot = 0
        for key, price in prices_of(entry):
            if key[-1] == "spot":
                spot = _before(entry, key, price, known, remembered)
            else:
                on_demand = _before(entry, key, price, known, remembered)
        if on_demand or spot:
            reading.entries[at] = entry._replace(on_demand_before=on_demand, spot_before=spot)


def _before(
    entry: PriceEntry, key: MovedKey, price: Micros, known: KnownMachines, remembered: MovedPrices
) -> Micros:
    """Return the price before of what is in doubt, else 0."""
    if remembered.is_accepted(key, price):
        return 0
    last = remembered.before.get(key, 0)
    if last and is_moved(price, last):
        return last
    nearest = known.nearest(entry, key, price)
    if nearest and (is_moved(price, nearest) or known.is_other(entry)):
        return nearest
    return 0 if known.knows(entry) else remembered.changed.get(key, 0)


def _without_label(key: MovedKey) -> tuple[object, ...]:
    region, zone, kind, accelerator, devices, market = key
    return (region, zone, kind, market) if kind else (region, zone, accelerator, devices, market)


def _key(line: Sequence[object]) -> MovedKey:
    region, zone, kind, accelerator, devices, market, _ = line
    return moved_key(
        str(region), str(zone), str(kind), str(accelerator), float(str(devices)), str(market)
    )


def _hardware(lines: Iterable[Sequence[object]]) -> dict[str, set[Hardware]]:
    found: dict[str, set[Hardware]] = {}
    for name, accelerator, devices, *sizes in lines:
        vcpus, memory, device = (None if size is None else float(str(size)) for size in sizes)
        one = Hardware(str(accelerator), float(str(devices)), vcpus, memory, device)
        found.setdefault(str(name), set()).add(one)
    return found
