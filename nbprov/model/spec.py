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
from .python_env import KEEP, PythonEnvironment
from .sources import SourceKind, source_kind

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
class PlaceGlob:
    """A pattern over places: `*` any text, `?` any one letter, case ignored; an empty field is any.

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
    """What `region: {allow: …, deny: …}` leaves: a place that some `allow` matches (none: every place) and no `deny`.

    A country or continent (`eu`, `us`, `de`) in a region pattern stands for the regions that lie there; the catalogue knows which.
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
        A container image that `setup` and `run` run in; empty where they run on the machine itself.
    machine
        (region, image id) pairs of the cloud's own machine images; an empty region is any. `skypilot:` tags are kept as written.
    """

    docker: str = ""
    machine: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        parts = [f"docker:{self.docker}"] if self.docker else []
        parts += [f"{region}: {image}" if region else image for region, image in self.machine]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class LocalDisk:
    """A fast disk inside the machine: `nvme:1000+`."""

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
    places
        Patterns of places, all of which must hold beside `cloud`, `region` and `zone`.
    image
        None where the cloud's usual image will do.
    disk_tier
        `low`, `medium`, `high`, `ultra` or `best`; empty where nothing is asked. `best` is the best the place has.
    network_tier
        `best`, or empty for the usual.
    local_disk
        A disk inside the machine, where one is asked.
    accelerator_args
        TPU options, sorted pairs.
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
    places: tuple[PlaceRule, ...] = ()
    image: Image | None = None
    disk_tier: str = ""
    network_tier: str = ""
    local_disk: LocalDisk | None = None
    accelerator_args: tuple[tuple[str, str], ...] = ()

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
    down_after
        Seconds after which a stopped cluster is ended; None: never.
    """

    idle: Seconds
    down: bool = False
    wait_for: str = "jobs_and_ssh"
    hook: str = ""
    hook_timeout: Seconds = 3600.0
    down_after: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Guards:
    """What ends a cluster without anybody's doing: idleness, lifetime, budget.

    Attributes
    ----------
    autostop
        None only where the spec switched it off.
    warn
        Shares of the budget (0 to 1) at which to warn, ascending.
    at_limit
        What happens at the budget's limit: `down` or `stop`.
    """

    autostop: Autostop | None = Autostop(DEFAULT_IDLE_SECONDS, down=True)
    max_lifetime: Seconds | None = None
    budget: Micros | None = None
    is_default: bool = True
    warn: tuple[float, ...] = ()
    at_limit: str = "down"

    def words(self) -> str:
        """The guards as one phrase for the plan, the panel and the table."""
        from .money import format_usd

        said = []
        if self.autostop is not None:
            said.append(
                f"{'down' if self.autostop.down else 'stop'} after {short_duration(self.autostop.idle)} idle"
            )
        if self.max_lifetime is not None:
            said.append(f"down after {short_duration(self.max_lifetime)}")
        if self.budget is not None:
            said.append(f"{self.at_limit} at {format_usd(self.budget)}")
        return ", ".join(said) if said else "none"


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder copied onto every node: `target` on the machine, `source` a local path, or the URI of a bucket or of a file on the web."""

    target: str
    source: str
    origin: Origin = Origin("file_mounts")

    @property
    def kind(self) -> SourceKind:
        """Where the source lies."""
        return source_kind(self.source)


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository as the working folder.

    Attributes
    ----------
    url
        `https://…`, `ssh://…` or `git@host:path`, without a password.
    ref
        A branch, a tag or a commit; empty for the default branch.
    """

    url: str
    ref: str = ""

    @property
    def short(self) -> str:
        """Its name as people say it.

        Examples
        --------
        >>> Repository("https://github.com/o/r.git").short, Repository("git@host:o/r").short
        ('o/r', 'o/r')
        """
        path = (
            self.url.partition("://")[2].partition("/")[2]
            if "://" in self.url
            else self.url.partition(":")[2]
        )
        return "/".join(path.strip("/").removesuffix(".git").split("/")[-2:])


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


