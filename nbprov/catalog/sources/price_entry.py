"""One line of a price file with both markets' prices, before it becomes rows of the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nbprov.model.money import Micros

Key = tuple[str, str, str, str, float]
"""The fields that identify an entry of a cloud."""


class PriceEntry(NamedTuple):
    """An instance type in a place with its prices.

    `instance_type` is empty for accelerators that are sold alone and attach to a host. A price of
    None is not known. `on_demand_before` and `spot_before` are prices before those of now, where
    these moved by more than half (`moved_prices.py`), else 0.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    accelerator: str
    devices: float
    device_gib: float | None
    maker: str
    vcpus: float | None
    memory_gib: float | None
    arch: str
    on_demand: Micros | None
    spot: Micros | None
    source: str
    as_of: str
    spot_source: str
    spot_as_of: str
    asked_only: bool = False
    on_demand_before: Micros = 0
    spot_before: Micros = 0

    @property
    def key(self) -> Key:
        """The fields that identify this entry within its cloud."""
        return (self.region, self.zone, self.instance_type, self.accelerator, self.devices)


@dataclass(slots=True)
class Reading:
    """What was read of one cloud, and how many lines or prices were left out, by reason.

    Attributes
    ----------
    said
        Prices that the user gave, by entry and whether they are spot prices.
    """

    entries: list[PriceEntry] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    said: set[tuple[Key, bool]] = field(default_factory=set)
