"""The question put to the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.spec import Quantity

Names = str | tuple[str, ...]
"""One name or several; empty means any. `*` and `?` in a region or zone stand for any text and any one letter."""


@dataclass(frozen=True, slots=True)
class Query:
    """What rows are wanted. An empty field means any; several values in a field mean any of these.

    Attributes
    ----------
    accelerator
        Names as the catalogue has them (`Catalog.resolve_accelerator` makes them so); case is ignored.
    count
        Accelerators a machine, within 0.01.
    cpus, memory
        Demands on vCPUs and on GiB of memory. A row that does not say how much it has does not satisfy a demand; memory
        beside an accelerator counts as met on clouds where the figure is only typical (`Catalog.memory_is_typical`).
    cloud, region, zone, instance_type
        Case is ignored. A GCP machine with attached accelerators is found by its host's name too where accelerators are asked.
    market
        None means both.
    max_hourly
        The most a machine may cost an hour, itself included.
    families
        Type families such as `m6i` or `n2-standard`; `default` (`DEFAULT_FAMILIES`) stands for each cloud's own
        general-purpose families, and for all rows of a cloud that has no such choice.
    device_gib, device_at_least
        Memory of one device as its maker names it, exactly or at the least: an L4 "of 24 GB" answers 24, whether its cloud reports 24 GiB
        or 22.4.
    maker
        `nvidia`, `amd`, …; case is ignored.
    has_accelerator
        True: only machines with accelerators; False: only those without.
    unusual
        Also the combinations of a GCP accelerator and a host that are given only to who asks for their vCPUs, memory or type.
    """

    accelerator: Names = ()
    count: float | tuple[float, ...] | None = None
    cpus: Quantity | None = None
    memory: Quantity | None = None
    cloud: Names = ()
    region: Names = ()
    zone: Names = ()
    instance_type: Names = ()
    market: Market | None = None
    max_hourly: Micros | None = None
    families: Names = ()
    device_gib: float | None = None
    device_at_least: bool = False
    maker: Names = ()
    has_accelerator: bool | None = None
    unusual: bool = False

    @property
    def wants_accelerator(self) -> bool:
        """Whether the question is about machines with accelerators."""
        return (
            bool(self.accelerator)
            or self.count is not None
            or self.device_gib is not None
            or bool(self.maker)
            or self.has_accelerator is True
        )


def names(value: Names) -> tuple[str, ...]:
    """The values of a field as a tuple; empty means any."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(value)


def numbers(value: float | Iterable[float] | None) -> tuple[float, ...]:
    """The numbers of a field as a tuple; empty means any."""
    if value is None:
        return ()
    return (float(value),) if isinstance(value, int | float) else tuple(float(v) for v in value)