class Policy(StrEnum):
    """What comes first inside a tier."""

    CHEAPEST = "cheapest"
    SOONEST = "soonest"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class Race:
    """How many machines may be tried at once.

    Attributes
    ----------
    width
        1 is one at a time.
    hedge
        Seconds after which a further place is tried beside one that has not accepted; None: that cloud's usual time to accept.
    """

    width: int = 2
    hedge: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to watch for stock after every place was refused for capacity, spot or quota.

    Attributes
    ----------
    seconds
        0 is one pass.
    notify
        Tell the person when it ends.
    webhook
        Where to post the end. Who knows it can post there: it is neither shown nor stored.
    """

    seconds: Seconds = 0.0
    notify: bool = False
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ConfirmAbove:
    """Beyond what Launch consented to, what a run may not do without asking again. Empty: nothing is asked.

    Attributes
    ----------
    jump
        Share (0.2 is 20 %) by which a place may be dearer than the first one.
    hourly, total
        Of the whole cluster.
    """

    jump: float | None = None
    hourly: Micros | None = None
    total: Micros | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """A Dask or Ray cluster over the nodes: `kind` is `dask` or `ray`; `options` are sorted pairs."""

    kind: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """The check that a machine is ready, and goes on being so.

    Attributes
    ----------
    on
        False: switched off.
    command
        Shell command that succeeds on a healthy machine; empty: the usual check of the accelerators.
    http
        `:8000/ok`: a port and path of the machine that answer with success; empty: not asked.
    failures
        How many in a row make the machine unhealthy.
    on_fail
        `report`, `replace` or `down`.
    """

    on: bool = True
    command: str = ""
    http: str = ""
    every: Seconds = 30.0
    timeout: Seconds = 10.0
    failures: int = 3
    on_fail: str = "report"


@dataclass(frozen=True, slots=True)
class Expose:
    """Who may reach the ports: those in `public` are opened to the internet, all others are reached by tunnels."""

    everything: bool = False
    public: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that is run on the machine at `stop`, `down` or `preemption`."""

    run: str
    events: tuple[str, ...] = ("stop", "down")
    timeout: Seconds = 3600.0


@dataclass(frozen=True, slots=True)
class Variable:
    """A notebook variable that was put into a spec: its name, its value in words, and the paths it went to. A secret's value is never here."""

    name: str
    shown: str
    paths: tuple[str, ...] = ()


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
    workdir
        What becomes `~/sky_workdir`: a local folder or a git repository; empty for none.
    inputs
        (URI, GB) pairs: where the data is and how much, for what moving it costs.
    outputs
        Files and folders pulled before any teardown: `source` on the machine, `target` here.
    python
        Interpreter and packages of every node; None: those that the machine has.
    on_setup_failure
        What becomes of a cluster that could not be set up: `keep` or `down`.
    docker_options
        Options of `docker run` for a container image.
    recovery
        Where a preempted cluster is replaced: `failover` (its region first), `eager_next_region`, or empty.
    variables
        Notebook variables that were filled in.
    source
        The cell's text with the literal values of secrets blotted out; reading it again gives this spec without them.
    source_spec
        The spec that reading `source` alone gives, without hidden values; None where it cannot be
        read alone, since fields were ignored. `dataclasses.replace` keeps it, so that a spec that
        was changed after it was read can be told from its source without reading that again.
    """

    requests: tuple[Request, ...] = (Request(),)
    name: str = ""
    num_nodes: int = 1
    setup: str = ""
    run: str = ""
    envs: Mapping[str, str | None] = field(default_factory=lambda: dict(_NOTHING))
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    workdir: str | Repository = ""
    file_mounts: tuple[Mount, ...] = ()
    guards: Guards = Guards()
    remarks: tuple[Remark, ...] = ()
    source: str = ""
    prefer: Policy = Policy.CHEAPEST
    race: Race = Race()
    wait: Wait = Wait()
    confirm_above: ConfirmAbove = ConfirmAbove()
    engine: Engine | None = None
    health: Health = Health()
    expose: Expose = Expose()
    outputs: tuple[Mount, ...] = ()
    python: PythonEnvironment | None = None
    on_setup_failure: str = KEEP
    inputs: tuple[tuple[str, float], ...] = ()
    hooks: tuple[Hook, ...] = ()
    docker_options: tuple[str, ...] = ()
    recovery: str = ""
    variables: tuple[Variable, ...] = ()
    source_spec: Spec | None = field(default=None, compare=False, repr=False)
