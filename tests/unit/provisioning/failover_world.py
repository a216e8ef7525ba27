"""A simulated cloud and clock for the failover.

It knows what was really made and what may still be made, and checks what must hold after each step.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from provisioning_samples import DEADLINES, tokens

from nbprov.model.blocks import Block
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import Accepted, Refused
from nbprov.model.offers import Candidate
from nbprov.provisioning.run.attempt import MADE, Attempt
from nbprov.provisioning.run.attempt_transitions import SAME_TRIES
from nbprov.provisioning.run.candidate_queue import CandidateQueue
from nbprov.provisioning.run.events import (
    Abandon,
    Action,
    BeginPass,
    Cancel,
    End,
    Event,
    Finish,
    Follow,
    Gone,
    HandOver,
    Partial,
    Pause,
    PhaseDone,
    PhaseFailed,
    Polled,
    Prepare,
    Replan,
    Resolve,
    Resolved,
    RunStarted,
    StoreBlock,
    Submit,
    SubmitFailed,
    Submitted,
    Tick,
    Wake,
    Withdrawn,
    Woke,
)
from nbprov.provisioning.run.failover import Failover
from nbprov.provisioning.run.racing.hedging import Hedging
from nbprov.provisioning.run.waiting.stock_wait import STOCK, StockWait

EPOCH = 1_800_000_000.0
FAIR_STEPS = 2000


@dataclass
class Deed:
    """What really became of one create.

    Attributes
    ----------
    task
        The action that the run carries out for it: `submit`, `follow`, `booting`, `ssh`, `agent`,
        `health`, `resolve` or `end`; empty while it waits.
    intended
        Whether its intent stands in the ledger.
    accepted
        Whether the cloud took note of the create, so that it decides about it sooner or later.
    decided
        Whether the cloud can make nothing more of it.
    """

    candidate: Candidate
    slot: int
    task: str = "submit"
    intended: bool = False
    accepted: bool = False
    decided: bool = True
    alive: set[str] = field(default_factory=set)
    ever: tuple[str, ...] = ()
    tries: int = 1

    @property
    def is_on_the_bill(self) -> bool:
        """Whether a machine of it exists or may yet exist."""
        return bool(self.alive) or not self.decided


HELD = Failure(Cause.CAPACITY, "some of the machines were made, and held for 90 s ($0.05)")


class World:
    """Feeds events to a `Failover`, simulates its actions, and checks what must never happen."""

    def __init__(
        self,
        candidates: Iterable[Candidate],
        *,
        race: int = 1,
        hedge: float = 0.0,
        blocks: Iterable[Block] = (),
        until_ready: bool = False,
        wait: float = 0.0,
        checked: bool = False,
    ) -> None:
        self.time = 0.0
        self.deeds: dict[str, Deed] = {}
        self.blocks = list(blocks)
        self.own: list[Block] = []
        self.winner: str | None = None
        self.ready = 0
        self.cancelled = False
        self.finish: Finish | None = None
        self.wake: float | None = None
        self.late: list[Event] = []
        self.tried: list[Candidate] = []
        self.restored = False
        self.wait = wait
        self.passes = 1
        self.resting = False
        self.hedge, self.until_ready = hedge, until_ready
        self.deadlines = replace(DEADLINES, health=60.0 if checked else None)
        self.machine = Failover(
            queue=CandidateQueue(list(candidates), list(self.blocks)),
            deadlines_of=lambda _: self.deadlines,
            new_token=tokens(),
            hedging=Hedging(race, lambda _: hedge, until_ready),
            stock_wait=StockWait(EPOCH + wait if wait else 0.0),
        )

    # ------------------------------------------------------------ events in, actions out

    def tell(self, event: Event) -> None:
        """One event; then everything is checked."""
        over = self.machine.finished
        before = copy.deepcopy(self.machine.attempts) if over else {}
        actions = self.machine.handle(event, EPOCH + self.time, self.time)
        if over:
            assert actions == []
            assert self.machine.attempts == before
        self.do(actions)

    def do(self, actions: list[Action]) -> None:
        """Carry actions out and check what must hold."""
        if not self.machine.finished or actions:
            self.wake = None
        for action in actions:
            self._do(action)
        self.check()

    def _do(self, action: Action) -> None:
        match action:
            case Submit():
                self._submit(action)
            case Follow(token):
                self._work(token, "follow")
            case Prepare(token, phase):
                self._work(token, phase.value)
            case Resolve(token):
                self._work(token, "resolve")
            case End(token):
                assert token != self.winner, "the cluster itself is never ended by its run"
                self._work(token, "end")
            case Abandon(token):
                self._outdate(token)
                self.deeds[token].task = ""
            case StoreBlock(block):
                self.blocks.append(block)
                self.own.append(block)
            case Pause(next_pass):
                assert not self.busy(), "it rests while something is under way"
                assert EPOCH + self.time < next_pass <= EPOCH + self.wait
                self.resting = True
            case BeginPass(number):
                assert number == self.passes + 1
                self.passes, self.resting = number, False
                self.tried.clear()
                self.blocks = [b for b in self.blocks if b not in self.own or b.cause not in STOCK]
            case Replan():
                raise AssertionError("nobody said that it can be planned again")
            case HandOver(token):
                self._hand_over(token)
            case Finish():
                self._finish(action)
            case Wake(at):
                assert at > self.time
                self.wake = at

    def _work(self, token: str, task: str) -> None:
        assert self.deeds[token].task == "", (
            f"{token} is at {self.deeds[token].task} and was given {task} too"
        )
        self.deeds[token].task = task

    def _outdate(self, token: str) -> None:
        """What a task posted just before it was abandoned still arrives."""
        task = self.deeds[token].task
        if task in ("booting", "ssh", "agent", "health"):
            self.late += [
                PhaseDone(token, AttemptState(task)),
                PhaseFailed(token, Failure(Cause.TIMEOUT, "late")),
            ]
        elif task == "follow":
            self.late += [
                Partial(token, self.deeds[token].ever, HELD),
                Polled(token, Accepted(self.deeds[token].ever)),
                Polled(token, Refused(Failure(Cause.CAPACITY, "late"))),
            ]

    def _submit(self, action: Submit) -> None:
        assert not self.restored, "a run that is wound up creates nothing"
        assert not self.cancelled
        assert self.winner is None
        unknown = [a for a in self.machine.attempts.values() if a.state is AttemptState.UNKNOWN]
        assert self.machine.race > 1 or not unknown, (
            "nothing else starts while an outcome is unknown"
        )
        if action.again:
            deed = self.deeds[action.token]
            assert deed.task == ""
            assert not deed.is_on_the_bill
            deed.task, deed.tries = "submit", deed.tries + 1
            assert deed.tries <= SAME_TRIES
            return
        assert action.token not in self.deeds
        now = EPOCH + self.time
        assert not self.resting, "nothing is tried between two passes"
        assert self.passes == 1 or now < EPOCH + self.wait, "nothing begins once the wait is over"
        self._joins_by_the_rule(action)
        assert not any(b.is_live(now) and b.matches(action.candidate) for b in self.blocks), (
            "a blocked candidate was tried"
        )
        assert action.candidate not in self.tried, "a candidate is tried once"
        self.tried.append(action.candidate)
        assert 0 <= action.slot < self.machine.race
        for token, deed in self.deeds.items():
            busy = deed.is_on_the_bill or deed.task != ""
            assert not (busy and deed.slot == action.slot), (
                f"slot {action.slot} still belongs to {token}"
            )
            assert not busy or deed.candidate.request.tier == action.candidate.request.tier, (
                "a race stays within one tier"
            )
        self.deeds[action.token] = Deed(action.candidate, action.slot)

    def _joins_by_the_rule(self, action: Submit) -> None:
        """Another place is tried only beside an overdue attempt, within the width of the race."""
        others = [
            a for a in self.machine.attempts.values() if a.token != action.token and not a.is_over
        ]
        assert len(others) < self.machine.race
        hopeful = [a for a in others if a.state is not AttemptState.ENDING]
        overdue = [
            a
            for a in hopeful
            if (
                self.until_ready
                or a.state in (AttemptState.INTENT, AttemptState.SENT, AttemptState.UNKNOWN)
            )
            and self.time >= a.begun + self.hedge
        ]
        assert len(hopeful) <= len(overdue), "it joined what was neither overdue nor failed"

    def _hand_over(self, token: str) -> None:
        self.ready += 1
        assert self.ready == 1, "two clusters kept"
        assert not self.cancelled
        assert len(self.deeds[token].alive) == self.deeds[token].candidate.count, (
            "a gang is all or nothing"
        )
        self.winner = token
        for attempt in self.machine.attempts.values():
            assert attempt.token == token or attempt.state not in MADE, "a loser goes on"

    def _finish(self, action: Finish) -> None:
        assert self.finish is None
        self.finish = action
        for token, deed in self.deeds.items():
            assert token == self.winner or not deed.is_on_the_bill, f"{token} is left on the bill"
            assert deed.task == "", f"{token} is still at {deed.task}"
        expected = (
            RunState.READY
            if self.winner
            else RunState.CANCELLED
            if self.cancelled
            else RunState.FAILED
        )
        assert action.state is expected

    def check(self) -> None:
        """What holds after every step."""
        assert self.machine.winner == self.winner
        for token, attempt in self.machine.attempts.items():
            if attempt.is_over and token in self.deeds:
                assert not self.deeds[token].is_on_the_bill, (
                    f"{token} counts as {attempt.state} and is on the bill"
                )
        if not self.machine.finished and (self.machine._started or self.restored):
            assert self.busy() or self.wake is not None, (
                "nothing is under way and nothing will wake the run"
            )

    def busy(self) -> list[str]:
        """Tokens for which the run is waiting for an answer."""
        return [token for token, deed in self.deeds.items() if deed.task]

    # ------------------------------------------------------------ what the cloud may do

    def start(self) -> None:
        """Launch was pressed."""
        self.tell(RunStarted())

    def cancel(self) -> None:
        """The person gave up."""
        if self.winner is None and not self.machine.finished:
            self.cancelled = True
        self.tell(Cancel())

    def pass_time(self, seconds: float) -> None:
        """Time passes; the run is woken where it asked for it."""
        end = self.time + seconds
        while self.wake is not None and self.wake <= end:
            self.time = max(self.time, self.wake)
            self.tell(Tick())
        self.time = end
        self.tell(Tick())

    def sleep(self, seconds: float) -> None:
        """The computer sleeps: nothing is looked at, and the run hears of that first."""
        self.time += seconds
        self.tell(Woke())

    def withdraw(self, token: str) -> None:
        """The price rose: nothing was sent."""
        self.deeds[token].task = ""
        self.tell(Withdrawn(token, Failure(Cause.CANCELLED, "the price rose")))

    def refuse(self, token: str, failure: Failure) -> None:
        """The cloud says no, at once or when it decides."""
        deed = self.deeds[token]
        task, deed.task, deed.intended, deed.decided, deed.accepted = (
            deed.task,
            "",
            True,
            True,
            False,
        )
        self.tell(
            SubmitFailed(token, failure) if task == "submit" else Polled(token, Refused(failure))
        )

    def take_note(self, token: str) -> None:
        """The cloud took note of a create."""
        deed = self.deeds[token]
        deed.task, deed.intended, deed.accepted, deed.decided = "", True, True, False
        self.tell(Submitted(token))

    def lose(self, token: str, *, arrived: bool) -> None:
        """The answer is lost; the create may have arrived."""
        deed = self.deeds[token]
        deed.task, deed.intended, deed.accepted, deed.decided = "", True, arrived, not arrived
        self.tell(SubmitFailed(token, Failure(Cause.UNKNOWN_OUTCOME, "no answer")))

    def make(self, token: str, count: int | None = None) -> None:
        """The cloud decides: so many machines (all, unless said otherwise). Nobody is told yet."""
        deed = self.deeds[token]
        assert not deed.decided
        wanted = deed.candidate.count if count is None else count
        deed.ever = tuple(f"{token[-4:]}-{i}" for i in range(wanted))
        deed.alive = set(deed.ever)
        deed.decided, deed.accepted = True, False

    def answer(self, token: str, failure: Failure | None = None) -> None:
        """Answer the run's question truthfully, or with a failure where it asked for work."""
        deed = self.deeds[token]
        task = deed.task
        if task in ("follow", "resolve", "end") and not deed.decided:
            return  # the run goes on asking
        deed.task = ""
        if task == "follow" and len(deed.ever) < deed.candidate.count and len(deed.ever) % 2:
            self.tell(Partial(token, deed.ever, HELD))
        elif task == "follow":
            self.tell(Polled(token, Accepted(deed.ever)))
        elif task == "resolve":
            self.tell(Resolved(token, deed.ever))
        elif task == "end":
            deed.alive = set()
            self.tell(Gone(token))
        elif failure is not None:
            self.tell(PhaseFailed(token, failure))
        else:
            self.tell(PhaseDone(token, AttemptState(task)))

    # ------------------------------------------------------------ a dead kernel

    def crash(self, seen_sent: bool = True) -> None:
        """The kernel dies; another takes up what stands in the ledger."""
        rows = []
        for token, attempt in self.machine.attempts.items():
            deed = self.deeds[token]
            deed.task = ""
            if deed.intended and not attempt.is_over and token != self.winner:
                state = attempt.state
                if state is AttemptState.INTENT and deed.accepted and seen_sent:
                    state = AttemptState.SENT
                if state is AttemptState.SENT and attempt.retry_at is not None:
                    state = AttemptState.INTENT
                rows.append(
                    Attempt(
                        token,
                        attempt.candidate,
                        attempt.number,
                        attempt.slot,
                        state,
                        failure=attempt.failure,
                        ids=attempt.ids,
                    )
                )
        has_cluster = self.winner is not None
        self.cancelled = self.cancelled or has_cluster
        self.restored, self.winner, self.wake, self.late = True, None, None, []
        self.deeds = {row.token: self.deeds[row.token] for row in rows}
        self.ready = 1 if has_cluster else 0
        self.finish = None
        self.machine = Failover(
            queue=CandidateQueue(),
            deadlines_of=lambda _: self.deadlines,
            new_token=lambda: "",
            may_start=False,
            hedging=Hedging(self.machine.race),
        )
        self.do(
            self.machine.restore(
                rows, cancelled=self.cancelled, now=EPOCH + self.time, elapsed=self.time
            )
        )

    def play_out(self) -> None:
        """Answer every question from now on and let time pass, so that the run must end."""
        if not self.machine._started and not self.restored and not self.machine.finished:
            self.start()
        for _ in range(FAIR_STEPS):
            if self.machine.finished:
                return
            for token in self.busy():
                deed = self.deeds[token]
                if deed.task == "submit":
                    self.refuse(token, Failure(Cause.CAPACITY, "none left"))
                else:
                    if not deed.decided:
                        self.make(token)
                    self.answer(token)
            if not self.machine.finished and not self.busy() and self.wake is not None:
                self.pass_time(self.wake - self.time)
        raise AssertionError("the run does not end")
