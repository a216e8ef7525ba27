"""The failover of one run as a pure state machine: events in, actions out, time handed in. No I/O, so every order of events can be tried.

An attempt holds its race slot from the intent until nothing of it can be on the bill: refused, confirmed absent, or confirmed gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from nbprov.model.causes import Cause, Failure, Retry
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.launches import Accepted, Pending, PollResult, Refused
from nbprov.model.offers import Block, Candidate, block_for

from .attempt import MADE, PHASES, Attempt, Deadlines, limit
from .signals import (
    Abandon,
    Action,
    Cancel,
    End,
    Event,
    Finish,
    Follow,
    Gone,
    HandOver,
    PhaseDone,
    PhaseFailed,
    Polled,
    Prepare,
    Remember,
    Resolve,
    Resolved,
    Started,
    Submit,
    SubmitFailed,
    Submitted,
    Tick,
    Wake,
    Withdrawn,
)

SAME_TRIES = 5
"""A rate limit or a passing fault is met with the same request so often; then the candidate is left for this run."""
BACKOFF_FIRST: Seconds = 1.0
BACKOFF_MOST: Seconds = 60.0


@dataclass(slots=True)
class Failover:
    """The state of one run's failover.

    Parameters
    ----------
    candidates
        In the order of attempts.
    race
        How many attempts may be under way at once.
    hedge
        Seconds after a start before the next racer joins.
    blocks
        What is known to be blocked now.
    deadlines_of
        The deadlines that hold for a candidate's cloud.
    new_token
        Makes a token: 32 lower-case hex digits, never the same twice.
    repeats_of
        How often a block of this pattern was made before without a success between.
    may_start
        False where a run of a dead kernel is wound up: nothing new is created.
    """

    candidates: Sequence[Candidate]
    deadlines_of: Callable[[Candidate], Deadlines]
    new_token: Callable[[], str]
    race: int = 1
    hedge: Seconds = 0.0
    blocks: list[Block] = field(default_factory=list)
    repeats_of: Callable[[Block], int] = lambda block: 0
    may_start: bool = True
    attempts: dict[str, Attempt] = field(default_factory=dict)
    winner: str | None = None
    cancelled: bool = False
    stopped_by: Failure | None = None
    finished: bool = False
    _cursor: int = 0
    _last_start: Seconds = float("-inf")
    _started: bool = False

    def handle(self, event: Event, now: Instant, elapsed: Seconds) -> list[Action]:
        """Take one event; returns what has to be done, in order.

        Parameters
        ----------
        now
            Wall-clock time: when blocks begin and expire.
        elapsed
            Suspend-counting time: when deadlines pass.
        """
        if self.finished:
            return []
        over = sum(a.is_over for a in self.attempts.values())
        actions: list[Action] = []
        self._take(event, now, elapsed, actions)
        self._expire(now, elapsed, actions)
        if over < sum(a.is_over for a in self.attempts.values()):
            self._last_start = float("-inf")  # the hedge gives an attempt time; one that failed needs none
        self._retry(elapsed, actions)
        self._start(now, elapsed, actions)
        self._conclude(actions)
        if not self.finished:
            self._sleep(elapsed, actions)
        return actions

    # ------------------------------------------------------------ events

    def _take(self, event: Event, now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        match event:
            case Started():
                self._started = True
            case Tick():
                pass
            case Cancel():
                self._cancel(actions)
            case Submitted(token):
                self._submitted(self._open(token), elapsed, actions)
            case SubmitFailed(token, failure) | Withdrawn(token, failure):
                self._refused(self._open(token), failure, now, elapsed, actions)
            case Polled(token, result):
                self._polled(self._open(token), result, now, elapsed, actions)
            case Resolved(token, ids):
                self._resolved(self._open(token), ids, now, elapsed, actions)
            case PhaseDone(token, phase):
                self._phase_done(self._open(token), phase, elapsed, actions)
            case PhaseFailed(token, failure):
                self._broken(self._open(token), failure, now, actions)
            case Gone(token):
                self._gone(self._open(token))
            case _ as never:
                assert_never(never)

    def _open(self, token: str) -> Attempt | None:
        attempt = self.attempts.get(token)
        return None if attempt is None or attempt.is_over else attempt

    def _submitted(self, attempt: Attempt | None, elapsed: Seconds, actions: list[Action]) -> None:
        if attempt is None or attempt.state is not AttemptState.INTENT:
            return
        attempt.state = AttemptState.SENT
        attempt.deadline = elapsed + self.deadlines_of(attempt.candidate).accepted
        if not self.is_unwanted(attempt.token):
            attempt.failure = None  # that of an earlier try with the same token
        actions.append(Follow(attempt.token))

    def _refused(self, attempt: Attempt | None, failure: Failure, now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        if attempt is None or attempt.state not in (AttemptState.INTENT, AttemptState.SENT):
            return
        attempt.failure = failure
        retry = failure.rule.retry
        if retry is Retry.RESOLVE:
            self._unknown(attempt, actions)
        elif retry is Retry.SAME and attempt.tries < SAME_TRIES and self.may_start and not self.is_unwanted(attempt.token):
            pause = failure.retry_after or min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** (attempt.tries - 1))
            attempt.retry_at = elapsed + pause
            attempt.deadline = float("inf")
        else:
            attempt.state = AttemptState.REFUSED
            attempt.deadline = float("inf")
            self._learn(attempt.candidate, failure, now, actions)

    def _unknown(self, attempt: Attempt, actions: list[Action]) -> None:
        attempt.state = AttemptState.UNKNOWN
        attempt.deadline = float("inf")  # an unknown outcome is waited for however long it takes: giving up could leave a machine
        actions.append(Resolve(attempt.token))

    def _polled(self, attempt: Attempt | None, result: PollResult, now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        if attempt is None or attempt.state is not AttemptState.SENT:
            return
        match result:
            case Pending():
                pass
            case Refused(failure):
                self._refused(attempt, failure, now, elapsed, actions)
            case Accepted(ids):
                self._accepted(attempt, ids, now, elapsed, actions)

    def _accepted(self, attempt: Attempt, ids: tuple[str, ...], now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        attempt.ids = ids
        attempt.state = AttemptState.ACCEPTED
        if self.is_unwanted(attempt.token):
            self._end(attempt, actions)
        elif len(ids) != attempt.candidate.count:
            self._broken(attempt, Failure(Cause.UNHEALTHY, f"{len(ids)} of {attempt.candidate.count} machines were made"), now, actions)
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, elapsed, actions)

    def _resolved(self, attempt: Attempt | None, ids: tuple[str, ...], now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        if attempt is None or attempt.state is not AttemptState.UNKNOWN:
            return
        if ids:
            self._accepted(attempt, ids, now, elapsed, actions)
        else:
            attempt.state = AttemptState.ABSENT

    def _enter(self, attempt: Attempt, phase: AttemptState, elapsed: Seconds, actions: list[Action]) -> None:
        attempt.state = phase
        attempt.deadline = elapsed + limit(self.deadlines_of(attempt.candidate), phase)
        actions.append(Prepare(attempt.token, phase))

    def _phase_done(self, attempt: Attempt | None, phase: AttemptState, elapsed: Seconds, actions: list[Action]) -> None:
        if attempt is None or attempt.state is not phase:
            return
        following = PHASES.index(phase) + 1
        if following < len(PHASES):
            self._enter(attempt, PHASES[following], elapsed, actions)
            return
        attempt.state = AttemptState.READY
        attempt.deadline = float("inf")
        self.winner = attempt.token
        actions.append(HandOver(attempt.token))
        for loser in self.attempts.values():
            if loser is not attempt:
                self._let_go(loser, Failure(Cause.CANCELLED, f"attempt {attempt.number} was ready first"), actions)

    def _broken(self, attempt: Attempt | None, failure: Failure, now: Instant, actions: list[Action]) -> None:
        if attempt is None or attempt.state not in MADE:
            return
        attempt.failure = failure
        self._learn(attempt.candidate, failure, now, actions)
        self._end(attempt, actions)

    def _gone(self, attempt: Attempt | None) -> None:
        if attempt is not None and attempt.state is AttemptState.ENDING:
            attempt.state = AttemptState.GONE

    # ------------------------------------------------------------ letting go

    def is_unwanted(self, token: str) -> bool:
        """Whether an attempt can no longer become the cluster: whatever it made or makes is ended."""
        return self.cancelled or (self.winner is not None and self.winner != token)

    def freeze(self, token: str, candidate: Candidate) -> None:
        """Set the price at which an attempt is asked for: the one that its intent was committed with."""
        self.attempts[token].candidate = candidate

    def _end(self, attempt: Attempt, actions: list[Action]) -> None:
        attempt.state = AttemptState.ENDING
        attempt.deadline = float("inf")
        actions.append(End(attempt.token))

    def _let_go(self, attempt: Attempt, failure: Failure, actions: list[Action]) -> None:
        # What was sent and not answered stays: its answer decides whether there is anything to end.
        if attempt.is_over or attempt.state is AttemptState.ENDING:
            return
        attempt.failure = attempt.failure or failure
        if attempt.retry_at is not None:
            attempt.retry_at = None
            attempt.state = AttemptState.REFUSED
        elif attempt.state in MADE:
            actions.append(Abandon(attempt.token))
            self._end(attempt, actions)

    def _cancel(self, actions: list[Action]) -> None:
        if self.winner is not None:
            return
        self.cancelled = True
        for attempt in self.attempts.values():
            self._let_go(attempt, Failure(Cause.CANCELLED, "you cancelled the launch"), actions)

    # ------------------------------------------------------------ time

    def _expire(self, now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        for attempt in self.attempts.values():
            if attempt.is_over or elapsed < attempt.deadline:
                continue
            phase = {AttemptState.SENT: "accepted"}.get(attempt.state, attempt.state.value)
            failure = Failure(Cause.TIMEOUT, f"not {phase} in time" if attempt.state is AttemptState.SENT else f"stuck in phase {phase}")
            actions.append(Abandon(attempt.token))
            if attempt.state is AttemptState.SENT:
                attempt.failure = failure
                self._learn(attempt.candidate, failure, now, actions)
                self._end(attempt, actions)  # a create that is still undecided may yet make machines
            else:
                self._broken(attempt, failure, now, actions)

    def _retry(self, elapsed: Seconds, actions: list[Action]) -> None:
        for attempt in self.attempts.values():
            if attempt.retry_at is not None and elapsed >= attempt.retry_at and not attempt.is_over:
                attempt.retry_at = None
                attempt.tries += 1
                attempt.state = AttemptState.INTENT
                actions.append(Submit(attempt.token, attempt.candidate, attempt.number, attempt.slot, again=True))

    def _sleep(self, elapsed: Seconds, actions: list[Action]) -> None:
        times = [a.deadline for a in self._active() if a.deadline != float("inf")]
        times += [a.retry_at for a in self._active() if a.retry_at is not None]
        if self._wants_more() and self._free_slots() and self._active():
            times.append(self._last_start + self.hedge)
        due = [t for t in times if t > elapsed]
        if due:
            actions.append(Wake(min(due)))

    # ------------------------------------------------------------ starting and finishing

    def _active(self) -> list[Attempt]:
        return [a for a in self.attempts.values() if not a.is_over and a.token != self.winner]

    def _wants_more(self) -> bool:
        return self._started and self.may_start and self.winner is None and not self.cancelled and self.stopped_by is None

    def _free_slots(self) -> list[int]:
        used = {a.slot for a in self._active()}
        return [slot for slot in range(self.race) if slot not in used]

    def _start(self, now: Instant, elapsed: Seconds, actions: list[Action]) -> None:
        while self._wants_more():
            slots = self._free_slots()
            active = self._active()
            if not slots or (active and elapsed < self._last_start + self.hedge):
                return
            candidate = self._next(now)
            if candidate is None:
                return
            attempt = Attempt(self.new_token(), candidate, len(self.attempts) + 1, slots[0])
            self.attempts[attempt.token] = attempt
            self._last_start = elapsed
            actions.append(Submit(attempt.token, candidate, attempt.number, attempt.slot))

    def _next(self, now: Instant) -> Candidate | None:
        while self._cursor < len(self.candidates):
            candidate = self.candidates[self._cursor]
            racing = self._active()
            if racing and any(a.candidate.request.tier != candidate.request.tier for a in racing):
                return None  # a race stays within one tier: a dearer wish does not overtake a dearer-loved one
            self._cursor += 1
            if not any(block.is_live(now) and block.matches(candidate) for block in self.blocks):
                return candidate
        return None

    def _learn(self, candidate: Candidate, failure: Failure, now: Instant, actions: list[Action]) -> None:
        if failure.rule.retry is Retry.STOP and failure.cause is not Cause.CANCELLED:
            self.stopped_by = failure
        block = block_for(candidate, failure, now)
        if block is None:
            return
        block = block_for(candidate, failure, now, repeats=self.repeats_of(block)) or block
        self.blocks.append(block)
        actions.append(Remember(block))

    def _conclude(self, actions: list[Action]) -> None:
        if self._active() or (self._started and self._wants_more() and self._cursor < len(self.candidates)):
            return
        if not self._started and self.may_start and not self.cancelled:
            return
        self.finished = True
        if self.winner is not None:
            state = RunState.READY
        elif self.cancelled:
            state = RunState.CANCELLED
        else:
            state = RunState.FAILED
        actions.append(Finish(state, self.stopped_by))

    # ------------------------------------------------------------ a dead kernel's run

    def restore(self, attempts: Iterable[Attempt], *, cancelled: bool, elapsed: Seconds) -> list[Action]:
        """Take up the attempts of a run whose kernel died; returns what has to be done about each.

        Nothing new is started. What was accepted goes on through its phases; what was sent is followed; an intent or a lost
        answer is resolved from the cloud's list; of several that exist, the first to be ready is kept.
        """
        actions: list[Action] = []
        self.may_start = False
        self.cancelled = cancelled
        for attempt in attempts:
            self.attempts[attempt.token] = attempt
            if not attempt.is_over:
                self._take_up(attempt, elapsed, actions)
        self._conclude(actions)
        if not self.finished:
            self._sleep(elapsed, actions)
        return actions

    def _take_up(self, attempt: Attempt, elapsed: Seconds, actions: list[Action]) -> None:
        if self.cancelled:
            attempt.failure = attempt.failure or Failure(Cause.CANCELLED, "the launch was given up")
        if attempt.state in (AttemptState.INTENT, AttemptState.UNKNOWN):
            attempt.failure = attempt.failure or Failure(Cause.UNKNOWN_OUTCOME, "its kernel stopped before the answer came")
            self._unknown(attempt, actions)
        elif attempt.state is AttemptState.SENT:
            attempt.deadline = elapsed + self.deadlines_of(attempt.candidate).accepted
            actions.append(Follow(attempt.token))
        elif attempt.state is AttemptState.ENDING or self.cancelled or len(attempt.ids) != attempt.candidate.count:
            self._end(attempt, actions)
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, elapsed, actions)
