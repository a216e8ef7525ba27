"""The contract of a cloud's adapter: small, blocking calls; no loops, no sleeping. Waiting is the engine's.

Every call names how long it may take. A call that cannot answer in that time raises `CloudError` with a cause; it never
returns a guess. What an adapter raises that is not a `CloudError` is passed through `classify`, so nothing is unclassified.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    CheckResult,
    Instance,
    Launch,
    Operation,
    PollResult,
    Quote,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.stock import Stock

CALL_SECONDS: Seconds = 30.0
"""How long a mutating call may take before its outcome counts as unknown: twice the slowest create answer seen on the big clouds."""
LIST_SECONDS: Seconds = 20.0
"""How long a listing may take."""
CHECK_SECONDS: Seconds = 5.0
"""How long a credential check may take: a person is watching."""
STOCK_SECONDS: Seconds = 3.0
"""How long a look at the stock may take: a plan that a person waits for is made with what has answered by then."""
LOGIN_LABEL = "nbprov-login"
SSH_PORT_LABEL = "nbprov-ssh-port"
"""Labels with which a spec says who logs in, and where sshd listens, on an image of its own that does not follow the cloud's habit."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a cloud can do, as data the planner and the engine read.

    Attributes
    ----------
    spot, stop, multi_node, ports, images
        Whether a request that needs it can be placed here.
    login
        Who logs in to machines of this cloud; made by the start script where the image lacks them. Empty: whoever runs the notebook.
    docker
        A container image can be asked for (`image_id: docker:…`).
    disk_tiers
        The tiers that may be named; where there are none, only `best` is served, with the one disk there is.
    network_best, local_disk, accelerator_args
        Whether `network_tier: best`, a disk inside the machine, and TPU options can be honoured.
    replayable
        A repeated `submit` with the same token returns the first one's result (EC2, GCE); where it is False an unknown
        outcome is resolved by listing.
    fills
        A create for which there are too few machines is accepted with those there are; the same one again makes of the rest what it can, unless
        machines of it were ended meanwhile. Elsewhere a create is all or none.
    replaces_nodes
        A create with `Launch.part` makes the machines that `Launch.nodes` names beside those that bear the token already: under a key of its own
        (`Launch.key`), with ids that no machine of the token ever had, and `Instance.node` of each is the number that was asked for.
        `Instance.by_itself` is told.
    settle
        Seconds after which a create that was sent surely shows in a listing.
    own_timer
        The cloud honours `Launch.terminate_after`.
    zones
        Zones can be chosen; otherwise the region is the finest place.
    stock_probe
        There is a pre-flight call that tells stock.
    poweroff_ends_bill
        A machine that carries out `poweroff` is no longer billed for compute. Where it is, only a notebook that runs can end it for idleness or
        money, and the plan says so.
    poweroff
        Shell command with which a machine powers itself off; `{mode}` is replaced by `stop` or `terminate` and `{reason}` by a quoted text.
    simulated
        Prices are shown but nobody pays.
    named_only
        Enters a plan only when a spec names it, or in demo mode.
    submit_seconds
        How long after an intent its create may still begin at the cloud (`Launch.answer_by`).
    boot_deadline, accept_deadline, ssh_deadline
        Seconds allowed a phase before the machine counts as broken.
    poll_every
        Seconds between two polls or listings while something is awaited.
    default_families
        Type-name prefixes or families of the general-purpose machines: among these, where there are any, a request for CPUs or memory alone is placed.
    """

    spot: bool = False
    stop: bool = False
    multi_node: bool = True
    ports: bool = True
    images: bool = False
    disk_tiers: frozenset[str] = frozenset()
    login: str = ""
    docker: bool = True
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
    poweroff_ends_bill: bool = True
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
    """One provider. Instances are cheap to make and hold no connection until first used."""

    name: str
    capabilities: Capabilities

    @abstractmethod
    def check(self) -> CheckResult:
        """Say whether this cloud can be used, by one cheap authenticated call. At most `CHECK_SECONDS`; never raises."""

    def offers(self) -> Sequence[Offer] | None:
        """Live offers of a cloud that has no price file (as `local` reads its market); None where the catalogue has them. At most `CHECK_SECONDS`."""
        return None

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        """What the cloud says of the stock of these offers, for `count` machines at once. At most `STOCK_SECONDS`; costs nothing, reserves nothing.

        What it cannot tell is left out: nothing said means nothing known. A pool may be wider than an offer (an empty zone means all zones).
        """
        return ()

    def quote(self, candidate: Candidate) -> Quote | None:
        """Ask the price again; None where the cloud cannot tell. At most `CHECK_SECONDS`."""
        return None

    @abstractmethod
    def submit(self, launch: Launch) -> Operation:
        """Send one create for `launch.count` machines, all or none (but see `Capabilities.fills` and `replaces_nodes`). At most `CALL_SECONDS`.

        Raises
        ------
        CloudError
            Refused at once, with its cause; `unknown_outcome` where the answer was lost and machines may exist.
        """

    @abstractmethod
    def poll(self, operation: Operation) -> PollResult:
        """Say what became of a create. At most `LIST_SECONDS`. An operation the cloud has forgotten is answered from its listing."""

    @abstractmethod
    def list(self, owner: str) -> builtins.list[Instance]:
        """All machines that bear this owner id, in every region, ending and gone ones as long as the cloud shows them. At most `LIST_SECONDS`.

        Another owner's machines are never returned. A region that cannot be listed raises; it is not left out.
        """

    @abstractmethod
    def terminate(self, ids: Sequence[str]) -> None:
        """Ask the cloud to end these machines; their disks with them. At most `CALL_SECONDS`. Ids that are gone are passed over in silence."""

    def start(self, ids: Sequence[str]) -> None:
        """Start stopped machines. At most `CALL_SECONDS`. Raises `CloudError` (capacity, not_offered where one is gone)."""
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot start a stopped machine"))

    def stop(self, ids: Sequence[str]) -> None:
        """Stop machines and keep their disks. At most `CALL_SECONDS`. Ids that are stopped or gone are passed over in silence."""
        raise CloudError(
            Failure(Cause.BAD_REQUEST, f"{self.name} cannot stop a machine; down ends it")
        )

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Open inclusive TCP port ranges to the internet. At most `CALL_SECONDS`. Repeats are passed over in silence."""
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot open ports"))

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Close what `open_ports` opened. At most `CALL_SECONDS`. What is closed already is passed over in silence."""
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{self.name} cannot close ports"))

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        """What launches of this owner left beside their machines. At most `LIST_SECONDS`."""
        return []

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        """Remove side objects, and return those that are still in use and have to be tried again. At most `CALL_SECONDS`.

        Ones that are gone are passed over in silence.
        """
        return []

    def admit(self, ids: Sequence[str]) -> bool:
        """Let this computer in to port 22 of these machines if its address has changed. At most `CALL_SECONDS`.

        Called when a connection fails. Returns whether a rule was changed, so that trying again makes sense.
        """
        return False

    def console(self, instance_id: str) -> str:
        """The machine's console output, newest last, at most 64 kB; empty where there is none. At most `LIST_SECONDS`."""
        return ""

    def classify(self, error: BaseException) -> Failure:
        """Name the cause of an exception that a call of this adapter let out. Never raises."""
        if isinstance(error, CloudError):
            return error.failure
        if isinstance(error, TimeoutError):
            return Failure(Cause.UNKNOWN_OUTCOME, str(error) or "no answer in time")
        if isinstance(error, ConnectionError):
            return Failure(Cause.TRANSIENT, str(error))
        return Failure(Cause.UNKNOWN, f"{type(error).__name__}: {error}")
