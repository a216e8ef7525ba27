"""The failover of one run as a pure state machine: events in, actions out, time handed in. No I/O, so every order of events can be tried.

An attempt holds its race slot from the intent until nothing of it can be on the bill: refused, confirmed absent, or confirmed gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, Failure, Retry
from nbprov.model.launches import Accepted, Pending, PollResult, Refused
from nbprov.model.offers import Block, Candidate, block_for

from . import events
from .attempt import MADE, PHASES, Attempt, Deadlines, limit
from .candidate_queue import Itinerary
from .hedging import Hedging
from .stock_wait import Patience

SAME_TRIES = 5
"""A rate limit or a passing fault is met with the same request so often; then the candidate is left for this run."""
BACKOFF_FIRST: Seconds = 1.0
BACKOFF_MOST: Seconds = 60.0
MOST_HEEDED: Seconds = 300.0
"""The longest pause that a cloud may ask for (Retry-After) before its list is asked again: what is to be ended costs money meanwhile."""
SHORTEST_LOOK: Seconds = 0.05
"""A wait that is due is looked at so soon: a wall clock and one that counts suspend differ a little."""


@dataclass(slots=True)
class Failover:
    """The state of one run's failover.

    Parameters
    ----------
    places
        The candidates in the order of attempts, and what is known to be blocked now.
    hedging
        How many attempts may be under way at once, and when a further one joins.
    patience
        How long stock is waited for, and what for.
    deadlines_of
        The deadlines that hold for a candidate's cloud.
    new_token
        Makes a token: 32 lower-case hex digits, never the same twice.
    repeats_of
        How often a block of this pattern was made before without a success between.
    may_start
        False where a run of a dead kernel is wound up: nothing new is created.
    """

    places: Itinerary
    deadlines_of: Callable[[Candidate], Deadlines]
    new_token: Callable[[], str]
    hedging: Hedging = field(default_factory=Hedging)
    patience: Patience = field(default_factory=Patience)
    repeats_of: Callable[[Block], int] = lambda block: 0
    may_start: bool = True
    attempts: dict[str, Attempt] = field(default_factory=dict)
    winner: str | None = None
    cancelled: bool = False
    stopped_by: Failure | None = None
    finished: bool = False
    _started: bool = False

    @property
    def race(self) -> int:
        """How many attempts may be under way at once."""
        return self.hedging.width

    def handle(self, event: events.Event, now: Instant, elapsed: Seconds) -> list[events.Action]:
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
        actions: list[events.Action] = []
        self._take(event, now, elapsed, actions)
        self._expire(now, elapsed, actions)
        self._retry(elapsed, actions)
        self._begin_pass(now, actions)
        self._start(now, elapsed, actions)
        self._conclude(now, actions)
        if not self.finished:
            self._sleep(now, elapsed, actions)
        return actions

    # ------------------------------------------------------------ events

    def _take(
        self, event: events.Event, now: Instant, elapsed: Seconds, actions: list[events.Action]
    ) -> None:
        match event:
            case events.Started():
                self._started = True
            case events.Tick():
                pass
            case events.Looked(blocks):
                self.places.blocks = list(blocks)
                self.patience.look(blocks, now)
            case events.Restocked():
                self.patience.hurry(now)
            case events.Replanned(candidates):
                self.places.replanned(candidates)
            case events.Cancel():
                self._cancel(actions)
            case events.Submitted(token):
                self._submitted(self._open(token), elapsed, actions)
            case events.SubmitFailed(token, failure) | events.Withdrawn(token, failure):
                self._refused(self._open(token), failure, now, elapsed, actions)
            case events.Polled(token, result):
                self._polled(self._open(token), result, now, elapsed, actions)
            case events.Partial(token, ids, failure):
                self._partial(self._open(token), ids, failure, now, actions)
            case events.Resolved(token, ids):
                self._resolved(self._open(token), ids, now, elapsed, actions)
            case events.PhaseDone(token, phase):
                self._phase_done(self._open(token), phase, elapsed, actions)
            case events.PhaseFailed(token, failure):
                self._broken(self._open(token), failure, now, actions)
            case events.Gone(token):
                self._gone(self._open(token))
            case _ as never:
                assert_never(never)

    def _open(self, token: str) -> Attempt | None:
        attempt = self.attempts.get(token)
        return None if attempt is None or attempt.is_over else attempt

    def _submitted(
        self, attempt: Attempt | None, elapsed: Seconds, actions: list[events.Action]
    ) -> None:
        if attempt is None or attempt.state is not AttemptState.INTENT:
            return
        attempt.state = AttemptState.SENT
        attempt.deadline = elapsed + self.deadlines_of(attempt.candidate).accepted
        if not self.is_unwanted(attempt.token):
            attempt.failure = None  # that of an earlier try with the same token
        actions.append(events.Follow(attempt.token))

    def _refused(
        self,
        attempt: Attempt | None,
        failure: Failure,
        now: Instant,
        elapsed: Seconds,
        actions: list[events.Action],
    ) -> None:
        if attempt is None or attempt.state not in (AttemptState.INTENT, AttemptState.SENT):
            return
        attempt.failure = failure
        retry = failure.rule.retry
        if retry is Retry.RESOLVE:
            self._unknown(attempt, actions)
        elif (
            retry is Retry.SAME
            and attempt.tries < SAME_TRIES
            and self.may_start
            and not self.is_unwanted(attempt.token)
        ):
            pause = min(failure.retry_after or 0.0, MOST_HEEDED) or min(
                BACKOFF_MOST, BACKOFF_FIRST * 2 ** (attempt.tries - 1)
            )
            attempt.retry_at = elapsed + pause
            attempt.deadline = float("inf")
        else:
            attempt.state = AttemptState.REFUSED
            attempt.deadline = float("inf")
            self._learn(attempt.candidate, failure, now, actions)

    def _unknown(self, attempt: Attempt, actions: list[events.Action]) -> None:
        attempt.state = AttemptState.UNKNOWN
        attempt.deadline = float(
            "inf"
        )  # an unknown outcome is waited for however long it takes: giving up could leave a machine
        actions.append(events.Resolve(attempt.token))

    def _polled(
        self,
        attempt: Attempt | None,
        result: PollResult,
        now: Instant,
        elapsed: Seconds,
        actions: list[events.Action],
    ) -> None:
        if attempt is None or attempt.state is not AttemptState.SENT:
            return
        match result:
            case Pending():
                pass
            case Refused(failure):
                self._refused(attempt, failure, now, elapsed, actions)
            case Accepted(ids):
                self._accepted(attempt, ids, now, elapsed, actions)

    def _accepted(
        self,
        attempt: Attempt,
        ids: tuple[str, ...],
        now: Instant,
        elapsed: Seconds,
        actions: list[events.Action],
    ) -> None:
        attempt.ids = ids
        attempt.state = AttemptState.ACCEPTED
        if self.is_unwanted(attempt.token):
            self._end(attempt, actions)
        elif len(ids) != attempt.candidate.count:
            cause = Cause.CAPACITY if len(ids) < attempt.candidate.count else Cause.UNHEALTHY
            self._broken(
                attempt,
                Failure(cause, f"{len(ids)} of {attempt.candidate.count} machines were made"),
                now,
                actions,
            )
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, elapsed, actions)

    def _partial(
        self,
        attempt: Attempt | None,
        ids: tuple[str, ...],
        failure: Failure,
        now: Instant,
        actions: list[events.Action],
    ) -> None:
        if attempt is None or attempt.state is not AttemptState.SENT:
            return
        attempt.ids = ids
        attempt.state = AttemptState.ACCEPTED
        if self.is_unwanted(attempt.token):
            self._end(attempt, actions)
        else:
            self._broken(attempt, failure, now, actions)

    def _resolved(
        self,
        attempt: Attempt | None,
        ids: tuple[str, ...],
        now: Instant,
        elapsed: Seconds,
        actions: list[events.Action],
    ) -> None:
        if attempt is None or attempt.state is not AttemptState.UNKNOWN:
            return
        if ids:
            self._accepted(attempt, ids, now, elapsed, actions)
        else:
            attempt.state = AttemptState.ABSENT

    def _enter(
        self, attempt: Attempt, phase: AttemptState, elapsed: Seconds, actions: list[events.Action]
    ) -> None:
        allowed = limit(self.deadlines_of(attempt.candidate), phase)
        if allowed is None:
            self._after(attempt, phase, elapsed, actions)
            return
        attempt.state = phase
        attempt.deadline = elapsed + allowed
        actions.append(events.Prepare(attempt.token, phase))

    def _phase_done(
        self,
        attempt: Attempt | None,
        phase: AttemptState,
        elapsed: Seconds,
        actions: list[events.Action],
    ) -> None:
        if attempt is not None and attempt.state is phase:
            self._after(attempt, phase, elapsed, actions)

    def _after(
        self, attempt: Attempt, phase: AttemptState, elapsed: Seconds, actions: list[events.Action]
    ) -> None:
        following = PHASES.index(phase) + 1
        if following < len(PHASES):
            self._enter(attempt, PHASES[following], elapsed, actions)
            return
        attempt.state = AttemptState.READY
        attempt.deadline = float("inf")
        self.winner = attempt.token
        actions.append(events.HandOver(attempt.token))
        for loser in self.attempts.values():
            if loser is not attempt:
                self._let_go(
                    loser,
                    Failure(Cause.CANCELLED, f"attempt {attempt.number} was ready first"),
                    actions,
                )

    def _broken(
        self, attempt: Attempt | None, failure: Failure, now: Instant, actions: list[events.Action]
    ) -> None:
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

    def _end(self, attempt: Attempt, actions: list[events.Action]) -> None:
        attempt.state = AttemptState.ENDING
        attempt.deadline = float("inf")
        actions.append(events.End(attempt.token))

    def _let_go(self, attempt: Attempt, failure: Failure, actions: list[events.Action]) -> None:
        # What was sent and not answered stays: its answer decides whether there is anything to end.
        if attempt.is_over or attempt.state is AttemptState.ENDING:
            return
        attempt.failure = attempt.failure or failure
        if attempt.retry_at is not None:
            attempt.retry_at = None
            attempt.state = AttemptState.REFUSED
        elif attempt.state in MADE:
            actions.append(events.Abandon(attempt.token))
            self._end(attempt, actions)

    def _cancel(self, actions: list[events.Action]) -> None:
        if self.winner is not None:
            return
        self.cancelled = True
        for attempt in self.attempts.values():
            self._let_go(attempt, Failure(Cause.CANCELLED, "you cancelled the launch"), actions)

    # ------------------------------------------------------------ time

    def _expire(self, now: Instant, elapsed: Seconds, actions: list[events.Action]) -> None:
        for attempt in self.attempts.values():
            if attempt.is_over or elapsed < attempt.deadline:
                continue
            phase = {AttemptState.SENT: "accepted"}.get(attempt.state, attempt.state.value)
            failure = Failure(
                Cause.TIMEOUT,
                f"not {phase} in time"
                if attempt.state is AttemptState.SENT
                else f"stuck in phase {phase}",
            )
            actions.append(events.Abandon(attempt.token))
            if attempt.state is AttemptState.SENT:
                attempt.failure = failure
                self._learn(attempt.candidate, failure, now, actions)
                self._end(
                    attempt, actions
                )  # a create that is still undecided may yet make machines
            else:
                self._broken(attempt, failure, now, actions)

    def _retry(self, elapsed: Seconds, actions: list[events.Action]) -> None:
        for attempt in self.attempts.values():
            if attempt.retry_at is not None and elapsed >= attempt.retry_at and not attempt.is_over:
                attempt.retry_at = None
                attempt.tries += 1
                attempt.state = AttemptState.INTENT
                actions.append(
                    events.Submit(
                        attempt.token, attempt.candidate, attempt.number, attempt.slot, again=True
                    )
                )

    def _sleep(self, now: Instant, elapsed: Seconds, actions: list[events.Action]) -> None:
        active = self._active()
        times = [a.deadline for a in active if a.deadline != float("inf")]
        times += [a.retry_at for a in active if a.retry_at is not None]
        due = (
            self.hedging.next_due(active, elapsed)
            if self._wants_more() and self._free_slots()
            else None
        )
        times += [due] if due is not None else []
        if self.patience.is_waiting:
            times.append(elapsed + max(SHORTEST_LOOK, self.patience.pause(now)))
        later = [t for t in times if t > elapsed]
        if later:
            actions.append(events.Wake(min(later)))

    # ------------------------------------------------------------ starting and finishing

    def _active(self) -> list[Attempt]:
        return [a for a in self.attempts.values() if not a.is_over and a.token != self.winner]

    def _wants_more(self) -> bool:
        return (
            self._started
            and self.may_start
            and self.winner is None
            and not self.cancelled
            and self.stopped_by is None
        )

    def _may_go_on(self, now: Instant) -> bool:
        return (
            self._wants_more()
            and not self.places.is_planning
            and not self.patience.is_waiting
            and self.patience.may_start(now)
        )

    def _free_slots(self) -> list[int]:
        used = {a.slot for a in self._active()}
        return [slot for slot in range(self.race) if slot not in used]

    def _begin_pass(self, now: Instant, actions: list[events.Action]) -> None:
        if self._wants_more() and self.patience.is_due(now):
            self.patience.begin()
            actions.append(events.BeginPass(self.patience.passes))
            if self.places.begin_again():
                actions.append(events.Replan())

    def _start(self, now: Instant, elapsed: Seconds, actions: list[events.Action]) -> None:
        while self._may_go_on(now):
            slots, active = self._free_slots(), self._active()
            if not slots or (active and not self.hedging.lets_join(active, elapsed)):
                return
            racing = [a.candidate for a in active]
            candidate = self.places.next(now, {c.request.tier for c in racing}, self.patience.meet)
            if self.places.is_planning:
                actions.append(events.Replan())
                return
            if candidate is None or (racing and not self.hedging.affords(racing, candidate)):
                return
            self.places.take(candidate)
            attempt = Attempt(
                self.new_token(), candidate, len(self.attempts) + 1, slots[0], begun=elapsed
            )
            self.attempts[attempt.token] = attempt
            actions.append(events.Submit(attempt.token, candidate, attempt.number, attempt.slot))

    def _learn(
        self, candidate: Candidate, failure: Failure, now: Instant, actions: list[events.Action]
    ) -> None:
        if failure.rule.retry is Retry.STOP and failure.cause is not Cause.CANCELLED:
            self.stopped_by = failure
        self.patience.causes.add(failure.cause)
        block = block_for(candidate, failure, now)
        if block is None:
            return
        block = block_for(candidate, failure, now, repeats=self.repeats_of(block)) or block
        self.places.blocks.append(block)
        self.patience.meet(block)
        actions.append(events.Remember(block))

    def _conclude(self, now: Instant, actions: list[events.Action]) -> None:
        if self._active() or (not self._started and self.may_start and not self.cancelled):
            return
        if self._wants_more() and (
            self.places.is_planning or (self._may_go_on(now) and not self.places.is_exhausted)
        ):
            return
        if self._wants_more() and self.patience.may_wait(now):
            if not self.patience.is_waiting:
                self.patience.rest(now)
                actions.append(events.Rest(self.patience.next_pass or now))
            return
        self.finished = True
        if self.winner is not None:
            state = RunState.READY
        elif self.cancelled:
            state = RunState.CANCELLED
        else:
            state = RunState.FAILED
        actions.append(events.Finish(state, self.stopped_by))

    # ------------------------------------------------------------ a dead kernel's run

    def restore(
        self,
        attempts: Iterable[Attempt],
        *,
        cancelled: bool,
        now: Instant,
        elapsed: Seconds,
        go_on: bool = False,
    ) -> list[events.Action]:
        """Take up the attempts of a run whose kernel died; returns what has to be done about each.

        Nothing new is started, unless the run waits for stock and is to `go_on` with that. What was accepted goes on through its phases; what was sent is followed; an intent or a lost
        answer is resolved from the cloud's list; of several that exist, the first to be ready is kept.
        """
        actions: list[events.Action] = []
        self.may_start = self._started = go_on and not cancelled
        self.cancelled = cancelled
        for attempt in attempts:
            self.attempts[attempt.token] = attempt
            if not attempt.is_over:
                self._take_up(attempt, elapsed, actions)
        self._conclude(now, actions)
        if not self.finished:
            self._sleep(now, elapsed, actions)
        return actions

    def _take_up(self, attempt: Attempt, elapsed: Seconds, actions: list[events.Action]) -> None:
        if self.cancelled:
            attempt.failure = attempt.failure or Failure(Cause.CANCELLED, "the launch was given up")
        if attempt.state in (AttemptState.INTENT, AttemptState.UNKNOWN):
            attempt.failure = attempt.failure or Failure(
                Cause.UNKNOWN_OUTCOME, "its kernel stopped before the answer came"
            )
            self._unknown(attempt, actions)
        elif attempt.state is AttemptState.SENT:
            attempt.deadline = elapsed + self.deadlines_of(attempt.candidate).accepted
            actions.append(events.Follow(attempt.token))
        elif (
            attempt.state is AttemptState.ENDING
            or self.cancelled
            or len(attempt.ids) != attempt.candidate.count
        ):
            self._end(attempt, actions)
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, elapsed, actions)
