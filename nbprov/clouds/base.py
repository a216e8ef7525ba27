"""The contract of a cloud's adapter: small blocking calls without loops or sleeping.

Waiting is the engine's. Every call says how long it may take. A call that cannot answer in that
time raises `CloudError` with a cause; it never returns a guess. Any other exception of an adapter
is passed to `classify`, so that every failure has a cause.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    CheckResult,
    CreateOperation,
    Instance,
    Launch,
    PollResult,
    Quote,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.stock import Stock

CALL_SECONDS: Seconds = 30.0
"""How long a mutating call may take before its outcome counts as unknown: twice the slowest create
seen on the big clouds."""
LIST_SECONDS: Seconds = 20.0
"""How long a listing may take."""
CHECK_SECONDS: Seconds = 5.0
"""How long a credential check may take, while a person waits."""
STOCK_SECONDS: Seconds = 3.0
"""How long a stock probe may take: a plan that a person waits for uses the answers that have
arrived by then."""
LOGIN_LABEL = "nbprov-login"
SSH_PORT_LABEL = "nbprov-ssh-port"
"""Labels with which a spec names the user and the sshd port of an image of its own that differs
from the cloud's defaults."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a cloud can do, as data for the planner and the engine.

    What a request may need is off unless an adapter names it: such a request is not placed there,
    so that nothing that was asked is left out in silence.

    Attributes
    ----------
    spot, stop, multi_node, ports, images
        Whether requests that need it can be placed here.
    login
        The user of this cloud's machines, created by the start script if the image lacks it. Empty
        for the user who runs the notebook.
    docker
        A container image can be requested (`image_id: docker:…`).
    disk_sizes
        The size of the disk can be chosen. Elsewhere the plan says that `disk_size` is not asked.
    disk_tiers
        The disk tiers that may be named. If there are none, only `best` is accepted, for the only
        disk there is.
    network_best, local_disk, accelerator_args
        Whether `network_tier: best`, a disk inside the machine, and TPU options are supported.
    replayable
        A repeated `submit` with the same token returns the first one's result (EC2, GCE). If False,
        an unknown outcome is resolved from the listing.
    fills
        A create for too few available machines is accepted with those available. Repeating it
        creates as many of the rest as possible, unless machines of it were ended meanwhile.
        Elsewhere a create is all or none.
    replaces_nodes
        A create with `Launch.part` adds the nodes in `Launch.nodes` to the machines with the same
        token. It has a key of its own (`Launch.key`) and ids that no machine of the token ever had,
        and `Instance.node` of each is the requested number. `Instance.by_itself` is reported.
    settle
        Seconds after which a listing surely shows the machines of a create.
    own_timer
        The cloud honours `Launch.terminate_after`.
    zones
        Zones can be chosen; otherwise the region is the finest place.
    stock_probe
        A call tells the stock before a launch.
    poweroff_ends_bill
        The compute of a machine that powers itself off is no longer billed. Otherwise only a
        running notebook can end it for idleness or budget, and the plan says so.
    poweroff
        The shell command with which a machine powers itself off; `{mode}` is replaced by `stop` or
        `terminate` and `{reason}` by a quoted text.
    simulated
        Prices are shown but nobody pays.
    named_only
        The cloud enters a plan only if a spec names it, or in demo mode.
    submit_seconds
        How long after an intent its create may still begin at the cloud (`Launch.answer_by`).
    boot_deadline, accept_deadline, ssh_deadline
        Seconds that each phase may take before the machine counts as broken.
    poll_every
        Seconds between two polls or listings while something is awaited.
    default_families
        Families or type-name prefixes of general-purpose machines. A request for CPUs or memory
        only is placed among them if there are any.
    notes
        Sentences about the cloud for people, by subject.
    """

    spot: bool = False
    stop: bool = False
    multi_node: bool = False
    ports: bool = False
    images: bool = False
    disk_sizes: bool = False
    disk_tiers: frozenset[str] = frozenset()
    login: str = ""
    docker: bool = False
    network_best: bool = False
    local_disk: bool = False
    accelerator_args: bool = False
    replayable: bool = False
    fills: bool = False
    replaces_nodes: bool = False
    settle: Seconds = 120.0
    own_timer: bool = False
    zones: bool = True
    stock_probe: bool = False
    poweroff_ends_bill: bool = False
    poweroff: str = "sudo -n poweroff"
    simulated: bool = False
    named_only: bool = False
    submit_seconds: Seconds = CALL_SECONDS
    accept_deadline: Seconds = 120.0
    boot_deadline: Seconds = 600.0
    ssh_deadline: Seconds = 180.0
    poll_every: Seconds = 2.0
    default_families: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)


class Cloud(ABC):
    """One provider. Instances are cheap to make and open no connection until first used."""

    name: str
    capabilities: Capabilities

    @abstractmethod
    def check(self) -> CheckResult:
        """Say whether this cloud can be used, by one cheap authenticated call.

        At most `CHECK_SECONDS`; never raises.
        """

    def offers(self) -> Sequence[Offer] | None:
        """Return the live offers of a cloud without a price file; None if the catalogue has them.

        At most `CHECK_SECONDS`. Once a refresh wrote a price file of the cloud, that counts.
        """
        return None

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        """Return what the cloud tells about the stock of these offers, for `count` machines at
        once.

        At most `STOCK_SECONDS`; free of charge, without a reservation. Unknown stock is left out. A
        pool names the offer's region, and may be wider otherwise (an empty zone means all zones).
        """
        return ()

    def quote(self, candidate: Candidate) -> Quote | None:
        """Return the current price; None if the cloud cannot tell. At most `CHECK_SECONDS`."""
        return None

    @abstractmethod
    def submit(self, launch: Launch) -> CreateOperation:
        """Send one create for `launch.count` machines. At most `CALL_SECONDS`.

        It is all or none, except with `Capabilities.fills` and `replaces_nodes`.

        Raises
        ------
        CloudError
            Refused at once, with its cause; `unknown_outcome` if the answer was lost and machines
            may exist.
        """

    @abstractmethod
    def poll(self, operation: CreateOperation) -> PollResult:
        """Return the outcome of a create. At most `LIST_SECONDS`.

        If the cloud has forgotten the operation, the answer comes from its listing.
        """

    @abstractmethod
    def list(self, owner: str) -> builtins.list[Instance]:
        """Return all machines with this owner id, in every region. At most `LIST_SECONDS`.

        Ending and gone machines are included as long as the cloud shows them. Another owner's
        machines are never returned. A region that cannot be listed raises an error.
        """

    @abstractmethod
    def terminate(self, ids: Sequence[str]) -> None:
        """Ask the cloud to end these machines and delete their disks. At most `CALL_SECONDS`.

        Ids that are gone are skipped. An id that fails keeps no other from being ended; the first
        failure is raised after all were asked for.
        """

    def start(self, ids: Sequence[str]) -> None:
        """Start stopped machines. At most `CALL_SECONDS`.

        Raises
        ------
        CloudError
            `capacity`, or `not_offered` if a machine is gone.
        """
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot start a stopped machine"))

    def stop(self, ids: Sequence[str]) -> None:
        """Stop machines and keep their disks. At most `CALL_SECONDS`.

        Ids that are stopped or gone are skipped.
        """
        raise CloudError(
            Failure(Cause.BAD_REQUEST, f"{self.name} cannot stop a machine; down ends it")
        )

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Open inclusive TCP port ranges to the internet. At most `CALL_SECONDS`.

        Open ports are skipped.
        """
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot open ports"))

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Close what `open_ports` opened. At most `CALL_SECONDS`. Closed ports are skipped."""
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot close ports"))

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        """Return what launches of this owner left beside their machines. At most `LIST_SECONDS`."""
        return []

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        """Remove side objects. At most `CALL_SECONDS`.

        Returns those that are still in use and have to be tried again. Objects that are gone are
        skipped.
        """
        return []

    def admit(self, ids: Sequence[str]) -> bool:
        """Admit this computer to port 22 of these machines if its address has changed.

        At most `CALL_SECONDS`. Called when a connection fails. Returns whether a rule was changed,
        so that another attempt makes sense.
        """
        return False

    def console(self, instance_id: str) -> str:
        """Return the machine's console output, newest last, at most 64 kB. At most `LIST_SECONDS`.

        Empty if there is none.
        """
        return ""

    def classify(self, error: BaseException) -> Failure:
        """Name the cause of an exception from a call of this adapter. Never raises."""
        if isinstance(error, CloudError):
            return error.failure
        words = without_proxy_logins(str(error))
        if isinstance(error, TimeoutError):
            return Failure(Cause.UNKNOWN_OUTCOME, words or "no answer in time")
        if isinstance(error, ConnectionError):
            return Failure(Cause.TRANSIENT, words)
        return Failure(Cause.UNKNOWN, f"{type(error).__name__}: {words}")
