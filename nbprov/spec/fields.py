"""Every field a spec may hold: where it belongs, what nbprov does with it, one line of documentation.

The one table behind reading, "did you mean" and completion.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum


class Where(StrEnum):
    """The maps that fields belong in."""

    TASK = ""
    NBPROV = "nbprov"
    RESOURCES = "resources"
    ITEM = "resources.any_of[]"
    AUTOSTOP = "resources.autostop"
    BUDGET = "budget"
    CONFIG = "config"


class Use(StrEnum):
    """What nbprov does with a field today."""

    READ = "read"
    NOTE = "not yet used"
    WARNING = "not yet used, and the difference may cost money or data"
    ERROR = "cannot be honoured; an error unless ignored"
    DROPPED = "internal to SkyPilot; dropped"


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes
    ----------
    values
        The words it may hold, where these are few; for the others `free` is True.
    free
        Whether it may hold anything else than `values`.
    same
        Values that ask for what nbprov does anyway: nothing is said of them.
    advice
        For a field that is not used: what to write instead, or what being without it means.
    """

    name: str
    where: Where
    doc: str
    use: Use = Use.READ
    values: tuple[str, ...] = ()
    free: bool = True
    advice: str = ""
    same: tuple[str, ...] = ()


_T, _R = Where.TASK, Where.RESOURCES
_BOOL = ("true", "false")
_TIERS = ("low", "medium", "high", "ultra", "best")
_STRATEGIES = ("failover", "eager_next_region", "none")

_TASK_FIELDS = (
    Field("resources", _T, "demands on each node; a list of maps is read as `ordered`"),
    Field("run", _T, "the command run on all nodes after setup"),
    Field("setup", _T, "the command run on all nodes before run"),
    Field("name", _T, "name of the cluster: letters, digits, `.` `_` `-`"),
    Field("envs", _T, "variables for setup and run; null = given when the cell is run"),
    Field("num_nodes", _T, "equal machines in one region; the first is the head"),
    Field("workdir", _T, "a local folder copied to ~/sky_workdir"),
    Field("file_mounts", _T, "target on the machine: local file or folder"),
    Field("secrets", _T, "hidden variables; null = taken from the kernel's environment or asked for"),
    Field("max_lifetime", _T, "terminates whatever runs: `8h` from the first billed second"),
    Field("budget", _T, "the most this spec may ever cost, in USD: `10`, `$5`"),
    Field("nbprov", _T, "a map for nbprov's own fields, easy to cut out again"),
    Field("managed_secrets", _T, "names of secrets; read as `NAME: null` under `secrets`"),
    Field("service", _T, "SkyServe's replicas", Use.NOTE, advice="one cluster is started, without replicas or a readiness probe"),
    Field("pool", _T, "SkyPilot's worker pool", Use.NOTE, advice="num_nodes gives as many equal machines"),
    Field("config", _T, "settings that override SkyPilot's configuration"),
    Field("volumes", _T, "network volumes", Use.ERROR, advice="the program would see an empty folder on the machine's own disk"),
    Field("inputs", _T, "size of the input, for an egress estimate", Use.NOTE),
    Field("outputs", _T, "what is copied back before the machine goes", Use.WARNING, advice="copy results before the machine goes"),
    Field("api_server_access", _T, "access to SkyPilot's API server", Use.NOTE),
    Field("event_callback", _T, "a local script at each change of state", Use.ERROR, advice="nbprov runs no local scripts of a spec"),
    Field("execution", _T, "how a pipeline's tasks follow each other", Use.NOTE),
    Field("volume_mounts", _T, "internal to SkyPilot", Use.DROPPED),
    Field("file_mounts_mapping", _T, "internal to SkyPilot", Use.DROPPED),
    Field(
        "prefer",
        _T,
        "`cheapest`, `soonest` or `balanced`",
        Use.NOTE,
        ("cheapest", "soonest", "balanced"),
        False,
        "the cheapest comes first",
        same=("cheapest",),
    ),
    Field(
        "race",
        _T,
        "how many machines may be tried at once",
        Use.WARNING,
        advice="one attempt runs at a time",
        same=(
            "1",
            "false",
        ),
    ),
    Field(
        "wait",
        _T,
        "how long to wait for stock",
        Use.WARNING,
        advice="one pass is made over the plan, then the run ends",
        same=(
            "0",
            "false",
        ),
    ),
    Field(
        "confirm_above",
        _T,
        "asks again above this price",
        Use.WARNING,
        advice="Launch consents to the dearest candidate shown; max_price caps it",
        same=("false",),
    ),
    Field(
        "engine",
        _T,
        "a Dask or Ray cluster on the nodes",
        Use.WARNING,
        ("dask", "ray", "none"),
        True,
        "no scheduler is started",
        same=("none",),
    ),
    Field("health", _T, "the check that a machine is ready", Use.NOTE, advice="a machine is ready when its agent answers"),
    Field(
        "expose",
        _T,
        "who may reach the ports: `tunnel` or `public`",
        Use.NOTE,
        ("tunnel", "public"),
        True,
        "ports are not opened to the internet",
        same=("tunnel",),
    ),
)

