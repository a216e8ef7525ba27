"""What a run panel says, put into words once for its three forms: widget, HTML and text."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds, short_duration
from nbprov.model.clusters import (
    AttemptState,
    AttemptView,
    ClusterState,
    Phase,
    RunState,
    RunView,
)
from nbprov.model.money import Micros

from .formatting import (
    ATTEMPT_LOOKS,
    CLUSTER_LOOKS,
    RUN_LOOKS,
    WAITS_FOR_LAUNCH,
    Look,
    Tone,
    describe_candidate,
    format_cost,
    format_place,
    format_utc,
    nodes_prefix,
    per_hour,
)
from .prices import PlanFacts, plan_facts

MOST_ATTEMPTS = 100
"""The most attempts that are shown: the latest ones and all that are not over. A launch that waits
for days adds some with every pass."""

SAVED_ATTEMPTS = 8
"""As many of them are in a notebook that is saved, where a panel has at most 50 kB."""

KEPT_ATTEMPTS = 4
"""As many of them are in the state of the widget, which some notebooks keep beside the panel's code
of 32 kB."""

LONGEST_MESSAGE = 200
"""Characters of a cloud's message in a saved notebook. Some write a page, and `%nbprov attempts`
has all of it."""

LOG_SHOWN = 8
"""Lines of the setup log in the panel: enough to see that it moves, and where it is."""

_BILLED = frozenset(
    {
        AttemptState.ACCEPTED,
        AttemptState.BOOTING,
        AttemptState.SSH,
        AttemptState.AGENT,
        AttemptState.HEALTH,
        AttemptState.READY,
        AttemptState.ENDING,
    }
)


@dataclass(frozen=True, slots=True)
class PhaseFacts:
    """A state that an attempt was in, and since when."""

    words: str
    tone: Tone
    since: Instant


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """A row of the run panel, in words.

    Attributes
    ----------
    key
        Tells this attempt from every other one of the run.
    rank
        The rank of its candidate in the plan; -1 where the plan does not hold it.
    reason, advice, raw, code
        Why it failed, the next step, and the cloud's own message and code; empty where it did not
        fail.
    hourly
        What it costs per hour while it is billed, in micros; 0 once it is not.
    has_machine
        Its cloud made a machine, so that there may be a console to read.
    is_kept
        It became the cluster.
    phases, cut_off, usual
        As in `AttemptView`.
    """

    number: int
    key: str
    rank: int
    gpus: str
    place: str
    instance_type: str
    market: str
    price: str
    state: str
    look: Look
    started: Instant
    ended: Instant | None
    cost: Micros
    hourly: Micros
    reason: str
    advice: str
    raw: str
    code: str
    has_machine: bool
    is_kept: bool
    phases: tuple[PhaseFacts, ...]
    cut_off: Instant | None
    usual: Seconds | None

    def elapsed(self, now: Instant) -> str:
        """Return how long it took, or has taken so far."""
        return short_duration((now if self.ended is None else self.ended) - self.started)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything that the three forms of a run say.

    Attributes
    ----------
    hourly
        What the run costs per hour now, in micros, including attempts that are still ending.
    waiting
        Until when it waits for stock, when it tries again and how often it did; empty where it
        does not wait.
    following, next_pass
        The place that is tried next, with its price; empty where there is none. When all places are
        tried again; None where nothing waits.
    notes
        How it races, waits, checks and ends, and what happened to it, one line each.
    earlier
        How many attempts are not among these, and what lists them; empty where all are.
    summary
        How it ended, as lines; empty while it goes on.
    hint
        What to do next with a run that is ready, or about one that failed. A cell that waits raises
        the latter with its error.
    log
        The latest lines that the setup prints. Empty once it is done or has failed, since the
        error then holds the last ones.
    is_running
        Its cluster runs now.
    """

    run_id: str
    name: str
    state: str
    look: Look
    message: str
    is_final: bool
    needs_launch: bool
    simulated: bool
    plan: PlanFacts
    attempts: tuple[AttemptFacts, ...]
    blocks: tuple[str, ...]
    cost: Micros
    hourly: Micros
    started: Instant
    ended: Instant | None
    now: Instant
    waiting: str
    following: str
    next_pass: Instant | None
    notes: tuple[str, ...]
    earlier: str
    summary: tuple[str, ...]
    hint: str
    log: tuple[str, ...]
    error: str
    log_path: str
    is_running: bool

    @property
    def spent(self) -> str:
        """What it cost, or has cost so far; empty where nothing was tried."""
        if not self.attempts:
            return ""
        so_far = "" if self.is_final and not self.hourly else "so far "
        return f"cost {so_far}{format_cost(self.cost, simulated=self.simulated)}"


