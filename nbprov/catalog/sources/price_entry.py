"""One line of a price file, both markets together, before it becomes rows of the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nbprov.model.money import Micros

Key = tuple[str, str, str, str, float]
"""What tells one entry of a cloud from another: region, zone, type, accelerator and how many."""


class Entry(NamedTuple):
    """A type in a place with its prices.

    `instance_type` is empty for accelerators that are sold alone, to be attached to a host. A price
    of None is not known."""

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

    @property
    def key(self) -> Key:
        """What tells this entry from its cloud's others."""
        return (self.region, self.zone, self.instance_type, self.accelerator, self.devices)


@dataclass(slots=True)
class Reading:
    """What was read of one cloud, and what was left out with the reason and how often.

    Attributes
    ----------
    said
        Prices that are the user's word, by entry and whether they are spot prices.
    """

    entries: list[Entry] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    said: set[tuple[Key, bool]] = field(default_factory=set)
