"""Drive one run: feed events to the failover, write what follows, carry the actions out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import assert_never

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState, RunState, RunView
from nbprov.model.errors import EndUnrecorded, LedgerError, NbprovError
from nbprov.model.failures import Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import LaunchRow, LeaseLost
from nbprov.runtime.fault_log import log_fault

from . import events
from .actions.create import CreateActions
from .actions.held_actions import HeldActions
from .actions.launch_requests import LaunchRequests
from .actions.machine_startup import MachineStartup
from .actions.termination import Termination
from .actions.unknown_outcome import OutcomeResolution
from .attempt import attempt_of
from .attempt_tasks import AttemptTasks
from .context import RunContext
from .failover import Failover
from .run_journal import RunJournal
from .run_log import RunLog
from .run_outcome import RunOutcome, settle
from .run_view import view_of
from .waiting.passes import plan_again, show_pass

log = logging.getLogger("nbprov.provisioning")

UNWRITTEN_SECONDS: Seconds = 5.0
"""After this time whoever waits for an end hears that it cannot be written down."""

LATE_SECONDS: Seconds = 10.0
"""A wake-up that comes so much late was slept through: machines are looked at before any is given
up."""

PLANNING = "planning"
"""The key of the task that plans again; the keys of the others are tokens of attempts."""


class RunDriver:
    """One run in progress. It lives on the engine thread.

    Attributes
    ----------
    context
        The terms of the run and its state.
    ready
        Resolved with the live cluster, or with the error that ended the run.
    finished
        Resolved when nothing of the run is pending: losers and half-made machines are gone.
    keep_state
        The run has its cluster already, and this driver only winds up what was beside it.
    is_detached
        Another kernel has taken the run over, and nothing more happens here.
    given_up
        A repeated fault of nbprov's own, after which the run is only ended.
    """

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.task: asyncio.Task[None] | None = None
        self.keep_state = False
        self.is_cancelled = False
        self.is_detached = False
        self.given_up: Failure | None = None
        self._journal = RunJournal(context)
        self._outcome = RunOutcome(context, self._journal)
        self.ready, self.finished = self._outcome.ready, self._outcome.finished
        requests = LaunchRequests(context, self._journal)
        self._create = CreateActions(context, self._journal, requests)
        self._startup = MachineStartup(context, self._journal, requests)
        self._resolution = OutcomeResolution(context, requests)
        self._termination = Termination(context, requests)
        self._tasks = AttemptTasks(context, self._detach)
        self._wake_at: Seconds | None = None
        self._held = HeldActions()
        self._before: dict[str, AttemptState] = {}

    # ------------------------------------------------------------ what others read

    @property
    def run_id(self) -> str:
        """The id of the run, and of the cluster that it makes."""
        return self.context.run_id

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.context.progress.name

    @property
    def spec(self) -> Spec:
        """The spec, with the values of its secrets."""
        return self.context.progress.spec

    @property
    def plan(self) -> Plan:
        """The plan that panels show."""
        return self.context.progress.plan

    @property
    def failover(self) -> Failover:
        """The state machine that decides what is tried."""
        return self.context.progress.failover

    @property
    def state(self) -> RunState:
        """How far the run is."""
        return self.context.progress.state

    @property
    def message(self) -> str:
        """What the run is doing now."""
        return self.context.progress.message

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of how this run buys, waits and ends."""
        return self.context.progress.notes

    @property
    def rows(self) -> dict[str, LaunchRow]:
        """The launches as the ledger has them, by token."""
        return self.context.progress.rows

    @property
    def consent(self) -> Micros:
        """The most the whole cluster may cost an hour."""
        return self.context.consent

    @property
    def passed_over(self) -> int:
        """How many places cost more than `confirm_above` lets Launch agree to."""
        return self.context.progress.passed_over

    @property
    def runlog(self) -> RunLog:
        """The provision log."""
        return self.context.runlog

    def view(self) -> RunView:
        """A snapshot for panels and for the final error. Any thread may call it."""
        return view_of(self.context)

    # ------------------------------------------------------------ the loop

    async def drive(self, first: list[events.Action] | None = None) -> None:
        """Run until finished. `first` are the actions of a restored run; None starts a new one."""
        progress = self.context.progress
        progress.started = progress.started or self.context.clock.now()
        try:
            if first is None:
                await self._handle(events.RunStarted())
            else:
                await self._carry_out(first)
                self.context.changed()
            while not self.failover.finished or self._is_unwritten:
                await self._handle(await self._next_event())
        except LeaseLost as error:
            self._detach(error)
        finally:
            await self._tasks.stop()

    @property
    def _is_unwritten(self) -> bool:
        return self._held.since is not None and not self.is_detached

    async def _next_event(self) -> events.Event:
        context = self.context
        due = [at for at in (self._wake_at, self._held.retry_at) if at is not None]
        timeout = max(0.0, min(due) - context.clock.elapsed()) if due else None
        event: events.Event
        try:
            async with asyncio.timeout(timeout):
                event = await context.queue.get()
        except TimeoutError:
            event = context.blocks_read() if self.state is RunState.WAITING else events.Tick()
        if due and context.clock.elapsed() - min(due) > LATE_SECONDS:
            await self._handle(events.Woke())
        return event

    async def _handle(self, event: events.Event) -> None:
        context = self.context
        held = self._held
        if held.since is None:
            self._before = {a.token: a.state for a in self.failover.attempts.values()}
        now, elapsed = context.clock.now(), context.clock.elapsed()
        held.add(self.failover.handle(event, now, elapsed))
        try:
            self._journal.write(self._before, held.actions)
        except LedgerError as error:
            await self._go_on_unwritten(error)
        else:
            await self._carry_out(held.written())
        context.changed()

    async def _go_on_unwritten(self, error: LedgerError) -> None:
        """End what is to end though the ledger cannot be written; all else waits for that."""
        context, held = self.context, self._held
        log_fault(log, error, "run %s: tried again", context.run_id)
        now = context.clock.elapsed()
        await self._carry_out(held.failed(now))
        for action in held.withdraw(context.is_unwanted):
            self._create.withdraw(action)
        if self.state in (RunState.LAUNCHING, RunState.CANCELLING):
            context.show_message(f"{error.message}; tried again")
        end, since = held.end, held.since
        if end is not None and since is not None and now - since >= UNWRITTEN_SECONDS:
            self.leave(EndUnrecorded.of(f"nothing of {self.name} is left on the bill", error))

    async def _carry_out(self, actions: list[events.Action]) -> None:
        self._wake_at = None
        tasks = self._tasks
        for action in actions:
            match action:
                case events.Submit(token):
                    tasks.start_attempt(token, self._create.submit(action))
                case events.Follow(token):
                    tasks.start_attempt(token, self._create.follow(token))
                case events.Prepare(token, phase):
                    tasks.start_attempt(token, self._startup.prepare(token, phase))
                case events.Resolve(token):
                    tasks.start_until_done(token, self._resolution.resolve)
                case events.End(token):
                    tasks.start_until_done(token, self._termination.end)
                case events.Abandon(token):
                    tasks.abandon(token)
                case events.HandOver(token):
                    await self._outcome.hand_over(token)
                case events.Finish(state, failure):
                    await self._finish(state, failure)
                case events.Replan():
                    tasks.start(PLANNING, plan_again(self.context))
                case events.Pause() | events.BeginPass():
                    show_pass(self.context, action)
                case events.Wake(at):
                    self._wake_at = at
                case events.StoreBlock():
                    pass  # the journal wrote it
                case _ as never:
                    assert_never(never)

    async def _finish(self, state: RunState, failure: Failure | None) -> None:
        if self.keep_state:
            state = RunState.READY
        elif self.given_up is not None and state is RunState.CANCELLED and not self.is_cancelled:
            state, failure = RunState.FAILED, self.given_up
        error, message = self._outcome.enter_state(state, failure)
        if state is RunState.READY:
            await self._startup.recount()
        await self._outcome.finish(state, error, message)

    def look(self) -> None:
        """Compare what is waited for with the blocks that hold now. On the engine thread."""
        if self.state is RunState.WAITING:
            self.context.post_blocks()

    @property
    def can_wait_longer(self) -> bool:
        """Whether the run waits for stock, or would."""
        failover = self.failover
        return failover.stock_wait.until > 0 and not (failover.finished or self.is_cancelled)

    async def wait_longer(self, seconds: Seconds) -> None:
        """Wait so much longer for stock; the ledger knows first. On the engine thread."""
        until = self.failover.stock_wait.until + seconds
        self.context.ledger.runs.prolong(self.run_id, until)
        self.post(events.Prolonged(until))

    def post(self, event: events.Event) -> None:
        """Tell the failover of something. On the engine thread."""
        self.context.post(event)

    def show_message(self, message: str) -> None:
        """Show what the run is doing now. On the engine thread."""
        self.context.show_message(message)

    def cancel(self) -> None:
        """Give the run up: end what was made, and confirm that. On the engine thread."""
        context, progress = self.context, self.context.progress
        self.is_cancelled = True
        try:
            context.ledger.runs.request_cancel(self.run_id)
        except NbprovError as error:
            log_fault(
                log, error, "run %s is cancelled, and the ledger cannot be told yet", self.run_id
            )
            progress.is_cancel_unwritten = True
        winner = self.failover.winner
        if winner is not None and self.state is RunState.LAUNCHING:
            # Its hand-over waits for the ledger: whoever cancelled ends the cluster after that.
            self._tasks.start_until_done(winner, self._termination.end)
        if self.state in (RunState.LAUNCHING, RunState.WAITING):
            progress.state = RunState.CANCELLING
            progress.message = "cancelling: ending what was made"
        self.post(events.Cancel())
        context.changed()

    def lose(self) -> None:
        """Stop acting, since another kernel holds the lease. On the engine thread."""
        self._detach(
            LeaseLost(
                "another kernel has taken this run over while this one was silent",
                hint="%clusters shows what became of it",
            )
        )

    def _detach(self, error: LeaseLost) -> None:
        if self.is_detached:
            return
        progress = self.context.progress
        self.is_detached = True
        self.failover.finished = True
        if self.failover.winner is None:
            progress.message = error.message
            progress.state = RunState.ENDED
        self.runlog.line(f"another kernel has taken this run over: {error.message}")
        settle(self.ready, error=error)
        settle(self.finished, self.state)
        self.post(events.Tick())
        self.context.changed()

    def leave_ready(self, error: NbprovError) -> None:
        """Tell those who wait for the cluster that there will be none."""
        settle(self.ready, error=error)

    def leave(self, error: NbprovError) -> None:
        """Resolve what others still wait for: nothing more happens here. Any thread may call it."""
        self.leave_ready(error)
        settle(self.finished, error=error)

    # ------------------------------------------------------------ after a crash

    def adopt(self, row: LaunchRow) -> None:
        """Note a launch of a dead kernel; `Failover.restore` takes up its attempt."""
        self.context.add_row(row)

    async def start_over(
        self, failover: Failover, launches: Iterable[LaunchRow], *, has_cluster: bool
    ) -> list[events.Action]:
        """Go on after a fault of nbprov's own, with a fresh failover from the ledger's rows.

        Returns
        -------
        list
            What to do about each launch.
        """
        context, progress, old = self.context, self.context.progress, self.failover
        rows = {row.token: row for row in launches}
        never_sent = [a for a in old.attempts.values() if a.token not in rows and a.is_over]
        attempts = [attempt_of(row) for row in rows.values()] + never_sent
        await self._close_all_but_ready(rows, has_cluster=has_cluster)
        progress.failover, self._wake_at, self._held = failover, None, HeldActions()
        while not context.queue.empty():
            context.queue.get_nowait()
        self.keep_state = self.keep_state or has_cluster
        for row in rows.values():
            context.add_row(row)
        failover.queue.blocks = old.queue.blocks
        ready = [a for a in attempts if a.state is AttemptState.READY]
        if ready and has_cluster:
            failover.restore_winner(ready[0])
        is_unwanted = self.is_cancelled or has_cluster or self.given_up is not None
        if has_cluster:
            progress.state = RunState.READY
        else:
            progress.state = RunState.CANCELLING if is_unwanted else RunState.LAUNCHING
        others = sorted((a for a in attempts if a.token != failover.winner), key=lambda a: a.number)
        now = context.clock.now()
        return failover.restore(
            others,
            cancelled=is_unwanted or progress.keys is None,
            now=now,
            elapsed=context.clock.elapsed(),
            go_on=failover.stock_wait.until > now,
        )

    async def _close_all_but_ready(self, rows: dict[str, LaunchRow], *, has_cluster: bool) -> None:
        clusters = self.context.progress.clusters
        for token, live in list(clusters.items()):
            if not (has_cluster and rows[token].state is AttemptState.READY):
                await clusters.pop(token).close()
                log.info("run %s: closed the connections of %s", self.run_id, live.name)
