"""The failover of one run as a pure state machine: events in, actions out.

There is no I/O, and the time is a parameter, so tests can try every order of events. An attempt
holds its slot in the race from its intent until nothing of it can be on the bill: it was refused,
or its cloud's list confirms that it is absent or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from nbprov.model.blocks import Block, block_after
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import RunState
from nbprov.model.failures import Cause, Failure, Scope
from nbprov.model.offers import Candidate

from . import events
from .attempt import Attempt, Deadlines
from .attempt_transitions import NEVER, AttemptTransitions, TransitionStep
from .candidate_queue import CandidateQueue
from .exclusions import exclusion_after
from .racing.hedging import Hedging
from .waiting.stock_wait import StockWait

SHORTEST_SLEEP: Seconds = 0.05
"""The least time until a wait that is due is looked at again.

A wall clock and one that counts suspend differ a little.
"""


class Failover:
    """The state of one run's failover.

    Parameters
    ----------
    queue
        The candidates in the order of attempts, and the blocks that hold now.
    deadlines_of
        The deadlines that hold for a candidate's cloud.
    new_token
        Makes a token: 32 lower-case hex digits, never the same twice.
    hedging
        How many attempts may run at once, and when another one joins.
    stock_wait
        How long the run waits for stock, and what for.
    repeats_of
        How often a block of this pattern was made before without a success between.
    may_start
        False where the run of a dead kernel is wound up: nothing new is created.
    """

    def __init__(
        self,
        queue: CandidateQueue,
        deadlines_of: Callable[[Candidate], Deadlines],
        new_token: Callable[[], str],
        *,
        hedging: Hedging | None = None,
        stock_wait: StockWait | None = None,
        repeats_of: Callable[[Block], int] = lambda block: 0,
        may_start: bool = True,
    ) -> None:
        self.queue = queue
        self.hedging = hedging or Hedging()
        self.stock_wait = stock_wait or StockWait()
        self.stopped_by: Failure | None = None
        self.finished = False
        self.repeats_of = repeats_of
        self._new_token = new_token
        self._transitions = AttemptTransitions(deadlines_of, self._learn, may_start)
        self._started = False

    @property
    def attempts(self) -> dict[str, Attempt]:
        """The attempts by token, oldest first."""
        return self._transitions.attempts

    @property
    def winner(self) -> str | None:
        """The token of the attempt that is the cluster."""
        return self._transitions.winner

    @property
    def may_start(self) -> bool:
        """Whether creates may be sent."""
        return self._transitions.may_start

    @property
    def race(self) -> int:
        """How many attempts may run at once."""
        return self.hedging.width

    def is_unwanted(self, token: str) -> bool:
        """Whether an attempt can no longer become the cluster, so that its machines are ended."""
        return self._transitions.is_unwanted(token)

    def set_price(self, token: str, candidate: Candidate) -> None:
        """Set the price of an attempt to the one that its intent was committed with."""
        self.attempts[token].candidate = candidate

    def handle(self, event: events.Event, now: Instant, elapsed: Seconds) -> list[events.Action]:
        """Take one event; return what has to be done, in order.

        Parameters
        ----------
        now
            Wall-clock time: when blocks begin and expire.
        elapsed
            Time on the clock that counts suspend: when deadlines pass.
        """
        if self.finished:
            return []
        step = TransitionStep(now, elapsed)
        self._take(event, step)
        self._transitions.expire(step)
        self._transitions.retry(step)
        self._begin_pass(step)
        self._start_attempts(step)
        self._conclude(step)
        if not self.finished:
            self._sleep(step)
        return step.actions

    def _take(self, event: events.Event, step: TransitionStep) -> None:
        transitions = self._transitions
        match event:
            case events.RunStarted():
                self._started = True
            case events.Tick():
                pass
            case events.Woke():
                transitions.postpone(step)
            case events.BlocksRead(blocks):
                self.queue.blocks = self.stock_wait.holding(blocks)
                self.stock_wait.compare(blocks, step.now)
            case events.Restocked():
                self.stock_wait.hurry(step.now)
            case events.Prolonged(until):
                self.stock_wait.prolong(until)
            case events.Replanned(candidates):
                self.queue.replace_plan(candidates)
            case events.Cancel():
                transitions.cancel(step)
            case events.Submitted(token):
                transitions.submitted(transitions.open(token), step)
            case events.SubmitFailed(token, failure) | events.Withdrawn(token, failure):
                transitions.refused(transitions.open(token), failure, step)
            case events.Polled(token, result):
                transitions.polled(transitions.open(token), result, step)
            case events.Partial(token, ids, failure):
                transitions.partly_made(transitions.open(token), ids, failure, step)
            case events.Resolved(token, ids):
                transitions.resolved(transitions.open(token), ids, step)
            case events.PhaseDone(token, phase):
                transitions.phase_done(transitions.open(token), phase, step)
            case events.PhaseFailed(token, failure):
                transitions.broken(transitions.open(token), failure, step)
            case events.Gone(token):
                transitions.gone(transitions.open(token))
            case _ as never:
                assert_never(never)

    def _learn(self, candidate: Candidate, failure: Failure, step: TransitionStep) -> None:
        """Block or exclude what a failure rules out; one that holds everywhere stops the run."""
        if failure.cause is Cause.BAD_REQUEST and failure.scope is Scope.NOTHING:
            self.stopped_by = failure
        if failure.cause is Cause.TRANSIENT and failure.scope is Scope.ACCOUNT:
            # Each of the cloud's candidates would take all its tries to meet the same answer. It
            # may pass, so they come last.
            self.queue.postpone(candidate.offer.cloud)
        exclusion = exclusion_after(candidate, failure)
        if exclusion is not None and self.queue.exclude(exclusion):
            step.actions.append(events.Replan())
        self.stock_wait.causes.add(failure.cause)
        block = block_after(candidate, failure, step.now)
        if block is None:
            return
        repeats = self.repeats_of(block)
        block = block_after(candidate, failure, step.now, repeats=repeats) or block
        self.queue.blocks.append(block)
        self.stock_wait.learn(block)
        step.actions.append(events.StoreBlock(block))

    # ------------------------------------------------------------ starting

    def _wants_more(self) -> bool:
        return (
            self._started
            and self.may_start
            and self.winner is None
            and not self._transitions.cancelled
            and self.stopped_by is None
        )

    def _may_go_on(self, now: Instant) -> bool:
        return (
            self._wants_more()
            and not self.queue.is_planning
            and not self.stock_wait.is_waiting
            and self.stock_wait.may_start(now)
        )

    def _free_slots(self) -> list[int]:
        used = {a.slot for a in self._transitions.active()}
        return [slot for slot in range(self.race) if slot not in used]

    def _begin_pass(self, step: TransitionStep) -> None:
        if self._wants_more() and self.stock_wait.is_due(step.now):
            self.stock_wait.begin_pass()
            self.queue.blocks = self.stock_wait.holding(self.queue.blocks)
            step.actions.append(events.BeginPass(self.stock_wait.passes))
            if self.queue.begin_again():
                step.actions.append(events.Replan())

    def _start_attempts(self, step: TransitionStep) -> None:
        while self._may_go_on(step.now):
            slots, active = self._free_slots(), self._transitions.active()
            if not slots or (active and not self.hedging.lets_join(active, step.elapsed)):
                return
            racing = [a.candidate for a in active]
            tiers = {c.request.tier for c in racing}
            candidate = self.queue.next(step.now, tiers, self.stock_wait.meet)
            if self.queue.is_planning:
                step.actions.append(events.Replan())
                return
            if candidate is None or (racing and not self.hedging.affords(racing, candidate)):
                return
            self.queue.take(candidate)
            number = len(self.attempts) + 1
            attempt = Attempt(self._new_token(), candidate, number, slots[0], begun=step.elapsed)
            self.attempts[attempt.token] = attempt
            step.actions.append(events.Submit(attempt.token, candidate, number, attempt.slot))

    # ------------------------------------------------------------ finishing and sleeping

    def _conclude(self, step: TransitionStep) -> None:
        """Finish the run where nothing of it is pending, or rest until stock may be back."""
        transitions = self._transitions
        not_begun = not self._started and self.may_start and not transitions.cancelled
        if transitions.active() or not_begun:
            return
        if self._wants_more():
            has_places = self._may_go_on(step.now) and not self.queue.is_exhausted
            if self.queue.is_planning or has_places:
                return
            if self.stock_wait.may_wait(step.now) and self.queue.may_return(step.now):
                if not self.stock_wait.is_waiting:
                    self.stock_wait.rest(step.now)
                    step.actions.append(events.Pause(self.stock_wait.next_pass or step.now))
                return
        self.finished = True
        if self.winner is not None:
            state = RunState.READY
        elif transitions.cancelled:
            state = RunState.CANCELLED
        else:
            state = RunState.FAILED
        step.actions.append(events.Finish(state, self.stopped_by))

    def _sleep(self, step: TransitionStep) -> None:
        active = self._transitions.active()
        times = [a.deadline for a in active if a.deadline != NEVER]
        times += [a.retry_at for a in active if a.retry_at is not None]
        if self._wants_more() and self._free_slots():
            due = self.hedging.next_due(active, step.elapsed)
            times += [due] if due is not None else []
        if self.stock_wait.is_waiting:
            times.append(step.elapsed + max(SHORTEST_SLEEP, self.stock_wait.pause(step.now)))
        later = [t for t in times if t > step.elapsed]
        if later:
            step.actions.append(events.Wake(min(later)))

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
        """Take up the attempts of a run whose kernel died; return what to do about each.

        An accepted attempt goes on through its phases, a create that was sent is polled, and the
        outcome of an intent or of a lost answer is looked up in the cloud's list. Of several
        attempts with machines the first to be ready is kept.

        Parameters
        ----------
        go_on
            The run waits for stock and goes on with that; otherwise nothing new is started.
        """
        step, transitions = TransitionStep(now, elapsed), self._transitions
        transitions.may_start = self._started = go_on and not cancelled
        transitions.cancelled = cancelled
        for attempt in attempts:
            self.attempts[attempt.token] = attempt
            if not attempt.is_over:
                transitions.take_up(attempt, step)
        self._conclude(step)
        if not self.finished:
            self._sleep(step)
        return step.actions

    def restore_winner(self, attempt: Attempt) -> None:
        """Take up the attempt that is the cluster already; `restore` takes up those beside it."""
        self.attempts[attempt.token] = attempt
        self._transitions.winner = attempt.token
