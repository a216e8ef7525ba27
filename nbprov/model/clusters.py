"""Runs and clusters as people see them: states, attempts, costs and load."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .blocks import Block
from .clock import Instant, Seconds
from .failures import Failure
from .guards import Guards
from .launches import Instance
from .money import Micros
from .offers import Candidate, Plan


class RunState(StrEnum):
    """The states of one provision."""

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
        """Whether the run does nothing more by itself."""
        return self in (RunState.READY, RunState.CANCELLED, RunState.FAILED, RunState.ENDED)


class AttemptState(StrEnum):
    """The states of one create call and of what it made."""

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
        """Whether nothing of this attempt can cost money any more."""
        return self in (AttemptState.REFUSED, AttemptState.GONE, AttemptState.ABSENT)


class ClusterState(StrEnum):
    """The states of a cluster.

    The ledger's clusters are past the first two, which views have of launches under way.
    """

    WAITING = "waiting"
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
class Phase:
    """A state that an attempt was in, and since when."""

    state: AttemptState
    since: Instant


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A row of the failover panel.

    Attributes
    ----------
    number
        1 is the first attempt of the run.
    failure
        Why it failed; None while it goes on, and for the winner.
    cost
        What it has cost so far, whether it failed or not.
    phases
        The states that it went through, oldest first.
    cut_off
        When its present phase is given up; None where it is not, or where another kernel decides.
    usual
        Within how many seconds of the request three of four machines of its cloud were ready;
        None while too few were seen.
    """

    number: int
    token: str
    candidate: Candidate
    state: AttemptState
    started: Instant
    ended: Instant | None = None
    failure: Failure | None = None
    cost: Micros = 0
    phases: tuple[Phase, ...] = ()
    cut_off: Instant | None = None
    usual: Seconds | None = None


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """The use of one GPU, as its driver tells; None for what it does not.

    Attributes
    ----------
    percent
        The share of the time in which it computed, 0 to 100.
    memory_used, memory
        Bytes.
    """

    percent: float | None
    memory_used: int | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class LoadSample:
    """What a machine did at one moment.

    Attributes
    ----------
    cores
        CPU use, in cores.
    memory
        Bytes in use, caches aside.
    """

    at: Instant
    cores: float
    memory: int
    gpus: tuple[GpuLoad, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What a machine did within the last minute, its size, and how its idle guard stands.

    Attributes
    ----------
    samples
        Some seconds apart, oldest first.
    memory, disk_used, disk
        Bytes.
    idle_ends
        When it will have been idle for as long as its guard allows; None where it has no such
        guard.
    is_active
        Whether something is at work on it, so that its idle time does not count.
    """

    samples: tuple[LoadSample, ...]
    cpus: int
    memory: int
    disk_used: int
    disk: int
    idle_ends: Instant | None = None
    is_active: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A row of the clusters table, from the ledger: a cluster, or a launch that may become one.

    Attributes
    ----------
    cluster_id
        The id of the cluster or launch. A machine that is not, or no more, part of one and that is
        being ended has an id of its own.
    candidate
        What was bought; None while a launch has asked for nothing.
    cost
        What it has cost so far.
    hourly_now
        What it costs an hour now; 0 while nothing of it is on the bill.
    reason
        Why it is in this state, or why it ended.
    simulated
        Whether nobody pays it.
    confirmed
        When a cloud's listing last agreed.
    notes
        Remarks of the cluster's guards.
    attempt
        How far the latest attempt of a launch is; None for a cluster.
    uptime
        How long its machines ran so far, without the time while they were stopped.
    loads
        What its machines did within the last minute; empty where nobody asked.
    """

    name: str
    cluster_id: str
    run_id: str
    state: ClusterState
    candidate: Candidate | None
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
    attempt: AttemptState | None = None
    uptime: Seconds = 0.0
    loads: tuple[MachineLoad, ...] = ()

    @property
    def is_launch(self) -> bool:
        """Whether this is a launch that goes on, and no cluster yet."""
        return self.state in (ClusterState.WAITING, ClusterState.LAUNCHING)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for stock.

    Attributes
    ----------
    until
        When it gives up.
    next_pass
        When the places are tried again; None while they are being tried.
    passes
        How often all places have been tried.
    """

    until: Instant
    next_pass: Instant | None = None
    passes: int = 1


@dataclass(frozen=True, slots=True)
class RunView:
    """A snapshot of one provision for its panel, renewed at every change.

    Attributes
    ----------
    message
        One line on what is happening now, or how it ended.
    needs_launch
        Whether the panel waits for Launch.
    attempts
        Oldest first. A loser of the race stays until it is confirmed gone.
    earlier
        How many attempts there were beside those, all of which are over.
    blocks
        The blocks that this run's refusals made.
    error
        Why the run failed, in several lines; empty where it did not, or where `message` and the
        attempts say it.
    hint
        What to do next about a run whose attempts failed.
    log_path
        Path of this run's provision log.
    race
        How many attempts may cost money at once.
    notes
        How this run buys, waits and ends, one line each.
    waiting
        None if the spec asks for no wait.
    log
        The latest lines that setup printed.
    logged
        How many lines setup has printed.
    started, ended
        When it was launched, 0 before; and when the launch was over, with a cluster or without.
    following
        The candidate that is tried next; None where there is none, or it is not known.
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
    ended: Instant | None = None
    following: Candidate | None = None
    hint: str = ""
    earlier: int = 0

    @property
    def tries(self) -> int:
        """How many attempts there were."""
        return self.earlier + len(self.attempts)