_RESOURCES_FIELDS = (
    Field("accelerators", _R, "GPUs of a node: `A100`, `A100:8`, `{L4, T4}` = any, `[H100, A100]` = in this order, `80GB+`"),
    Field("infra", _R, "place: `aws`, `aws/us-east-1`, `gcp/*/us-west1-b`; a list = any of these"),
    Field("cpus", _R, "vCPUs of a node: `4` exactly, `4+` at least"),
    Field("memory", _R, "GiB of a node: `32`, `32+`, `64GB+`, `4x` = per vCPU"),
    Field("use_spot", _R, "spot machines: true, false, or `prefer` = spot first", values=("true", "false", "prefer"), free=False),
    Field("instance_type", _R, "the cloud's own name of a machine: `p4d.24xlarge`"),
    Field("cloud", _R, "name of a cloud, or a list"),
    Field("region", _R, "name of a region, or a list"),
    Field("zone", _R, "name of a zone, or a list"),
    Field("disk_size", _R, "size of the boot disk in GB (256)"),
    Field("ports", _R, "ports reached through tunnels: `8080`, `8080-8090`, or a list"),
    Field("labels", _R, "tags of the machine: text to text"),
    Field("autostop", _R, "stops or ends an idle cluster: `10` minutes, `2h`, `false`, or a map", values=_BOOL),
    Field("max_price", _R, "the most a node may cost an hour, in USD, for every offer"),
    Field("max_hourly_cost", _R, "the most a node may cost an hour, in USD"),
    Field("any_of", _R, "alternatives, cheapest first: a list of maps of these fields"),
    Field("ordered", _R, "alternatives, first choice first: a list of maps of these fields"),
    Field("image_id", _R, "container or machine image", Use.WARNING, advice="the machine starts with nbprov's default image"),
    Field("disk_tier", _R, "speed of the disk", Use.WARNING, _TIERS, False, "the cloud's default disk is used"),
    Field(
        "network_tier",
        _R,
        "speed of the network",
        Use.WARNING,
        ("standard", "best"),
        False,
        "the cloud's default network is used",
        same=("standard",),
    ),
    Field("job_recovery", _R, "where a preempted cluster is replaced", Use.NOTE, _STRATEGIES),
    Field("spot_recovery", _R, "older name of job_recovery", Use.NOTE, _STRATEGIES),
    Field("accelerator_args", _R, "TPU options", Use.ERROR, advice="no cloud here starts TPUs"),
    Field("priority", _R, "place in a queue", Use.NOTE),
    Field("priority_class", _R, "place in a queue", Use.NOTE),
    Field("local_disk", _R, "fast local disk", Use.ERROR, advice="the program would not find the disk"),
    Field("ephemeral_storage", _R, "Kubernetes storage", Use.ERROR, advice="disk_size sets the machine's disk"),
    Field(
        "volumes", _R, "disks attached to the machine", Use.ERROR, advice="the program would see an empty folder on the machine's own disk"
    ),
)

