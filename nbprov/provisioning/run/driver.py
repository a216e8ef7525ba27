"""Drives one run: feeds events to the failover, writes what follows to the ledger, and carries the actions out."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, assert_never

from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import AttemptState, AttemptView, RunState, RunView
from nbprov.model.errors import LedgerError, NbprovError
from nbprov.model.failures import Cause, Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import LaunchRow, LeaseLost, Ledger
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.ssh.keys import ClusterKeys

from . import events
from .attempt_actions import MOST_PAUSE, Errands
from .failover import Failover
from .passes import change_pass, looked, plan_again
from .run_journal import Books
from .run_log import RunLog
from .run_view import attempt_of, attempts_of, settle, view_of
from .webhook import announce

log = logging.getLogger("nbprov.provisioning")

Replanner = Callable[[Spec, Sequence[Block]], Awaitable[Plan]]
"""Plans a spec again with blocks."""

T = TypeVar("T")

PLANNING = "planning"
"""Stands where the token of an attempt would: planning is of the whole run."""


@dataclass(slots=True)
class RunDriver:
    """One run in progress; lives on the engine thread.

    Attributes
    ----------
    ready
        Resolved with the live cluster, or with the error the run ended in, as soon as either is known.
    finished
        Resolved when nothing of the run is pending: losers and half-made machines are confirmed gone.
    keep_state
        The run has its cluster already and this only winds up what was beside it.
    consent
        The most that was agreed to, for the whole cluster an hour; frozen in the ledger at launch.
    replan
        Plans the spec again with the blocks given; None where nobody can.
    notes
        What the person should know of how this run buys, waits and ends.
    aside
        Told of a cloud where something may lie beside machines now, and whether the run is over: else a create was sent.
    passed_over
        How many places are dearer than what Launch agrees to by `confirm_above`.
    is_detached
        Another kernel has taken it over: nothing more happens here.
    given_up
        The fault of nbprov's own after which the run is only ended, since taking it up again did not help.
    """

    run_id: str
    name: str
    spec: Spec
    plan: Plan
    machine: Failover
    keys_folder: Path
    ledger: Ledger
    clouds: Callable[[str], AsyncCloud]
    clock: Clock
    runlog: RunLog
    consent: Micros
    replan: Replanner | None = None
    notes: tuple[str, ...] = ()
    passed_over: int = 0
    on_change: Callable[[], None] = lambda: None
    aside: Callable[[str, bool], None] = lambda cloud, is_over: None
    ready: concurrent.futures.Future[LiveCluster] = field(default_factory=concurrent.futures.Future)
    finished: concurrent.futures.Future[RunState] = field(default_factory=concurrent.futures.Future)
    keys: ClusterKeys = field(init=False)
    task: asyncio.Task[None] | None = None
    keep_state: bool = False
    state: RunState = RunState.PLANNED
    message: str = ""
    error: str = ""
    started: float = 0.0
    rows: dict[str, LaunchRow] = field(default_factory=dict)
    clusters: dict[str, LiveCluster] = field(default_factory=dict)
    times: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    troubles: dict[tuple[str, str], Failure] = field(default_factory=dict)
    _events: asyncio.Queue[events.Event] = field(default_factory=asyncio.Queue)
    _tasks: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)
    _wake_at: Seconds | None = None
    is_cancelled: bool = False
    cancel_unwritten: bool = False
    is_detached: bool = False
    given_up: Failure | None = None
    books: Books = field(init=False)
    _errands: Errands = field(init=False)
    _costs: dict[str, Micros] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.books = Books(self)
        self._errands = Errands(self)

    # ------------------------------------------------------------ the loop

    async def drive(self, first: list[events.Action] | None = None) -> None:
        """Run until finished. `first` are the actions of a restored run; without them the run starts."""
        self.started = self.started or self.clock.now()
        try:
            if first is None:
                await self._handle(events.Started())
            else:
                await self._carry_out(first)
                self._tell_change()
            while not self.machine.finished:
                await self._handle(await self._next_event())
        except LeaseLost as error:
            self._detach(error)
        finally:
            await self._stop_tasks()

    async def _next_event(self) -> events.Event:
        timeout = None if self._wake_at is None else max(0.0, self._wake_at - self.clock.elapsed())
        try:
            return await asyncio.wait_for(self._events.get(), timeout)
        except TimeoutError:
            return looked(self) if self.state is RunState.WAITING else events.Tick()

    def look(self) -> None:
        """Compare what is waited for with the blocks that hold now: some were cleared. On the engine thread."""
        if self.state is RunState.WAITING:
            self.post(looked(self))

    def post(self, event: events.Event) -> None:
        """Tell the failover of something. On the engine thread."""
        self._events.put_nowait(event)

    def cancel(self) -> None:
        """Give the run up: what is under way is ended and confirmed. On the engine thread."""
        self.is_cancelled = True
        try:
            self.ledger.runs.request_cancel(self.run_id)
        except NbprovError as error:
            log.warning(
                "run %s: the cancel is carried out and could not be written yet: %s",
                self.run_id,
                error,
            )
            self.cancel_unwritten = True
        if self.state in (RunState.LAUNCHING, RunState.WAITING):
            self.state = RunState.CANCELLING
            self.message = "cancelling: ending what was made"
        self.post(events.Cancel())
        self._tell_change()

    async def _handle(self, event: events.Event) -> None:
        before = {a.token: a.state for a in self.machine.attempts.values()}
        actions = self.machine.handle(event, self.clock.now(), self.clock.elapsed())
        await self.books.persist(lambda: self.books.write(before, actions))
        await self._carry_out(actions)
        self._tell_change()

    def began(self, row: LaunchRow) -> None:
        """Note that an intent is committed."""
        self.rows[row.token] = row
        self.times[row.token] = (row.created, None)
        self._tell_change()

    def end_time(self, token: str) -> None:
        """Note that an attempt ended now."""
        self.times[token] = (self.times[token][0], self.clock.now())

    def tell(self, message: str) -> None:
        """Set the line on what goes on now."""
        self.message = message
        self._tell_change()

    def _tell_change(self) -> None:
        try:
            self.on_change()
        except Exception:  # what is shown must not decide what is bought
            log.exception("run %s: its display", self.run_id)

    async def _carry_out(self, actions: list[events.Action]) -> None:
        self._wake_at = None
        errands = self._errands
        for action in actions:
            match action:
                case events.Submit(token):
                    self._spawn(token, self._guarded(token, errands.submit(action)))
                case events.Follow(token):
                    self._spawn(token, self._guarded(token, errands.follow(token)))
                case events.Prepare(token, phase):
                    self._spawn(token, self._guarded(token, errands.prepare(token, phase)))
                case events.Resolve(token):
                    self._spawn(token, self._insistent(token, errands.resolve))
                case events.End(token):
                    self._spawn(token, self._insistent(token, errands.end))
                case events.Abandon(token):
                    self._abandon(token)
                case events.HandOver(token):
                    await self._hand_over(token)
                case events.Finish(state, failure):
                    await self._finish(state, failure)
                case events.Replan():
                    self._spawn(PLANNING, plan_again(self))
                case events.Rest() | events.BeginPass():
                    change_pass(self, action)
                case events.Wake(at):
                    self._wake_at = at
                case events.Remember():
                    pass
                case _ as never:
                    assert_never(never)

    # ------------------------------------------------------------ tasks

    def _spawn(self, token: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.setdefault(token, set()).add(task)
        task.add_done_callback(self._tasks[token].discard)

    async def _guarded(self, token: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LeaseLost as error:
            self._detach(error)
        except Exception as error:
            log.exception("run %s: attempt %s", self.run_id, token)
            failure = Failure(Cause.UNKNOWN, f"{type(error).__name__}: {error}")
            if token not in self.rows:
                self.post(events.Withdrawn(token, failure))  # it never got as far as its intent
            elif self.machine.attempts[token].ids:
                self.post(events.PhaseFailed(token, failure))
            else:
                self.post(events.SubmitFailed(token, replace(failure, cause=Cause.UNKNOWN_OUTCOME)))

    async def _insistent(
        self, token: str, work: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        """What must not be given up, since a machine might stay behind, is begun again after a fault of ours (a locked ledger)."""
        while True:
            try:
                await work(token)
            except LeaseLost as error:
                self._detach(error)
            except Exception:
                log.exception("run %s: attempt %s; tried again", self.run_id, token)
                await asyncio.sleep(MOST_PAUSE)
                continue
            return

    def _abandon(self, token: str) -> None:
        for task in self._tasks.get(token, ()):
            task.cancel()

    async def _stop_tasks(self) -> None:
        tasks = [task for group in self._tasks.values() for task in group]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def lose(self) -> None:
        """Another kernel holds the lease: stop acting, touch nothing. On the engine thread."""
        self._detach(
            LeaseLost(
                "another kernel has taken this run over while this one was silent",
                hint="%clusters shows what became of it",
            )
        )

    def _detach(self, error: LeaseLost) -> None:
        if self.is_detached:
            return
        self.is_detached = True
        self.machine.finished = True
        if self.machine.winner is None:
            self.message = error.message
            self.state = RunState.ENDED
        self.runlog.line(f"another kernel has taken this run over: {error.message}")
        settle(self.ready, error=error)
        settle(self.finished, self.state)
        self.post(events.Tick())
        self._tell_change()

    # ------------------------------------------------------------ the end of a run

    async def _hand_over(self, token: str) -> None:
        await self.books.persist(lambda: self._write_hand_over(token))
        self.state = RunState.READY
        self.end_time(token)
        settle(self.ready, self.clusters[token])
        announce(self)

    def _write_hand_over(self, token: str) -> None:
        attempt = self.machine.attempts[token]
        with self.ledger.together():
            self.ledger.clusters.hand_over(
                self.run_id, self.name, self.run_id, token, attempt.candidate
            )
            shown = self.books.say(attempt, "ready")
        shown()

    async def _finish(self, state: RunState, failure: Failure | None) -> None:
        from .unavailable import Unavailable

        if self.keep_state:
            state = RunState.READY
        elif self.given_up is not None and state is RunState.CANCELLED and not self.is_cancelled:
            state, failure = RunState.FAILED, self.given_up
        self.state = state
        ended: NbprovError | None = None
        if state is not RunState.READY:
            ended = Unavailable.of(self.view(), failure)
            self.message = ended.message
            self.error = "\n".join(ended.render()) if state is RunState.FAILED else ""
        if state is RunState.READY:
            await self._errands.recount()
        await self.books.persist(lambda: self._write_finish(state))
        self.runlog.line(f"run {state.value}")
        if (
            state is not RunState.READY
        ):  # told at the hand-over, which need not wait for the losers' end
            announce(self)
        if not self.ready.done():
            self._settle_ready(ended)
        for cloud in sorted({row.cloud for row in self.rows.values()}):
            self.aside(cloud, True)
        settle(self.finished, state)
        self._tell_change()

    def _write_finish(self, state: RunState) -> None:
        with self.ledger.together():
            if (
                state is not RunState.READY
            ):  # the hand-over wrote that already, and the cluster may have ended since
                self.ledger.runs.move(self.run_id, state, self.message, self.error)
            self.ledger.events.add(self.run_id, "run", f"{state.value}: {self.message}")
            self.ledger.leases.release(self.run_id)

    def _settle_ready(self, ended: NbprovError | None) -> None:
        live = self.clusters.get(self.machine.winner or "")
        if ended is None and live is not None:
            settle(self.ready, live)
        else:
            again = NbprovError(
                f"{self.name} is up, and its connections are not",
                hint=f"%%on {self.name} opens them",
                code="run.left",
            )
            settle(self.ready, error=ended or again)

    def leave_ready(self, error: NbprovError) -> None:
        """Tell who waits for the cluster that there will be none."""
        settle(self.ready, error=error)

    def leave(self, error: NbprovError) -> None:
        """Resolve what anybody still waits for: nothing more happens here. Any thread may call it."""
        self.leave_ready(error)
        settle(self.finished, error=error)

    # ------------------------------------------------------------ after a fault of ours

    async def start_over(
        self, machine: Failover, launches: Iterable[LaunchRow], *, has_cluster: bool
    ) -> list[events.Action]:
        """Put a fresh failover, made of the ledger's rows, in the place of one that cannot go on; returns what to do about each launch."""
        old, rows = self.machine, {row.token: row for row in launches}
        never_sent = [a for a in old.attempts.values() if a.token not in rows and a.is_over]
        attempts = [attempt_of(row) for row in rows.values()] + never_sent
        for token, live in list(self.clusters.items()):
            if not (has_cluster and rows[token].state is AttemptState.READY):
                await self.clusters.pop(token).close()
                log.info("run %s: closed the connections of %s", self.run_id, live.name)
        self.machine, self._events, self._tasks, self._wake_at = machine, asyncio.Queue(), {}, None
        self.keep_state = self.keep_state or has_cluster
        for row in rows.values():
            self.adopt(row)
        machine.places.blocks = old.places.blocks
        ready = [a for a in attempts if a.state is AttemptState.READY]
        if ready and has_cluster:
            machine.attempts[ready[0].token] = ready[0]
            machine.winner = ready[0].token
        is_unwanted = self.is_cancelled or has_cluster or self.given_up is not None
        self.state = (
            RunState.READY
            if has_cluster
            else RunState.CANCELLING
            if is_unwanted
            else RunState.LAUNCHING
        )
        others = sorted((a for a in attempts if a.token != machine.winner), key=lambda a: a.number)
        is_unwanted = is_unwanted or not hasattr(self, "keys")
        now, elapsed = self.clock.now(), self.clock.elapsed()
        return machine.restore(
            others,
            cancelled=is_unwanted,
            now=now,
            elapsed=elapsed,
            go_on=machine.patience.until > now,
        )

    def adopt(self, row: LaunchRow) -> None:
        """Take a launch of a dead kernel into the books; the failover is told by `Failover.restore`."""
        self.rows[row.token] = row
        self.times[row.token] = (row.created, row.ended)

    # ------------------------------------------------------------ what is shown

    def trouble(self, token: str, doing: str, failure: Failure | None) -> None:
        """Show that a cloud refuses, and not only for now, what an attempt needs to be told or ended; None once it does so no more."""
        key = (token, doing)
        if failure is None:
            if self.troubles.pop(key, None) is not None:
                self._tell_change()
        elif self.troubles.get(key) != failure:
            self.troubles[key] = failure
            self.runlog.line(f"{doing}: {failure.sentence()}")
            if self.state in (RunState.LAUNCHING, RunState.CANCELLING):
                self.message = f"{doing} fails: {failure.sentence()}"
            self._tell_change()

    def costs(self) -> dict[str, Micros]:
        """What each launch cost so far. Any thread may call it; a ledger that cannot be read leaves what was last known."""
        try:
            self._costs = self.ledger.prices.by_launch(self.run_id)
        except LedgerError as error:
            log.info("run %s: %s", self.run_id, error.message)
        return self._costs

    def attempts(self) -> tuple[AttemptView, ...]:
        """The rows of the panel, oldest first. Any thread may call it."""
        return attempts_of(self, self.costs())

    def view(self) -> RunView:
        """A snapshot for panels and for the final error. Any thread may call it."""
        return view_of(self)
