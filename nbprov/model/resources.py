"""The `resources` of a spec: its requests, and what a request can ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from .money import Micros
from .places import Market
from .remarks import Origin

DEFAULT_DISK_GB = 256

STOCK_IMAGE = "skypilot:"
"""Prefix of SkyPilot's own images; a cloud's usual image stands for them."""

COUNT_TOLERANCE = 0.01
"""Tolerance between a requested and a sold count: Azure sells 0.333 GPUs, people write 0.33."""


class Compare(StrEnum):
    """How a quantity is compared with what a machine has."""

    EXACTLY = "="
    AT_LEAST = ">="
    PER_VCPU = "x"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A demand for vCPUs, or for GiB of memory.

    Examples
    --------
    >>> str(Quantity(Compare.AT_LEAST, 4)), Quantity(Compare.PER_VCPU, 4).allows(32, vcpus=8)
    ('4+', True)
    """

    compare: Compare
    value: float

    def allows(self, actual: float, *, vcpus: float = 0.0) -> bool:
        """Whether a machine with `actual` is enough; `vcpus` matters for a demand per vCPU."""
        if self.compare is Compare.EXACTLY:
            return math.isclose(actual, self.value, rel_tol=1e-6)
        floor = self.value * vcpus if self.compare is Compare.PER_VCPU else self.value
        return actual >= floor - 1e-9

    def __str__(self) -> str:
        suffix = {Compare.EXACTLY: "", Compare.AT_LEAST: "+", Compare.PER_VCPU: "x"}[self.compare]
        return f"{self.value:g}{suffix}"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A demand for accelerators of one kind, by name or by device memory.

    Attributes
    ----------
    name
        As written (`a100`, `MI300`); empty if the memory decides. The catalogue resolves case and
        fragments.
    count
        Number per node; fractions are sold (`A10:0.5`).
    memory_gib, memory_at_least, maker
        The form by memory, `80GB+` or `nvidia:80GB`.
    """

    name: str
    count: float = 1.0
    memory_gib: float | None = None
    memory_at_least: bool = False
    maker: str = ""

    def __str__(self) -> str:
        if self.memory_gib is None:
            return f"{self.name}:{self.count:g}"
        head = f"{self.maker}:" if self.maker else ""
        return f"{head}{self.memory_gib:g}GB{'+' if self.memory_at_least else ''}:{self.count:g}"


@dataclass(frozen=True, slots=True)
class PlaceGlob:
    """A pattern over places: `*` is any text, `?` any letter, case is ignored, empty is any place.

    Examples
    --------
    >>> str(PlaceGlob("aws", "us-*"))
    'aws/us-*'
    """

    cloud: str = ""
    region: str = ""
    zone: str = ""

    def __str__(self) -> str:
        parts = [self.cloud, self.region, self.zone]
        while parts and not parts[-1]:
            parts.pop()
        return "/".join(part or "*" for part in parts) or "*"


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """The places that `region: {allow: …, deny: …}` permits.

    A place is permitted if some `allow` matches it (or there is none) and no `deny` does.

    A country or continent (`eu`, `us`, `de`) in a region pattern stands for the regions in it; the
    catalogue knows which.
    """

    allow: tuple[PlaceGlob, ...] = ()
    deny: tuple[PlaceGlob, ...] = ()

    def __str__(self) -> str:
        said = ["|".join(str(g) for g in self.allow) or "any place"]
        said += [f"not {g}" for g in self.deny]
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Image:
    """What a machine starts from.

    Attributes
    ----------
    docker
        A container image in which `setup` and `run` run; empty if they run on the machine itself.
    machine
        (region, image id) pairs of the cloud's own machine images; an empty region is any. Tags
        such as `skypilot:` are kept as written.
    """

    docker: str = ""
    machine: tuple[tuple[str, str], ...] = ()

    @property
    def own(self) -> tuple[tuple[str, str], ...]:
        """The machine images without tags of SkyPilot's, for which the usual image starts."""
        return tuple(one for one in self.machine if not one[1].startswith(STOCK_IMAGE))

    def __str__(self) -> str:
        parts = [f"docker:{self.docker}"] if self.docker else []
        parts += [f"{region}: {image}" if region else image for region, image in self.machine]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class LocalDisk:
    """A fast disk inside the machine, `nvme:1000+`."""

    kind: str = "nvme"
    size_gb: float = 100.0
    at_least: bool = True

    def __str__(self) -> str:
        return f"{self.kind}:{self.size_gb:g}{'+' if self.at_least else ''}"


@dataclass(frozen=True, slots=True)
class Request:
    """One alternative inside `resources`, fully expanded, in a preference tier.

    Attributes
    ----------
    index
        Its place in the order of expansion, which breaks ties of price.
    tier
        Tier 0 is preferred to 1, whatever the price; within a tier the price decides.
    cloud, region, zone, instance_type
        Empty means any.
    disk_gb
        Size of the boot disk in GB.
    ports
        Sorted, merged, inclusive ranges.
    max_hourly
        The highest price of a node per hour; None means no cap.
    places
        Patterns of places; all must hold, as well as `cloud`, `region` and `zone`.
    image
        None if the cloud's usual image will do.
    disk_tier
        `low`, `medium`, `high`, `ultra`, or `best` for the best that the place has; empty for no
        demand.
    network_tier
        `best`, or empty for the usual network.
    local_disk
        A disk inside the machine; None for no demand.
    accelerator_args
        TPU options, as sorted pairs.
    lines
        The line of each field that was written for it.
    """

    index: int = 0
    tier: int = 0
    origin: Origin = field(default=Origin("resources"))
    cloud: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    accelerator: Accelerator | None = None
    cpus: Quantity | None = None
    memory: Quantity | None = None
    market: Market = Market.ON_DEMAND
    disk_gb: int = DEFAULT_DISK_GB
    ports: tuple[tuple[int, int], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    max_hourly: Micros | None = None
    places: tuple[PlaceRule, ...] = ()
    image: Image | None = None
    disk_tier: str = ""
    network_tier: str = ""
    local_disk: LocalDisk | None = None
    accelerator_args: tuple[tuple[str, str], ...] = ()
    lines: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)

    def line_of(self, name: str) -> int:
        """The line of the cell in which a field is written; 0 if it is not written."""
        return dict(self.lines).get(name, 0)

    def __str__(self) -> str:
        parts = [str(self.accelerator) if self.accelerator else "", self.instance_type]
        parts += [
            f"cpus {self.cpus}" if self.cpus else "",
            f"memory {self.memory}" if self.memory else "",
        ]
        parts.append("spot" if self.market is Market.SPOT else "")
        place = "/".join(p or "*" for p in (self.cloud, self.region, self.zone)).rstrip("/*")
        parts.append(f"@{place}" if place else "")
        parts += [f"@({rule})" for rule in self.places]
        return " ".join(p for p in parts if p) or "any machine"