_OTHER_FIELDS = (
    Field("tier", Where.ITEM, "place in the order of preference, from 0; equal tiers compete by price"),
    Field("idle_minutes", Where.AUTOSTOP, "minutes without a cell, a job, an ssh session, GPU or CPU use"),
    Field("down", Where.AUTOSTOP, "true ends the cluster, false stops it and keeps the disk", values=_BOOL, free=False),
    Field("wait_for", Where.AUTOSTOP, "what counts as not idle", values=("jobs_and_ssh", "jobs", "none"), free=False),
    Field("hook", Where.AUTOSTOP, "a command run on the machine before it stops"),
    Field("hook_timeout", Where.AUTOSTOP, "seconds the hook may take (3600)"),
    Field(
        "down_after",
        Where.AUTOSTOP,
        "ends a stopped machine",
        Use.WARNING,
        advice="a stopped machine keeps costing its disk until you end it",
    ),
    Field("total", Where.BUDGET, "the most this spec may ever cost, in USD"),
    Field("warn", Where.BUDGET, "shares of the budget at which to warn", Use.NOTE),
    Field(
        "at_limit",
        Where.BUDGET,
        "what happens at the limit",
        Use.WARNING,
        ("down", "stop"),
        False,
        "at the limit the machines are ended",
        same=("down",),
    ),
    *(
        Field(name, Where.CONFIG, "settings of a platform nbprov does not drive", Use.NOTE)
        for name in ("kubernetes", "ssh", "slurm", "active_workspace")
    ),
    Field("docker", Where.CONFIG, "options of the container", Use.WARNING, advice="no container is started"),
    Field("hooks", Where.CONFIG, "commands at stop, down or preemption", Use.WARNING, advice="only autostop.hook is run"),
    *(
        Field(name, Where.CONFIG, "where and how this cloud's machines live", Use.ERROR, advice="it changes where or how the machine lives")
        for name in ("aws", "azure", "gcp", "lambda", "nebius", "nvidia_gpus", "oci", "runpod", "vast")
    ),
)

ALIASES = {"gpus": "accelerators", "accelerator": "accelerators"}
"""Other names under `resources` that mean the same."""

OWN = frozenset({"max_lifetime", "budget", "prefer", "race", "wait", "confirm_above", "engine", "health", "expose", "outputs"})
"""nbprov's own fields of the task: they may also stand together in the map `nbprov`."""

_SYNONYMS = {
    "gpu": "accelerators",
    "gpu_type": "accelerators",
    "cpu": "cpus",
    "vcpus": "cpus",
    "ram": "memory",
    "mem": "memory",
    "disk": "disk_size",
    "spot": "use_spot",
    "image": "image_id",
    "instance": "instance_type",
    "machine_type": "instance_type",
    "provider": "cloud",
    "port": "ports",
    "tags": "labels",
    "max_cost": "max_price",
    "nodes": "num_nodes",
    "command": "run",
    "cmd": "run",
    "script": "run",
    "env": "envs",
    "environment": "envs",
    "variables": "envs",
    "mounts": "file_mounts",
    "timeout": "max_lifetime",
    "idle_timeout": "autostop",
}

_ALL = (*_TASK_FIELDS, *_RESOURCES_FIELDS, *_OTHER_FIELDS)
_ITEM_LEFT_OUT = frozenset({"any_of", "ordered"})


def _by_place() -> dict[Where, dict[str, Field]]:
    table: dict[Where, dict[str, Field]] = {where: {} for where in Where}
    for field in _ALL:
        table[field.where][field.name] = field
    table[Where.NBPROV] = {name: field for name, field in table[Where.TASK].items() if name in OWN}
    table[Where.ITEM] = {n: f for n, f in table[Where.RESOURCES].items() if n not in _ITEM_LEFT_OUT} | table[Where.ITEM]
    return table


_TABLE = _by_place()


def fields(where: Where) -> tuple[Field, ...]:
    """The fields that belong in a map, most used first."""
    return tuple(_TABLE[where].values())


def find(where: Where, name: str) -> Field | None:
    """The field of this name in this map, aliases included; None where there is none."""
    if where in (Where.RESOURCES, Where.ITEM):
        name = ALIASES.get(name, name)
    return _TABLE[where].get(name)


@dataclass(frozen=True, slots=True)
class Guess:
    """The field an unknown key was meant to be, and whether it belongs in another map."""

    field: Field
    elsewhere: bool


def guess(where: Where, name: str) -> Guess | None:
    """The nearest known field: in this map first, then where a field of this very name belongs, then any near name elsewhere."""
    here = _TABLE[where]
    lower = name.strip().lower().replace("-", "_").replace(" ", "_")
    wanted = lower if lower in here else ALIASES.get(lower, _SYNONYMS.get(lower, ""))
    if wanted in here:
        return Guess(here[wanted], False)
    others = {f.name: f for f in reversed(_ALL) if f.where not in (where, Where.CONFIG, Where.ITEM)}
    for exact in (lower, wanted):
        if exact in others:
            return Guess(others[exact], True)
    near = get_close_matches(lower, here, 1, 0.7)
    if near:
        return Guess(here[near[0]], False)
    near = get_close_matches(lower, others, 1, 0.8)
    return Guess(others[near[0]], True) if near else None
