"""The differences that a refresh made: prices that rose or fell, are new or are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.places import Market

if TYPE_CHECKING:
    from pandas import DataFrame


class ChangeKind(StrEnum):
    """The kind of a price change."""

    UP = "up"
    DOWN = "down"
    NEW = "new"
    GONE = "gone"


_ORDER = {kind: i for i, kind in enumerate(ChangeKind)}


class PriceKey(NamedTuple):
    """The thing that a price is for."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    accelerator: str
    devices: float
    market: str


@dataclass(frozen=True, slots=True)
class PriceChange:
    """One price before and after, in micro-dollars an hour; None if it did not exist."""

    key: PriceKey
    before: Micros | None
    after: Micros | None

    @property
    def kind(self) -> ChangeKind:
        """The kind of the change."""
        if self.before is None:
            return ChangeKind.NEW
        if self.after is None:
            return ChangeKind.GONE
        return ChangeKind.UP if self.after > self.before else ChangeKind.DOWN

    @property
    def percent(self) -> float | None:
        """The rise or fall in percent; None if there is nothing to compare."""
        if self.before is None or self.after is None:
            return None
        return 100.0 * (self.after - self.before) / self.before


class Differences(Sequence[PriceChange]):
    """The changes of one or more clouds.

    The largest price change comes first, then new prices, then prices that are gone.

    Examples
    --------
    >>> differences = session.catalogue.diff("gcp")     # doctest: +SKIP
    >>> differences.counts()                            # doctest: +SKIP
    {'up': 12, 'down': 40, 'new': 3, 'gone': 0}
    >>> differences.to_frame()                          # doctest: +SKIP
    """

    def __init__(self, changes: Iterable[PriceChange]) -> None:
        self._changes = sorted(changes, key=_order)

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, index: Any) -> Any:
        return self._changes[index]

    def __iter__(self) -> Iterator[PriceChange]:
        return iter(self._changes)

    def counts(self) -> dict[str, int]:
        """Count the prices that rose, fell, are new and are gone."""
        counts = {kind.value: 0 for kind in ChangeKind}
        for change in self._changes:
            counts[change.kind.value] += 1
        return counts

    def to_frame(self) -> DataFrame:
        """Return a pandas table with one row a change and prices in US dollars an hour."""
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
        return pd.DataFrame(
            rows, columns=["change", *PriceKey._fields, "before", "after", "percent"]
        )

    def __repr__(self) -> str:
        return f"<price changes: {words(self.counts())}>"


def compare(before: Iterable[PriceEntry], after: Iterable[PriceEntry]) -> Differences:
    """Return the differences between two price lists of one cloud."""
    old, new = prices_of(before), prices_of(after)
    return Differences(
        PriceChange(key, old.get(key), new.get(key))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    )


def prices_of(entries: Iterable[PriceEntry]) -> dict[PriceKey, Micros]:
    """Return the price of everything that is on sale.

    If the same thing has two prices, the higher one counts, as in the catalogue.
    """
    prices: dict[PriceKey, Micros] = {}
    for entry in entries:
        for market, price in ((Market.ON_DEMAND, entry.on_demand), (Market.SPOT, entry.spot)):
            if price is not None:
                key = PriceKey(
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
    """Write counts as a person reads them.

    Examples
    --------
    >>> words({"up": 12, "down": 0, "new": 3, "gone": 0}), words({})
    ('12 up, 3 new', 'none changed')
    """
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in ChangeKind if counts.get(kind))
    return told or "none changed"


def _order(change: PriceChange) -> tuple[Any, ...]:
    percent = change.percent
    return (
        percent is None,
        0.0 if percent is None else -abs(percent),
        _ORDER[change.kind],
        change.key,
    )


def _dollars(price: Micros | None) -> float | None:
    return None if price is None else price / MICROS_PER_USD
