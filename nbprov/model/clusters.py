"""Runs and clusters as people see them: states, attempts, costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .clock import Instant
from .failures import Failure
from .launches import Instance
from .money import Micros
from .offers import Block, Candidate, Plan
from .spec import Guards


class RunState(StrEnum):
    """The life of one provision."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    WAITING = "waiting"
    READY = "ready"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FAILED = "failed"
    ENDED = "ended"

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens by itself."""
        return self in (RunState.READY, RunState.CANCELLED, RunState.FAILED, RunState.ENDED)


class AttemptState(StrEnum):
    """The life of one create call and what it made."""

    INTENT = "intent"
    SENT = "sent"
    UNKNOWN = "unknown"
    ACCEPTED = "accepted"
    BOOTING = "booting"
    SSH = "ssh"
    AGENT = "agent"
    HEALTH = "health"
    READY = "ready"
    ENDING = "ending"
    REFUSED = "refused"
    GONE = "gone"
    ABSENT = "absent"

    @property
    def is_final(self) -> bool:
        """Whether nothing of this attempt can be on the bill any more."""
        return self in (AttemptState.REFUSED, AttemptState.GONE, AttemptState.ABSENT)


class ClusterState(StrEnum):
    """The life of a cluster."""

    LAUNCHING = "launching"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STARTING = "starting"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


class DesiredState(StrEnum):
    """What is to become of a cluster.

    `KEPT` stands where an end or a stop was asked for and taken back, or could not be carried out
    without a loss; such a cluster stays as it is, under its guards. `REPLACED` is a cluster whose
    name another one has now: whichever kernel sees it ends it.
    """

    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"
    ENDED_WITHOUT_OUTPUTS = "ended_without_outputs"
    REPLACED = "replaced"
    KEPT = "kept"

    @property
    def is_end(self) -> bool:
        """Whether the cluster was asked to end."""
        return self in (DesiredState.ENDED, DesiredState.ENDED_WITHOUT_OUTPUTS)

    @classmethod
    def of(cls, state: ClusterState) -> DesiredState:
        """What is taken as wanted of a cluster in this state where nobody says otherwise."""
        if state in (ClusterState.STOPPING, ClusterState.STOPPED):
            return cls.STOPPED
        if state in (ClusterState.ENDING, ClusterState.ENDED):
            return cls.ENDED
        return cls.RUNNING


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A row of the failover panel.

    Attributes
    ----------
    number
        1 is the first attempt of the run.
    failure
        Why it failed; None while it goes on or where it won.
    cost
        What it cost so far, failed or not.
    """

    number: int
    token: str
    candidate: Candidate
    state: AttemptState
    started: Instant
    ended: Instant | None = None
    failure: Failure | None = None
    cost: Micros = 0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A row of the clusters table, from the ledger; `confirmed` says when a cloud's listing last agreed, `notes` what its guards have to say."""

    name: str
    cluster_id: str
    run_id: str
    state: ClusterState
    candidate: Candidate
    instances: tuple[Instance, ...]
    guards: Guards
    started: Instant
    ended: Instant | None = None
    cost: Micros = 0
    hourly_now: Micros = 0
    confirmed: Instant | None = None
    reason: str = ""
    simulated: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for stock.

    Attributes
    ----------
    until
        When it gives up.
    next_pass
        When the places are tried again; None while they are.
    passes
        How often all places were tried.
    """

    until: Instant
    next_pass: Instant | None = None
    passes: int = 1


@dataclass(frozen=True, slots=True)
class RunView:
    """What the panel of one provision shows: a snapshot, renewed at every change.

    Attributes
    ----------
    message
        One line on what goes on now, or how it ended.
    needs_launch
        The panel waits for Launch.
    attempts
        Oldest first; losers that are being ended stay until confirmed gone.
    blocks
        What this run learnt about places.
    error
        Why the run failed, several lines; empty otherwise.
    log_path
        The provision log of this run.
    race
        How many attempts may be on the bill at once.
    notes
        What the person should know of how this run buys, waits and ends, a line each.
    waiting
        None where the spec asks for no wait.
    log
        The latest lines that setting up has printed.
    logged
        How many lines it has printed.
    """

    run_id: str
    name: str
    state: RunState
    plan: Plan
    message: str = ""
    needs_launch: bool = False
    attempts: tuple[AttemptView, ...] = ()
    blocks: tuple[Block, ...] = ()
    cluster: ClusterView | None = None
    started: Instant = 0.0
    now: Instant = 0.0
    cost: Micros = 0
    error: str = ""
    log_path: str = ""
    race: int = 1
    notes: tuple[str, ...] = ()
    waiting: Waiting | None = None
    log: tuple[str, ...] = ()
    logged: int = 0