def attempt_facts(attempt: AttemptView) -> AttemptFacts:
    """Put an attempt into words."""
    offer, failure = attempt.candidate.offer, attempt.failure
    rule = failure.rule if failure is not None else None
    return AttemptFacts(
        number=attempt.number,
        key=attempt.token or str(attempt.number),
        rank=attempt.candidate.rank,
        gpus=offer.gpus,
        place=format_place(offer.place),
        instance_type=nodes_prefix(attempt.candidate.count) + offer.instance_type,
        market=offer.market.value,
        price=per_hour(attempt.candidate.hourly),
        state=attempt.state.value,
        look=ATTEMPT_LOOKS[attempt.state],
        started=attempt.started,
        ended=attempt.ended,
        cost=attempt.cost,
        hourly=attempt.candidate.hourly if attempt.state in _BILLED else 0,
        reason=rule.words if rule is not None else "",
        advice=rule.advice if rule is not None else "",
        raw=failure.message.strip() if failure is not None else "",
        code=failure.code if failure is not None else "",
        has_machine=any(phase.state in _BILLED for phase in attempt.phases),
        is_kept=attempt.state is AttemptState.READY,
        phases=tuple(_phase_facts(phase) for phase in attempt.phases),
        cut_off=attempt.cut_off,
        usual=attempt.usual,
    )


def _phase_facts(phase: Phase) -> PhaseFacts:
    look = ATTEMPT_LOOKS[phase.state]
    return PhaseFacts(look.words, look.tone, phase.since)


def run_facts(view: RunView, most: int = MOST_ATTEMPTS) -> RunFacts:
    """Put a run into words, with so many of its attempts."""
    plan = plan_facts(view.plan, view.race)
    attempts = tuple(attempt_facts(a) for a in _shown_attempts(view, most))
    is_planned = view.needs_launch and view.state is RunState.PLANNED
    return RunFacts(
        run_id=view.run_id,
        name=view.name,
        state=view.state.value,
        look=WAITS_FOR_LAUNCH if is_planned else _look(view),
        message=view.message,
        is_final=view.state.is_final,
        needs_launch=view.needs_launch,
        simulated=view.cluster.simulated if view.cluster is not None else plan.simulated,
        plan=plan,
        attempts=attempts,
        blocks=tuple(f"{b.words()}: {b.message or b.cause.value}" for b in view.blocks),
        cost=view.cost,
        hourly=_hourly(view, attempts),
        started=view.started,
        ended=view.ended,
        now=view.now,
        waiting=_waiting(view),
        following=_following(view),
        next_pass=view.waiting.next_pass if _waiting(view) and view.waiting is not None else None,
        notes=view.notes,
        earlier=earlier_words(view.tries - len(attempts), view.name),
        summary=_summary(view) if view.state.is_final else (),
        hint=_hint(view),
        log=() if view.error or not view.message else view.log[-LOG_SHOWN:],
        error=view.error,
        log_path=view.log_path,
        is_running=view.cluster is not None and view.cluster.state is ClusterState.RUNNING,
    )


def _look(view: RunView) -> Look:
    """Return the look of a run; once it is ready, that of its cluster where that does not run."""
    cluster = view.cluster
    if view.state is not RunState.READY or cluster is None:
        return RUN_LOOKS[view.state]
    is_up = cluster.state is ClusterState.RUNNING
    return RUN_LOOKS[view.state] if is_up else CLUSTER_LOOKS[cluster.state]


def _shown_attempts(view: RunView, most: int) -> list[AttemptView]:
    earlier, latest = view.attempts[:-most], view.attempts[-most:]
    return [*(a for a in earlier if not a.state.is_final), *latest]


def earlier_words(hidden: int, name: str) -> str:
    """Return the line about attempts that are not shown; empty where there are none.

    Examples
    --------
    >>> earlier_words(400, "dev")
    '400 earlier attempts are not shown; %nbprov attempts dev lists them'
    """
    if not hidden:
        return ""
    some = "1 earlier attempt is" if hidden == 1 else f"{hidden:,} earlier attempts are"
    return f"{some} not shown; %nbprov attempts {name} lists {'it' if hidden == 1 else 'them'}"


