"""What a refresh changed: prices up, down, new and gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from nbprov.catalog.sources.price_entry import Entry
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.places import Market

if TYPE_CHECKING:
    from pandas import DataFrame


class Kind(StrEnum):
    """What became of a price."""

    UP = "up"
    DOWN = "down"
    NEW = "new"
    GONE = "gone"


_ORDER = {kind: i for i, kind in enumerate(Kind)}


class Key(NamedTuple):
    """What a price is for."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    accelerator: str
    devices: float
    market: str


@dataclass(frozen=True, slots=True)
class Change:
    """One price, before and after, in micro-dollars an hour; None where it was not there."""

    key: Key
    before: Micros | None
    after: Micros | None

    @property
    def kind(self) -> Kind:
        """What became of it."""
        if self.before is None:
            return Kind.NEW
        if self.after is None:
            return Kind.GONE
        return Kind.UP if self.after > self.before else Kind.DOWN

    @property
    def percent(self) -> float | None:
        """By how much it rose or fell; None where there is nothing to compare."""
        if self.before is None or self.after is None:
            return None
        return 100.0 * (self.after - self.before) / self.before


class Differences(Sequence[Change]):
    """The changes of one or more clouds, the largest change of a price first, then what is new,
    then what is gone.

    Examples
    --------
    >>> differences = session.catalogue.diff("gcp")     # doctest: +SKIP
    >>> differences.counts()                            # doctest: +SKIP
    {'up': 12, 'down': 40, 'new': 3, 'gone': 0}
    >>> differences.to_frame()                          # doctest: +SKIP
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes = sorted(changes, key=_order)

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, index: Any) -> Any:
        return self._changes[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def counts(self) -> dict[str, int]:
        """How many prices went up and down, are new, are gone."""
        counts = {kind.value: 0 for kind in Kind}
        for change in self._changes:
            counts[change.kind.value] += 1
        return counts

    def to_frame(self) -> DataFrame:
        """A pandas table, one row a change; prices in US dollars an hour."""
        import pandas as pd

        rows = [
            {
                "change": change.kind.value,
                **change.key._asdict(),
                "before": _dollars(change.before),
                "after": _dollars(change.after),
                "percent": change.percent,
            }
            for change in self._changes
        ]
        return pd.DataFrame(rows, columns=["change", *Key._fields, "before", "after", "percent"])

    def __repr__(self) -> str:
        return f"<price changes: {words(self.counts())}>"


def compare(before: Iterable[Entry], after: Iterable[Entry]) -> Differences:
    """The differences between two lists of one cloud."""
    old, new = prices_of(before), prices_of(after)
    return Differences(
        Change(key, old.get(key), new.get(key))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    )


def prices_of(entries: Iterable[Entry]) -> dict[Key, Micros]:
    """The price of everything that is on sale; of two for the same thing the dearer, as the
    catalogue takes it.
    """
    prices: dict[Key, Micros] = {}
    for entry in entries:
        for market, price in ((Market.ON_DEMAND, entry.on_demand), (Market.SPOT, entry.spot)):
            if price is not None:
                key = Key(
                    entry.cloud,
                    entry.region,
                    entry.zone,
                    entry.instance_type,
                    entry.accelerator,
                    entry.devices,
                    market.value,
                )
                prices[key] = max(price, prices.get(key, 0))
    return prices


def words(counts: Mapping[str, int]) -> str:
    """Counts as a person reads them.

    Examples
    --------
    >>> words({"up": 12, "down": 0, "new": 3, "gone": 0}), words({})
    ('12 up, 3 new', 'none changed')
    """
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in Kind if counts.get(kind))
    return told or "none changed"


def _order(change: Change) -> tuple[Any, ...]:
    percent = change.percent
    return (
        percent is None,
        0.0 if percent is None else -abs(percent),
        _ORDER[change.kind],
        change.key,
    )


def _dollars(price: Micros | None) -> float | None:
    return None if price is None else price / MICROS_PER_USD
