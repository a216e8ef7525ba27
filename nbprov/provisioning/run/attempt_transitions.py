"""How each attempt of a run moves from state to state. No I/O, and the time is a parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Cause, Failure, Retry
from nbprov.model.launches import Accepted, Pending, PollResult, Refused
from nbprov.model.offers import Candidate

from . import events
from .attempt import MADE, PHASES, Attempt, Deadlines

SAME_TRIES = 5
"""A create that meets a rate limit or a passing fault is sent this often in all.

After that the run leaves the candidate.
"""
BACKOFF_FIRST: Seconds = 1.0
BACKOFF_MOST: Seconds = 60.0
MOST_HEEDED: Seconds = 300.0
"""The longest pause (Retry-After) that a cloud is granted before its list is asked for again.

A machine that is to be ended costs money meanwhile.
"""
LOOK_SECONDS: Seconds = 60.0
"""Time to ask a cloud and its machine how far they are, after nobody looked for a while."""
NEVER: Seconds = float("inf")
"""The deadline of an attempt that has none."""


@dataclass(frozen=True, slots=True)
class TransitionStep:
    """One step of the state machine.

    Attributes
    ----------
    now
        Wall-clock time: when blocks begin and expire.
    elapsed
        Time on the clock that counts suspend: when deadlines pass.
    actions
        What has to be done, in order; each transition adds to it.
    """

    now: Instant
    elapsed: Seconds
    actions: list[events.Action] = field(default_factory=list)


@dataclass(slots=True)
class AttemptTransitions:
    """The attempts of one run and their states.

    Parameters
    ----------
    deadlines_of
        The deadlines that hold for a candidate's cloud.
    learn
        Told of each failure that says something of a candidate's place.
    may_start
        False where the run of a dead kernel is wound up: no create is sent.
    """

    deadlines_of: Callable[[Candidate], Deadlines]
    learn: Callable[[Candidate, Failure, TransitionStep], None]
    may_start: bool = True
    attempts: dict[str, Attempt] = field(default_factory=dict)
    winner: str | None = None
    cancelled: bool = False

    def is_unwanted(self, token: str) -> bool:
        """Whether an attempt can no longer become the cluster, so that its machines are ended."""
        return self.cancelled or (self.winner is not None and self.winner != token)

    def active(self) -> list[Attempt]:
        """The attempts that hold a slot."""
        return [a for a in self.attempts.values() if not a.is_over and a.token != self.winner]

    def open(self, token: str) -> Attempt | None:
        """An attempt that is not over; None where there is none of this token."""
        attempt = self.attempts.get(token)
        return None if attempt is None or attempt.is_over else attempt

    # ------------------------------------------------------------ the create

    def submitted(self, attempt: Attempt | None, step: TransitionStep) -> None:
        """The cloud took the create, and its operation can be polled."""
        if attempt is None or attempt.state is not AttemptState.INTENT:
            return
        attempt.state = AttemptState.SENT
        attempt.deadline = step.elapsed + self.deadlines_of(attempt.candidate).accepted
        if not self.is_unwanted(attempt.token):
            attempt.failure = None  # an earlier try with the same token may have failed
        step.actions.append(events.Follow(attempt.token))

    def refused(self, attempt: Attempt | None, failure: Failure, step: TransitionStep) -> None:
        """The create failed: it is sent again, resolved, or given up, as the cause says."""
        if attempt is None or attempt.state not in (AttemptState.INTENT, AttemptState.SENT):
            return
        attempt.failure = failure
        retry = failure.rule.retry
        may_try_again = (
            attempt.tries < SAME_TRIES and self.may_start and not self.is_unwanted(attempt.token)
        )
        if retry is Retry.RESOLVE:
            self._unknown(attempt, step)
        elif retry is Retry.SAME and may_try_again:
            backoff = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** (attempt.tries - 1))
            pause = min(failure.retry_after or 0.0, MOST_HEEDED) or backoff
            attempt.retry_at = step.elapsed + pause
            attempt.deadline = NEVER
        else:
            attempt.state = AttemptState.REFUSED
            attempt.deadline = NEVER
            self.learn(attempt.candidate, failure, step)

    def _unknown(self, attempt: Attempt, step: TransitionStep) -> None:
        attempt.state = AttemptState.UNKNOWN
        attempt.deadline = NEVER  # giving up on an unknown outcome could leave a machine behind
        step.actions.append(events.Resolve(attempt.token))

    def polled(self, attempt: Attempt | None, result: PollResult, step: TransitionStep) -> None:
        """A poll of the create answered."""
        if attempt is None or attempt.state is not AttemptState.SENT:
            return
        match result:
            case Pending():
                pass
            case Refused(failure):
                self.refused(attempt, failure, step)
            case Accepted(ids):
                self._accepted(attempt, ids, step)

    def _accepted(self, attempt: Attempt, ids: tuple[str, ...], step: TransitionStep) -> None:
        count = attempt.candidate.count
        attempt.ids = ids
        attempt.state = AttemptState.ACCEPTED
        if self.is_unwanted(attempt.token):
            self._end(attempt, step)
        elif len(ids) != count:
            cause = Cause.CAPACITY if len(ids) < count else Cause.UNHEALTHY
            self.broken(attempt, Failure(cause, f"{len(ids)} of {count} machines were made"), step)
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, step)

    def partly_made(
        self, attempt: Attempt | None, ids: tuple[str, ...], failure: Failure, step: TransitionStep
    ) -> None:
        """Fewer machines were made than asked for, and the rest did not come."""
        if attempt is None or attempt.state is not AttemptState.SENT:
            return
        attempt.ids = ids
        attempt.state = AttemptState.ACCEPTED
        if self.is_unwanted(attempt.token):
            self._end(attempt, step)
        else:
            self.broken(attempt, failure, step)

    def resolved(self, attempt: Attempt | None, ids: tuple[str, ...], step: TransitionStep) -> None:
        """The cloud's list says what an unknown outcome made."""
        if attempt is None or attempt.state is not AttemptState.UNKNOWN:
            return
        if ids:
            self._accepted(attempt, ids, step)
        else:
            attempt.state = AttemptState.ABSENT

    # ------------------------------------------------------------ the phases

    def _enter(self, attempt: Attempt, phase: AttemptState, step: TransitionStep) -> None:
        allowed = self.deadlines_of(attempt.candidate).of_phase(phase)
        if allowed is None:
            self._leave_phase(attempt, phase, step)
            return
        attempt.state = phase
        attempt.deadline = step.elapsed + allowed
        step.actions.append(events.Prepare(attempt.token, phase))

    def phase_done(
        self, attempt: Attempt | None, phase: AttemptState, step: TransitionStep
    ) -> None:
        """The machines of an attempt are through a phase."""
        if attempt is not None and attempt.state is phase:
            self._leave_phase(attempt, phase, step)

    def _leave_phase(self, attempt: Attempt, phase: AttemptState, step: TransitionStep) -> None:
        following = PHASES.index(phase) + 1
        if following < len(PHASES):
            self._enter(attempt, PHASES[following], step)
            return
        attempt.state = AttemptState.READY
        attempt.deadline = NEVER
        self.winner = attempt.token
        step.actions.append(events.HandOver(attempt.token))
        for loser in self.attempts.values():
            if loser is not attempt:
                why = Failure(Cause.CANCELLED, f"attempt {attempt.number} was ready first")
                self._let_go(loser, why, step)

    def broken(self, attempt: Attempt | None, failure: Failure, step: TransitionStep) -> None:
        """Machines that exist did not become usable: they are ended."""
        if attempt is None or attempt.state not in MADE:
            return
        attempt.failure = failure
        self.learn(attempt.candidate, failure, step)
        self._end(attempt, step)

    # ------------------------------------------------------------ the end

    def _end(self, attempt: Attempt, step: TransitionStep) -> None:
        attempt.state = AttemptState.ENDING
        attempt.deadline = NEVER
        step.actions.append(events.End(attempt.token))

    def gone(self, attempt: Attempt | None) -> None:
        """The cloud's list confirms that nothing of an attempt is left."""
        if attempt is not None and attempt.state is AttemptState.ENDING:
            attempt.state = AttemptState.GONE

    def _let_go(self, attempt: Attempt, failure: Failure, step: TransitionStep) -> None:
        # A create that was sent and not answered stays: its answer says what there is to end.
        if attempt.is_over or attempt.state is AttemptState.ENDING:
            return
        attempt.failure = attempt.failure or failure
        if attempt.retry_at is not None:
            attempt.retry_at = None
            attempt.state = AttemptState.REFUSED
        elif attempt.state in MADE:
            step.actions.append(events.Abandon(attempt.token))
            self._end(attempt, step)

    def cancel(self, step: TransitionStep) -> None:
        """Give up every attempt, unless one of them is the cluster already."""
        if self.winner is not None:
            return
        self.cancelled = True
        for attempt in self.attempts.values():
            self._let_go(attempt, Failure(Cause.CANCELLED, "you cancelled the launch"), step)

    # ------------------------------------------------------------ the time

    def postpone(self, step: TransitionStep) -> None:
        """Leave time to look at machines whose deadline may have passed while nobody did."""
        for attempt in self.attempts.values():
            attempt.deadline = max(attempt.deadline, step.elapsed + LOOK_SECONDS)

    def expire(self, step: TransitionStep) -> None:
        """End the attempts whose deadline has passed."""
        for attempt in self.attempts.values():
            if attempt.is_over or step.elapsed < attempt.deadline:
                continue
            step.actions.append(events.Abandon(attempt.token))
            if attempt.state is AttemptState.SENT:
                attempt.failure = Failure(Cause.TIMEOUT, "not accepted in time")
                self.learn(attempt.candidate, attempt.failure, step)
                self._end(attempt, step)  # a create that is undecided may make machines yet
            else:
                stuck = Failure(Cause.TIMEOUT, f"stuck in phase {attempt.state.value}")
                self.broken(attempt, stuck, step)

    def retry(self, step: TransitionStep) -> None:
        """Send the creates again whose pause is over."""
        for attempt in self.attempts.values():
            if attempt.retry_at is None or step.elapsed < attempt.retry_at or attempt.is_over:
                continue
            attempt.retry_at = None
            attempt.tries += 1
            attempt.state = AttemptState.INTENT
            step.actions.append(
                events.Submit(
                    attempt.token, attempt.candidate, attempt.number, attempt.slot, again=True
                )
            )

    # ------------------------------------------------------------ a dead kernel's attempts

    def take_up(self, attempt: Attempt, step: TransitionStep) -> None:
        """Go on with an attempt that another kernel began."""
        if self.cancelled:
            attempt.failure = attempt.failure or Failure(Cause.CANCELLED, "the launch was given up")
        if attempt.state in (AttemptState.INTENT, AttemptState.UNKNOWN):
            attempt.failure = attempt.failure or Failure(
                Cause.UNKNOWN_OUTCOME, "its kernel stopped before the answer came"
            )
            self._unknown(attempt, step)
        elif attempt.state is AttemptState.SENT:
            attempt.deadline = step.elapsed + self.deadlines_of(attempt.candidate).accepted
            step.actions.append(events.Follow(attempt.token))
        elif (
            attempt.state is AttemptState.ENDING
            or self.cancelled
            or len(attempt.ids) != attempt.candidate.count
        ):
            self._end(attempt, step)
        else:
            attempt.failure = None
            self._enter(attempt, AttemptState.BOOTING, step)
