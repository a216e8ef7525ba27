"""What a `%%provision` cell says, as values. Parsing lives in `nbprov.spec`; nothing here knows YAML or any cloud."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from .clock import Seconds, short_duration
from .money import Micros
from .places import Market

DEFAULT_DISK_GB = 256
DEFAULT_IDLE_SECONDS: Seconds = 60 * 60.0
COUNT_TOLERANCE = 0.01
"""Fractional GPUs: a count asked and a count sold are the same within this (Azure sells 0.333, people write 0.33)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the cell something was written: a dotted path and a line (1-based; 0 where it was not written at all)."""

    path: str
    line: int = 0


class Compare(StrEnum):
    """How a quantity is compared with what a machine has."""

    EXACTLY = "="
    AT_LEAST = ">="
    PER_VCPU = "x"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A demand on vCPUs or on memory in GiB.

    Examples
    --------
    >>> str(Quantity(Compare.AT_LEAST, 4)), Quantity(Compare.PER_VCPU, 4).allows(32, vcpus=8)
    ('4+', True)
    """

    compare: Compare
    value: float

    def allows(self, actual: float, *, vcpus: float = 0.0) -> bool:
        """Whether a machine with `actual` of it is enough; `vcpus` matters for a demand per vCPU."""
        if self.compare is Compare.EXACTLY:
            return math.isclose(actual, self.value, rel_tol=1e-6)
        floor = self.value * vcpus if self.compare is Compare.PER_VCPU else self.value
        return actual >= floor - 1e-9

    def __str__(self) -> str:
        suffix = {Compare.EXACTLY: "", Compare.AT_LEAST: "+", Compare.PER_VCPU: "x"}[self.compare]
        return f"{self.value:g}{suffix}"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A demand for accelerators of one kind: by name, or by device memory.

    Attributes
    ----------
    name
        As written (`a100`, `MI300`); empty where the kind is chosen by memory. The catalogue resolves case and fragments.
    count
        How many a node; fractions are sold (`A10:0.5`).
    memory_gib, memory_at_least, maker
        The other form, `80GB+` or `nvidia:80GB`.
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
class Request:
    """One alternative inside `resources`, fully expanded, in a preference tier.

    Attributes
    ----------
    index
        Place in the order of expansion; breaks ties of price.
    tier
        0 is preferred to 1, whatever the price; equal tiers compete by price.
    cloud, region, zone, instance_type
        Empty means any.
    disk_gb
        Size of the boot disk in GB.
    ports
        Sorted, merged, inclusive ranges.
    max_hourly
        The most a node may cost an hour; None means no cap.
    """

    index: int = 0
    tier: int = 0
    origin: Origin = Origin("resources")
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

    def __str__(self) -> str:
        parts = [str(self.accelerator) if self.accelerator else "", self.instance_type]
        parts += [f"cpus {self.cpus}" if self.cpus else "", f"memory {self.memory}" if self.memory else ""]
        parts.append("spot" if self.market is Market.SPOT else "")
        place = "/".join(p or "*" for p in (self.cloud, self.region, self.zone)).rstrip("/*")
        parts.append(f"@{place}" if place else "")
        return " ".join(p for p in parts if p) or "any machine"


@dataclass(frozen=True, slots=True)
class Autostop:
    """Stop or end the cluster after idleness.

    Attributes
    ----------
    idle
        Seconds without a cell, a job, an ssh session, GPU or CPU use.
    down
        True ends it; False stops it and keeps the disk.
    wait_for
        What counts as not idle: `jobs_and_ssh`, `jobs` or `none`.
    hook, hook_timeout
        A command run on the machine before it stops; its failure only warns.
    """

    idle: Seconds
    down: bool = False
    wait_for: str = "jobs_and_ssh"
    hook: str = ""
    hook_timeout: Seconds = 3600.0


@dataclass(frozen=True, slots=True)
class Guards:
    """What ends a cluster without anybody's doing: idleness, lifetime, budget.

    `autostop` is None only where the spec switched it off.
    """

    autostop: Autostop | None = Autostop(DEFAULT_IDLE_SECONDS, down=True)
    max_lifetime: Seconds | None = None
    budget: Micros | None = None
    is_default: bool = True

    def words(self) -> str:
        """The guards as one phrase for the plan, the panel and the table."""
        from .money import format_usd

        said = []
        if self.autostop is not None:
            said.append(f"{'down' if self.autostop.down else 'stop'} after {short_duration(self.autostop.idle)} idle")
        if self.max_lifetime is not None:
            said.append(f"down after {short_duration(self.max_lifetime)}")
        if self.budget is not None:
            said.append(f"down at {format_usd(self.budget)}")
        return ", ".join(said) if said else "none"


@dataclass(frozen=True, slots=True)
class Mount:
    """A local file or folder copied onto every node: `target` on the machine, `source` here."""

    target: str
    source: str
    origin: Origin = Origin("file_mounts")


class Secret:
    """A value that never shows itself: `repr`, `str` and pickling give away nothing."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value. Only for what is written to a verified ssh connection."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


class Level(StrEnum):
    """How loudly a remark about a spec is made."""

    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something worth saying about a spec that is not an error, with its place in the cell."""

    level: Level
    code: str
    message: str
    origin: Origin = Origin("")


_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole `%%provision` cell.

    Attributes
    ----------
    requests
        The alternatives, in order of expansion. At least one.
    envs
        Values by name; None where the caller has to give one (`RUN_ID: null`).
    secrets
        As `envs`, hidden; None where the caller has to give one.
    source
        The cell's text with the literal values of secrets blotted out; reading it again gives this spec without them.
    """

    requests: tuple[Request, ...] = (Request(),)
    name: str = ""
    num_nodes: int = 1
    setup: str = ""
    run: str = ""
    envs: Mapping[str, str | None] = field(default_factory=lambda: dict(_NOTHING))
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    workdir: str = ""
    file_mounts: tuple[Mount, ...] = ()
    guards: Guards = Guards()
    remarks: tuple[Remark, ...] = ()
    source: str = ""
