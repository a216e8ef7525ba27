"""Drives one run: feeds events to the failover, writes what follows to the ledger, and carries the actions out."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, assert_never

from nbprov.model.causes import Cause, Failure
from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import AttemptState, AttemptView, RunState, RunView
from nbprov.model.money import Micros, format_usd
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.remote.keys import ClusterKeys

from . import signals
from .async_cloud import AsyncCloud
from .attempt import Attempt
from .errands import MOST_PAUSE, Errands
from .failover import Failover
from .ledger import LaunchRow, LeaseLost, Ledger
from .live import LiveCluster
from .runlog import RunLog

log = logging.getLogger("nbprov.provisioning")


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
    on_change: Callable[[], None] = lambda: None
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
    _events: asyncio.Queue[signals.Event] = field(default_factory=asyncio.Queue)
    _tasks: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)
    _wake_at: Seconds | None = None
    _times: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    _errands: Errands = field(init=False)
    _detached: bool = False

    def __post_init__(self) -> None:
        self._errands = Errands(self)

    # ------------------------------------------------------------ the loop

    async def drive(self, first: list[signals.Action] | None = None) -> None:
        """Run until finished. `first` are the actions of a restored run; without them the run starts."""
        self.started = self.started or self.clock.now()
        try:
            if first is None:
                self._handle(signals.Started())
            else:
                self._carry_out(first)
            while not self.machine.finished:
                self._handle(await self._next_event())
        except LeaseLost as error:
            self._detach(error)
        finally:
            await self._stop_tasks()

    async def _next_event(self) -> signals.Event:
        timeout = None if self._wake_at is None else max(0.0, self._wake_at - self.clock.elapsed())
        try:
            return await asyncio.wait_for(self._events.get(), timeout)
        except TimeoutError:
            return signals.Tick()

    def post(self, event: signals.Event) -> None:
        """Tell the failover of something. On the engine thread."""
        self._events.put_nowait(event)

    def cancel(self) -> None:
        """Give the run up: what is under way is ended and confirmed. On the engine thread."""
        self.ledger.request_cancel(self.run_id)
        if self.state is RunState.LAUNCHING:
            self.state = RunState.CANCELLING
            self.message = "cancelling: ending what was made"
        self.post(signals.Cancel())
        self.on_change()

    def _handle(self, event: signals.Event) -> None:
        before = {a.token: a.state for a in self.machine.attempts.values()}
        actions = self.machine.handle(event, self.clock.now(), self.clock.elapsed())
        with self.ledger.together():
            self._write(before, actions)
        self._carry_out(actions)
        self.on_change()

    def _write(self, before: dict[str, AttemptState], actions: list[signals.Action]) -> None:
        # One fsync for all that one event changed.
        for attempt in self.machine.attempts.values():
            if before.get(attempt.token) is attempt.state or attempt.token not in self.rows:
                continue
            self._write_attempt(attempt)
        for action in actions:
            if isinstance(action, signals.Remember):
                self.ledger.remember(action.block)

    def _write_attempt(self, attempt: Attempt) -> None:
        token, state = attempt.token, attempt.state
        if attempt.ids and not self.rows[token].ids:
            self.rows[token] = replace(self.rows[token], ids=attempt.ids)
            self.ledger.accepted(token, attempt.ids)
            self.ledger.clear_blocks(attempt.candidate)
            self._say(attempt, "accepted")
        if state in (AttemptState.INTENT, AttemptState.SENT, AttemptState.ACCEPTED, AttemptState.READY):
            return  # written where they happen: before the create, with its operation, with its ids, at the hand-over
        if attempt.failure is not None and state in (AttemptState.REFUSED, AttemptState.UNKNOWN, AttemptState.ENDING, AttemptState.ABSENT):
            self.ledger.failed(token, attempt.failure, state)
        else:
            self.ledger.set_launch(token, state)
        if state.is_final:
            self._times[token] = (self._times[token][0], self.clock.now())
            self.ledger.free_quota(attempt.candidate) if state is AttemptState.GONE else None
        words = {AttemptState.GONE: "ended, confirmed by the cloud's list", AttemptState.ABSENT: "nothing was made"}.get(state, state.value)
        reason = f": {attempt.failure.sentence()}" if attempt.failure is not None and state is not AttemptState.GONE else ""
        self._say(attempt, words + reason)

    def intend(self, row: LaunchRow) -> None:
        """Commit an intent; only then may its create be sent."""
        with self.ledger.together():
            self.ledger.intend(row)
            self._say(self.machine.attempts[row.token], f"asked at {format_usd(row.candidate.hourly)}/h")
        self.rows[row.token] = row
        self._times[row.token] = (row.created, None)
        self.on_change()

    def _say(self, attempt: Attempt, words: str) -> None:
        text = f"attempt {attempt.number}  {attempt.candidate.offer.place}  {attempt.candidate.offer.instance_type}  {words}"
        self.runlog.line(text)
        self.ledger.note(self.run_id, "attempt", text, attempt.token)
        if self.state is RunState.LAUNCHING:
            self.message = text

    def _carry_out(self, actions: list[signals.Action]) -> None:
        self._wake_at = None
        errands = self._errands
        for action in actions:
            match action:
                case signals.Submit(token):
                    self._spawn(token, self._guarded(token, errands.submit(action)))
                case signals.Follow(token):
                    self._spawn(token, self._guarded(token, errands.follow(token)))
                case signals.Prepare(token, phase):
                    self._spawn(token, self._guarded(token, errands.prepare(token, phase)))
                case signals.Resolve(token):
                    self._spawn(token, self._insistent(token, errands.resolve))
                case signals.End(token):
                    self._spawn(token, self._insistent(token, errands.end))
                case signals.Abandon(token):
                    self._abandon(token)
                case signals.HandOver(token):
                    self._hand_over(token)
                case signals.Finish(state, failure):
                    self._finish(state, failure)
                case signals.Wake(at):
                    self._wake_at = at
                case signals.Remember():
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
                self.post(signals.Withdrawn(token, failure))  # it never got as far as its intent
            elif self.machine.attempts[token].ids:
                self.post(signals.PhaseFailed(token, failure))
            else:
                self.post(signals.SubmitFailed(token, replace(failure, cause=Cause.UNKNOWN_OUTCOME)))

    async def _insistent(self, token: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
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
            LeaseLost("another kernel has taken this run over while this one was silent", hint="%clusters shows what became of it")
        )

    def _detach(self, error: LeaseLost) -> None:
        if self._detached:
            return
        self._detached = True
        self.machine.finished = True
        if self.machine.winner is None:
            self.message = error.message
            self.state = RunState.ENDED
        self.runlog.line(f"another kernel has taken this run over: {error.message}")
        if not self.ready.done():
            self.ready.set_exception(error)
        if not self.finished.done():
            self.finished.set_result(self.state)
        self.post(signals.Tick())
        self.on_change()

    # ------------------------------------------------------------ the end of a run

    def _hand_over(self, token: str) -> None:
        attempt = self.machine.attempts[token]
        with self.ledger.together():
            self.ledger.hand_over(self.run_id, self.name, self.run_id, token, attempt.candidate)
            self._say(attempt, "ready")
        self.state = RunState.READY
        self._times[token] = (self._times[token][0], self.clock.now())
        self.ready.set_result(self.clusters[token])

    def _finish(self, state: RunState, failure: Failure | None) -> None:
        from .outcome import Unavailable

        if self.keep_state:
            state = RunState.READY
        self.state = state
        if state is not RunState.READY:
            error = Unavailable.of(self.view(), failure)
            self.message = error.message
            self.error = "\n".join(error.render()) if state is RunState.FAILED else ""
            if not self.ready.done():
                self.ready.set_exception(error)
        with self.ledger.together():
            if state is not RunState.READY:  # the hand-over wrote that already, and the cluster may have ended since
                self.ledger.set_run(self.run_id, state, self.message, self.error)
            self.ledger.note(self.run_id, "run", f"{state.value}: {self.message}")
            self.ledger.release(self.run_id)
        self.runlog.line(f"run {state.value}")
        self.finished.set_result(state)
        self.on_change()

    # ------------------------------------------------------------ what is shown

    def attempts(self) -> tuple[AttemptView, ...]:
        """The rows of the panel, oldest first."""
        views = []
        for attempt in self.machine.attempts.values():
            begun, ended = self._times.get(attempt.token, (self.clock.now(), None))
            views.append(
                AttemptView(
                    number=attempt.number,
                    token=attempt.token,
                    candidate=attempt.candidate,
                    state=attempt.state,
                    started=begun,
                    ended=ended,
                    failure=attempt.failure,
                    cost=self.ledger.cost(self.run_id, attempt.token) if attempt.ids else 0,
                )
            )
        return tuple(views)

    def view(self) -> RunView:
        """A snapshot for panels and for the final error."""
        return RunView(
            run_id=self.run_id,
            name=self.name,
            state=self.state,
            plan=self.plan,
            message=self.message,
            attempts=self.attempts(),
            blocks=tuple(self.machine.blocks),
            started=self.started,
            now=self.clock.now(),
            cost=self.ledger.cost(self.run_id),
            error=self.error,
            log_path=str(self.runlog.path),
        )

    def adopt(self, row: LaunchRow) -> None:
        """Take a launch of a dead kernel into the books; the failover is told by `Failover.restore`."""
        self.rows[row.token] = row
        self._times[row.token] = (row.created, row.ended)
