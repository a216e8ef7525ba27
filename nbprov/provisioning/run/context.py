"""What the parts of one run share: its fixed terms, and the state that changes while it goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbprov.model.blocks import Block
from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.clusters import Phase, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate, Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import LaunchRow, Ledger
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.ssh.keys import ClusterKeys

from . import events
from .attempt import Attempt
from .failover import Failover
from .racing.usual_times import usual_ready
from .run_log import RunLog

log = logging.getLogger("nbprov.provisioning")

Replanner = Callable[[Spec, Sequence[Block]], Awaitable[Plan]]
"""Plans a spec again under the blocks that hold now."""


@dataclass(slots=True)
class RunListeners:
    """Who is told of what a run does.

    Attributes
    ----------
    on_change
        Called after every change, on the engine thread.
    on_side_objects
        Called with a cloud's name where a launch may leave objects beside its machines, and with
        whether the run is over; if not, a create was sent.
    """

    on_change: Callable[[], None] = lambda: None
    on_side_objects: Callable[[str, bool], None] = lambda cloud, is_over: None


@dataclass(slots=True)
class RunProgress:
    """The state of a run that changes while it goes on. It is changed on the engine thread.

    Attributes
    ----------
    keys
        The key pairs of the cluster; None until Launch, or where they could not be loaded.
    own_plan, preferred
        The plan in its own order, and the keys of the candidates that a person put first.
    consent
        The most the whole cluster may cost an hour; the ledger keeps it from Launch on.
    is_agreed
        Launch agrees to all that the spec's caps allow.
    passed_over
        How many places cost more than Launch agrees to by `confirm_above`.
    wait
        How long it waits for stock, from Launch on.
    ended
        When the launch was over, with a cluster or without.
    notes, terms
        What the user should know of how this run buys, waits and ends; those that the plan makes.
    rows
        The launches as the ledger has them, by token.
    clusters
        The machines of each attempt that booted, by token.
    times
        When each attempt began and ended, by token.
    troubles
        What a cloud refuses, by token and by what the run was doing.
    costs, phases
        What each launch cost and went through when the ledger was last read, by token.
    usual_ready
        How long machines of a cloud usually take to be ready, by cloud.
    is_cancel_unwritten
        The run was cancelled, and the ledger could not be told yet.
    """

    name: str
    spec: Spec
    plan: Plan
    failover: Failover
    consent: Micros = 0
    own_plan: Plan = field(init=False)
    preferred: tuple[tuple[str, ...], ...] = ()
    is_agreed: bool = False
    passed_over: int = 0
    keys: ClusterKeys | None = None
    wait: Seconds = 0.0
    state: RunState = RunState.PLANNED
    message: str = ""
    error: str = ""
    started: Instant = 0.0
    ended: Instant | None = None
    notes: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    rows: dict[str, LaunchRow] = field(default_factory=dict)
    clusters: dict[str, LiveCluster] = field(default_factory=dict)
    times: dict[str, tuple[Instant, Instant | None]] = field(default_factory=dict)
    troubles: dict[tuple[str, str], Failure] = field(default_factory=dict)
    costs: dict[str, Micros] = field(default_factory=dict)
    phases: dict[str, tuple[Phase, ...]] = field(default_factory=dict)
    usual_ready: dict[str, Seconds | None] = field(default_factory=dict)
    is_cancel_unwritten: bool = False

    def __post_init__(self) -> None:
        self.own_plan = self.plan


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every part of a run needs.

    Attributes
    ----------
    clouds
        Looks up a cloud by its name.
    replan
        Plans the spec again; None where nobody can.
    queue
        The events that the failover has yet to handle.
    """

    run_id: str
    ledger: Ledger
    clouds: Callable[[str], AsyncCloud]
    clock: Clock
    runlog: RunLog
    keys_folder: Path
    progress: RunProgress
    replan: Replanner | None = None
    listeners: RunListeners = field(default_factory=RunListeners)
    queue: asyncio.Queue[events.Event] = field(default_factory=asyncio.Queue)

    # ------------------------------------------------------------ looking up

    @property
    def consent(self) -> Micros:
        """The most the whole cluster may cost an hour."""
        return self.progress.consent

    @property
    def keys(self) -> ClusterKeys:
        """The key pairs of the cluster; only a run that was launched is asked for them."""
        assert self.progress.keys is not None, "a run that was launched has its keys"
        return self.progress.keys

    def attempt(self, token: str) -> Attempt:
        """The attempt with this token."""
        return self.progress.failover.attempts[token]

    def is_unwanted(self, token: str) -> bool:
        """Whether an attempt can no longer become the cluster."""
        return self.progress.failover.is_unwanted(token)

    def cloud_of(self, token: str) -> AsyncCloud:
        """The cloud of an attempt."""
        return self.clouds(self.attempt(token).candidate.offer.cloud)

    def costs(self) -> dict[str, Micros]:
        """What each launch cost so far. Any thread may call it.

        Where the ledger cannot be read, the costs are those of the last time that it could.
        """
        try:
            self.progress.costs = self.ledger.prices.by_launch(self.run_id)
        except LedgerError as error:
            log.info("run %s: %s", self.run_id, error.message)
        return self.progress.costs

    def spent(self) -> Micros:
        """What all launches cost so far."""
        return sum(self.costs().values())

    def phases(self) -> dict[str, tuple[Phase, ...]]:
        """The states that each attempt went through. Any thread may call it.

        Where the ledger cannot be read, they are those of the last time that it could.
        """
        try:
            self.progress.phases = self.ledger.events.phases(self.run_id)
        except LedgerError as error:
            log.info("run %s: %s", self.run_id, error.message)
        return self.progress.phases

    # ------------------------------------------------------------ telling

    def post(self, event: events.Event) -> None:
        """Queue an event for the failover. On the engine thread."""
        self.queue.put_nowait(event)

    def post_blocks(self) -> None:
        """Queue the blocks that hold now, as the ledger has them. On the engine thread."""
        self.post(self.blocks_read())

    def blocks_read(self) -> events.Event:
        """The blocks that hold now as an event; a mere tick where the ledger cannot be read."""
        try:
            return events.BlocksRead(tuple(self.ledger.blocks.standing()))
        except LedgerError as error:
            log.warning("run %s: %s", self.run_id, error.message)
            return events.Tick()

    def changed(self) -> None:
        """Tell the listener of a change."""
        try:
            self.listeners.on_change()
        except Exception:  # a display that fails must not stop a launch
            log.exception("run %s: its display", self.run_id)

    def show_message(self, message: str) -> None:
        """Show what the run is doing now."""
        self.progress.message = message
        self.changed()

    def log_attempt(self, token: str, text: str) -> None:
        """Add a line on an attempt to the run's log."""
        self.runlog.line(f"attempt {self.attempt(token).number}  {text}")

    # ------------------------------------------------------------ noting

    def add_row(self, row: LaunchRow) -> None:
        """Note a launch as the ledger has it."""
        self.progress.rows[row.token] = row
        self.progress.times[row.token] = (row.created, row.ended)
        if row.cloud not in self.progress.usual_ready:
            try:
                usual = usual_ready(self.ledger, row.cloud)
            except LedgerError as error:
                log.info("run %s: %s", self.run_id, error.message)
            else:
                self.progress.usual_ready[row.cloud] = usual

    def end_time(self, token: str) -> None:
        """Note that an attempt ended now."""
        times = self.progress.times
        times[token] = (times[token][0], self.clock.now())

    def set_price(self, token: str, candidate: Candidate) -> None:
        """Note the price that the intent of an attempt was committed with."""
        self.progress.failover.set_price(token, candidate)

    def trouble(self, token: str, doing: str, failure: Failure | None) -> None:
        """Show that a cloud refuses a request of an attempt; None once the cloud accepts it."""
        progress, key = self.progress, (token, doing)
        if failure is None:
            if progress.troubles.pop(key, None) is not None:
                self.changed()
        elif progress.troubles.get(key) != failure:
            progress.troubles[key] = failure
            self.runlog.line(f"{doing}: {failure.sentence()}")
            if progress.state in (RunState.LAUNCHING, RunState.CANCELLING):
                progress.message = f"{doing} fails: {failure.sentence()}"
            self.changed()
