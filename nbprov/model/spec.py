"""The content of a `%%provision` cell, as values.

Parsing lives in `nbprov.spec`; nothing here knows YAML or any cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .clock import Seconds
from .guards import Guards
from .remarks import Remark
from .resources import Request
from .run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from .secret import Secret
from .sources import Mount, Repository

KEEP, DOWN = "keep", "down"
"""What happens to a cluster whose files, Python or setup failed: it is kept for repair, or ended.
"""


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """An interpreter and packages, the same on every node.

    At least one field is given; `lock` excludes the requirements.

    Attributes
    ----------
    version
        `3.12` or `3.12.4`; empty for the machine's own, or the one that the project of `lock`
        requires.
    requirements
        Requirements as pip takes them, `pandas>=2`.
    file
        Local path of a requirements file or a `pyproject.toml`.
    lock
        Path of a `uv.lock`, or of the folder that holds it and its `pyproject.toml`: a local one,
        or one in the git repository that is `workdir`.
    """

    version: str = ""
    requirements: tuple[str, ...] = ()
    file: str = ""
    lock: str = ""

    def __str__(self) -> str:
        packages = self.lock or self.file or ", ".join(self.requirements)
        return " with ".join(part for part in (self.version, packages) if part)


@dataclass(frozen=True, slots=True)
class ComputeEngine:
    """A Dask or Ray cluster over the nodes.

    `kind` is `dask` or `ray`; `options` are sorted pairs.
    """

    kind: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The check that a machine is ready, and stays so.

    Attributes
    ----------
    on
        False switches the check off.
    command
        A shell command that succeeds on a healthy machine; empty for the usual check of
        accelerators.
    http
        Port and path on the machine that must answer with success, `:8000/ok`; empty for none.
    failures
        How many failures in a row make the machine unhealthy.
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
class ExposedPorts:
    """Who may reach the ports: `public` ones are open to the internet, others need a tunnel."""

    everything: bool = False
    public: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that runs on the machine at `stop`, `down` or `preemption`."""

    run: str
    events: tuple[str, ...] = ("stop", "down")
    timeout: Seconds = 3600.0


@dataclass(frozen=True, slots=True)
class Variable:
    """A notebook variable that was filled into a spec.

    It holds the name, the value in words, and the paths it went to; never the value of a secret.
    """

    name: str
    shown: str
    paths: tuple[str, ...] = ()


_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole `%%provision` cell.

    Attributes
    ----------
    requests
        The alternatives, in the order of expansion; at least one.
    envs
        Values by name; None if the caller must give one (`RUN_ID: null`).
    secrets
        As `envs`, but hidden.
    workdir
        The source of `~/sky_workdir`: a local folder or a git repository; empty for none.
    inputs
        (URI, GB) pairs: where the data is and how much, for the cost of moving it.
    outputs
        Files and folders that are pulled before any teardown: `source` on the machine, `target`
        here.
    python
        Interpreter and packages of every node; None for those that the machine has.
    on_setup_failure
        What happens to a cluster whose setup failed: `keep` or `down`.
    docker_options
        Options of `docker run` for a container image.
    recovery
        Where a preempted cluster is replaced: `failover` (its region first), `eager_next_region`,
        or empty.
    variables
        Notebook variables that were filled in.
    source
        The cell's text without the literal values of secrets. Reading it gives this spec without
        them.
    source_spec
        The spec that reading `source` alone gives, without hidden values; None if it cannot be
        read alone, because fields were ignored. `dataclasses.replace` keeps it, so a spec that was
        changed after it was read can be told from its source without reading that again.
    lines
        The line of each field of the cell itself, beside those of `resources`.
    """

    requests: tuple[Request, ...] = field(default_factory=lambda: (Request(),))
    name: str = ""
    num_nodes: int = 1
    setup: str = ""
    run: str = ""
    envs: Mapping[str, str | None] = field(default_factory=lambda: dict(_NOTHING))
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)
    workdir: str | Repository = ""
    file_mounts: tuple[Mount, ...] = ()
    guards: Guards = field(default_factory=Guards)
    remarks: tuple[Remark, ...] = ()
    source: str = ""
    prefer: OrderPolicy = OrderPolicy.CHEAPEST
    race: Race = field(default_factory=Race)
    wait: WaitPolicy = field(default_factory=WaitPolicy)
    confirm_above: ConfirmAbove = field(default_factory=ConfirmAbove)
    engine: ComputeEngine | None = None
    health: HealthCheck = HealthCheck()
    expose: ExposedPorts = ExposedPorts()
    outputs: tuple[Mount, ...] = ()
    python: PythonEnvironment | None = None
    on_setup_failure: str = KEEP
    inputs: tuple[tuple[str, float], ...] = ()
    hooks: tuple[Hook, ...] = ()
    docker_options: tuple[str, ...] = ()
    recovery: str = ""
    variables: tuple[Variable, ...] = ()
    source_spec: Spec | None = field(default=None, compare=False, repr=False)
    lines: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)