def _waiting(view: RunView) -> str:
    wait = view.waiting
    if wait is None or view.state not in (RunState.WAITING, RunState.LAUNCHING):
        return ""
    if wait.next_pass is None:
        return (
            f"watching stock until {format_utc(wait.until)};"
            f" pass {wait.passes} over the plan is running"
        )
    done = f"{wait.passes} pass{'' if wait.passes == 1 else 'es'} so far"
    is_ending = any(not a.state.is_final for a in view.attempts)
    bill = "" if is_ending else "; nothing is billed meanwhile"
    return (
        f"waiting for stock until {format_utc(wait.until)};"
        f" next pass over the plan at {format_utc(wait.next_pass)} or sooner; {done}{bill}"
    )


def _following(view: RunView) -> str:
    if view.following is None:
        return ""
    offer = view.following.offer
    return f"{format_place(offer.place)} at {per_hour(view.following.hourly)}"


def _hourly(view: RunView, attempts: tuple[AttemptFacts, ...]) -> Micros:
    if view.cluster is None:
        return sum(a.hourly for a in attempts)
    losers = (a for a in attempts if a.state != AttemptState.READY.value)
    return view.cluster.hourly_now + sum(a.hourly for a in losers)


def _summary(view: RunView) -> tuple[str, ...]:
    if view.state is RunState.READY and view.cluster is not None:
        return (*_ready_lines(view), *_unconfirmed_lines(view))
    words = {
        RunState.FAILED: "no machine was obtained",
        RunState.CANCELLED: "cancelled",
        RunState.ENDED: "ended",
    }.get(view.state, view.state.value)
    unconfirmed = _unconfirmed_lines(view) or ["nothing of this launch is billed"]
    if view.state is RunState.FAILED and view.attempts and view.message:
        took = short_duration((view.ended or view.now) - view.started)
        return (f"{view.message}; it took {took}", *unconfirmed)
    return (f"{words}: {_effort(view)}", *unconfirmed)


def _ready_lines(view: RunView) -> list[str]:
    assert view.cluster is not None
    assert view.cluster.candidate is not None
    winner, first = view.cluster.candidate, view.plan.chosen
    lines = [f"{view.name} is {_look(view).words}: {describe_candidate(winner)}"]
    if first is not None and winner.hourly > first.hourly:
        lines.append(
            "it costs more than the first place of the plan:"
            f" {per_hour(winner.hourly)} instead of {per_hour(first.hourly)}"
        )
    heads = [i for i in view.cluster.instances if i.node == 0 and i.host]
    lines += [f"address: {i.host} port {i.port}" for i in heads]
    return [
        *lines,
        _effort(view),
        f"guards: {view.cluster.guards.words()}",
        *view.cluster.notes,
    ]


def _hint(view: RunView) -> str:
    if view.state is RunState.READY and view.cluster is not None:
        is_stopped = view.cluster.state in (ClusterState.STOPPING, ClusterState.STOPPED)
        return f"%nbprov start {view.name}" if is_stopped else f"%%on {view.name}"
    return view.hint if view.state is RunState.FAILED and not view.error else ""


def _effort(view: RunView) -> str:
    """Return how many attempts and passes the run made, and how long it took."""
    if not view.started:
        return "it was not launched"
    tries = view.tries
    passes = view.waiting.passes if view.waiting is not None else 0
    parts = [f"{tries} attempt{'' if tries == 1 else 's'}"]
    parts += [f"{passes} passes"] if passes > 1 else []
    return ", ".join([*parts, short_duration((view.ended or view.now) - view.started)])


def _unconfirmed_lines(view: RunView) -> list[str]:
    """Return a line for each attempt whose machine may still exist.

    The winner is not one of them while its cluster is kept, nor once that cluster has ended.
    """
    is_settled = view.state is RunState.READY or (
        view.cluster is not None and view.cluster.state is ClusterState.ENDED
    )
    kept = AttemptState.READY if is_settled else None
    unconfirmed = [a for a in view.attempts if not a.state.is_final and a.state is not kept]
    return [
        f"not yet confirmed gone: attempt {a.number} in {format_place(a.candidate.offer.place)}"
        f" at {per_hour(a.candidate.hourly)}"
        for a in unconfirmed
    ]
