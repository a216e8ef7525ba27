"""One provision as static HTML, as text, and as plain lines, one a change of state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nbprov.model.clock import Instant, short_duration
from nbprov.model.clusters import AttemptState, AttemptView, ClusterState, RunState, RunView
from nbprov.model.failures import Cause
from nbprov.model.money import Micros

from .formatting import (
    ATTEMPT_LOOKS,
    DASH,
    RUN_LOOKS,
    SIMULATED,
    WAITS_FOR_LAUNCH,
    Look,
    candidate_words,
    cost_words,
    nodes_words,
    per_hour,
    place_words,
    utc_words,
)
from .prices import PlanFacts, plan_facts, plan_html, plan_text
from .tables import (
    Column,
    html_heading,
    html_lines,
    html_page,
    html_preformatted,
    html_table,
    one_line,
    safe_text,
    text_table,
)

PLAN_ROWS_WAITING = 10
"""Rows of the plan shown statically while a run waits for Launch; once attempts are made they tell more than the plan."""

MOST_ATTEMPTS = 100
"""Of a launch that waits for days the latest attempts are shown, and whatever is not over: every pass adds some."""

LOG_SHOWN = 8
"""Lines of a set-up's log in the panel: enough to see that it moves, and what it is at."""

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

_TEXT_LEAVES_OUT = {"market", "cost"}
"""Where a terminal is too narrow the reason matters more: spot is said beside the type, costs are summed above the table."""

_COLUMNS = (
    Column("#", right=True),
    Column("place", flexible=True, unbroken=True),
    Column("type", flexible=True, unbroken=True),
    Column("market"),
    Column("$/h", right=True),
    Column("state"),
    Column("elapsed", right=True),
    Column("cost", right=True),
    Column("reason", flexible=True),
)


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """A row of the failover panel in words.

    Attributes
    ----------
    key
        Tells this attempt from every other of the run.
    rank
        Its candidate's place in the plan; -1 where it is not of the plan.
    reason, advice, raw, code
        Why it failed, the next step, the cloud's own message and code; empty where it did not fail.
    hourly
        What it costs an hour while it is on the bill, in micros; 0 once it is not.
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

    def elapsed(self, now: Instant) -> str:
        """How long it took, or takes so far."""
        return short_duration((now if self.ended is None else self.ended) - self.started)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Everything the three forms of a run say, each thing once.

    Attributes
    ----------
    hourly
        What the run costs an hour now, losers that are still ending included, in micros.
    waiting
        Until when it waits for stock, when it tries again, how often it did; empty where it does not wait.
    notes
        How it races, waits, checks and ends, and what came to pass of it, a line each.
    summary
        How it ended, as lines; empty while it goes on.
    log
        The latest lines of what setting up prints; empty once it is done, or has failed: then the error has the last ones.
    """

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
    now: Instant
    waiting: str
    notes: tuple[str, ...]
    summary: tuple[str, ...]
    log: tuple[str, ...]
    error: str
    log_path: str

    @property
    def spent(self) -> str:
        """What it cost, or costs so far; empty where nothing was tried."""
        if not self.attempts:
            return ""
        so_far = "" if self.is_final and not self.hourly else "so far "
        return f"cost {so_far}{cost_words(self.cost, simulated=self.simulated)}"

    @property
    def title(self) -> str:
        """The run in one line."""
        return f"{self.name or 'provision'}: {self.look}"


def attempt_facts(attempt: AttemptView) -> AttemptFacts:
    """Put an attempt into words."""
    offer, failure = attempt.candidate.offer, attempt.failure
    rule = failure.rule if failure is not None else None
    return AttemptFacts(
        number=attempt.number,
        key=attempt.token or str(attempt.number),
        rank=attempt.candidate.rank,
        gpus=offer.gpus,
        place=place_words(offer.place),
        instance_type=nodes_words(attempt.candidate.count) + offer.instance_type,
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
    )


def run_facts(view: RunView) -> RunFacts:
    """Put a run into words, once for all three forms."""
    plan = plan_facts(view.plan, view.race)
    simulated = view.cluster.simulated if view.cluster is not None else plan.simulated
    shown = view.attempts[-MOST_ATTEMPTS:]
    earlier = view.attempts[:-MOST_ATTEMPTS]
    attempts = tuple(
        attempt_facts(a) for a in (*(a for a in earlier if not a.state.is_final), *shown)
    )
    left_out = len(view.attempts) - len(attempts)
    told = (
        (f"{left_out:,} earlier attempts are not shown: %nbprov attempts {view.name}",)
        if left_out
        else ()
    )
    return RunFacts(
        name=view.name,
        state=view.state.value,
        look=WAITS_FOR_LAUNCH
        if view.needs_launch and view.state is RunState.PLANNED
        else RUN_LOOKS[view.state],
        message=view.message,
        is_final=view.state.is_final,
        needs_launch=view.needs_launch,
        simulated=simulated,
        plan=plan,
        attempts=attempts,
        blocks=tuple(f"{b.words()}: {b.message or b.cause.value}" for b in view.blocks),
        cost=view.cost,
        hourly=_hourly(view, attempts),
        started=view.started,
        now=view.now,
        waiting=_waiting(view),
        notes=(*view.notes, *told),
        summary=(*_summary(view), *told) if view.state.is_final else (),
        log=() if view.error or not view.message else view.log[-LOG_SHOWN:],
        error=view.error,
        log_path=view.log_path,
    )


def _waiting(view: RunView) -> str:
    wait = view.waiting
    if wait is None or view.state not in (RunState.WAITING, RunState.LAUNCHING):
        return ""
    tried = f"{wait.passes} pass{'' if wait.passes == 1 else 'es'} made"
    if wait.next_pass is None:
        return f"stock is watched until {utc_words(wait.until)}; pass {wait.passes} goes on"
    ending = sum(not a.state.is_final for a in view.attempts)
    bill = "" if ending else "; nothing is on the bill meanwhile"
    return f"waits for stock until {utc_words(wait.until)}; next pass at {utc_words(wait.next_pass)} or sooner; {tried}{bill}"


def _hourly(view: RunView, attempts: tuple[AttemptFacts, ...]) -> Micros:
    if view.cluster is None:
        return sum(a.hourly for a in attempts)
    losers = (a for a in attempts if a.state != AttemptState.READY.value)
    return view.cluster.hourly_now + sum(a.hourly for a in losers)


def _summary(view: RunView) -> tuple[str, ...]:
    tries = len(view.attempts)
    passes = (
        f", {view.waiting.passes} passes"
        if view.waiting is not None and view.waiting.passes > 1
        else ""
    )
    took = f"{tries} attempt{'' if tries == 1 else 's'}{passes}, {short_duration(view.now - view.started)}"
    lines: list[str] = []
    if view.state is RunState.READY and view.cluster is not None:
        winner, first = view.cluster.candidate, view.plan.chosen
        lines.append(f"{view.name} is ready: {candidate_words(winner)}")
        if first is not None and winner.hourly > first.hourly:
            lines.append(
                f"dearer than the first place of the plan: {per_hour(winner.hourly)} instead of {per_hour(first.hourly)}"
            )
        heads = [i for i in view.cluster.instances if i.node == 0 and i.host]
        lines += [f"address: {i.host} port {i.port}" for i in heads]
        lines += [
            took,
            f"guards: {view.cluster.guards.words()}",
            *view.cluster.notes,
            f"next: %%on {view.name}",
        ]
        return tuple(lines + _ending(view))
    words = {
        RunState.FAILED: "no machine",
        RunState.CANCELLED: "cancelled",
        RunState.ENDED: "ended",
    }.get(view.state, view.state.value)
    lines.append(f"{words}: {took}")
    return tuple(lines + (_ending(view) or ["nothing of it is on the bill"]))


def _ending(view: RunView) -> list[str]:
    """What is still to be confirmed gone, by name. The winner is not, while its cluster is kept or once that has ended."""
    is_settled = view.state is RunState.READY or (
        view.cluster is not None and view.cluster.state is ClusterState.ENDED
    )
    kept = AttemptState.READY if is_settled else None
    open_ones = [a for a in view.attempts if not a.state.is_final and a.state is not kept]
    return [
        f"still to be confirmed gone: attempt {a.number} in {place_words(a.candidate.offer.place)} at {per_hour(a.candidate.hourly)}"
        for a in open_ones
    ]


def _rows(facts: RunFacts) -> list[list[str]]:
    return [
        [
            str(a.number),
            a.place,
            a.instance_type,
            a.market,
            a.price,
            str(a.look),
            a.elapsed(facts.now),
            cost_words(a.cost) if a.cost else DASH,
            f"{a.reason}: {one_line(a.raw)}" if a.reason and a.raw else a.reason or DASH,
        ]
        for a in facts.attempts
    ]


def _lines_above(facts: RunFacts) -> list[str]:
    is_said = any(line.startswith(facts.message) for line in facts.summary)
    message = "" if is_said else facts.message
    return [line for line in [message, facts.waiting, *facts.summary, facts.spent] if line]


def _lines_below(facts: RunFacts) -> list[str]:
    waiting = [] if facts.is_final else [*facts.plan.lines(), *facts.notes]
    log = f"log: {_from_home(facts.log_path)}" if facts.log_path and facts.is_final else ""
    return [line for line in [*waiting, log] if line]


def _notes(facts: RunFacts) -> list[str]:
    return [] if facts.is_final else list(facts.notes)


def _from_home(path: str) -> str:
    """The path with `~` for the home folder: a notebook that is passed on need not tell who wrote it."""
    place, home = Path(path), Path.home()
    return str(Path("~") / place.relative_to(home)) if place.is_relative_to(home) else path


def run_html(view: RunView) -> str:
    """A run as static HTML: state, cost, attempts with their reasons, how it ended. Without attempts, the plan."""
    facts = run_facts(view)
    heading = html_heading(facts.title)
    above = html_lines(_lines_above(facts)) + html_preformatted("\n".join(facts.log))
    error = html_preformatted(facts.error)
    if not facts.attempts:
        plan = plan_html(view.plan, rows=PLAN_ROWS_WAITING, race=view.race)
        return html_page(heading, above, error, plan, html_lines(_notes(facts)))
    stamp = html_lines([f"as of {utc_words(view.now)}"] if view.now else [])
    return html_page(
        heading,
        above,
        html_table(_COLUMNS, _rows(facts)),
        error,
        html_lines(_lines_below(facts)),
        stamp,
    )


def run_text(view: RunView) -> str:
    """A run as text: state, cost, attempts with their reasons, how it ended. Without attempts, the plan."""
    facts = run_facts(view)
    lines = [facts.title, *_lines_above(facts), *(f"    {line}" for line in facts.log)]
    if facts.attempts:
        lines += ["", *_text_table(facts), *_lines_below(facts)]
    else:
        lines += ["", plan_text(view.plan, rows=PLAN_ROWS_WAITING, race=view.race), *_notes(facts)]
    return safe_text("\n".join([*lines, *facts.error.splitlines()]))


def _text_table(facts: RunFacts) -> list[str]:
    kept = [i for i, column in enumerate(_COLUMNS) if column.label not in _TEXT_LEAVES_OUT]
    kind, market = (
        next(i for i, c in enumerate(_COLUMNS) if c.label == label) for label in ("type", "market")
    )
    rows = _rows(facts)
    for row in rows:
        row[kind] += " spot" if row[market] == "spot" else ""
    return text_table([_COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows])


_NOISE = frozenset(
    {
        AttemptState.INTENT,
        AttemptState.SENT,
        AttemptState.SSH,
        AttemptState.AGENT,
        AttemptState.HEALTH,
    }
)
"""Steps that a log need not tell: they follow each other by themselves within seconds, and what comes of them is told."""


def attempt_line(attempt: AttemptView) -> str:
    """An attempt in one line.

    Examples
    --------
    `attempt 2  local/local-north/b  a100x1  $1.10/h  refused: out of stock: no a100x1 left in b`
    """
    offer = attempt.candidate.offer
    spot = "  spot" if offer.market.value == "spot" else ""
    kind = nodes_words(attempt.candidate.count) + offer.instance_type
    why = (
        ""
        if attempt.failure is None or attempt.failure.cause is Cause.CANCELLED
        else f": {one_line(attempt.failure.sentence())}"
    )
    words = ATTEMPT_LOOKS[attempt.state].words
    return f"attempt {attempt.number}  {place_words(offer.place)}  {kind}{spot}  {per_hour(attempt.candidate.hourly)}  {words}{why}"


def run_lines(previous: RunView | None, current: RunView) -> list[str]:
    """What changed between two snapshots, one line a change of state; the whole story so far where there is no earlier one.

    Lines between snapshots follow each other without repeats, so a caller prints them as they come.
    """
    before = (
        {a.token: (a.state, a.failure) for a in previous.attempts} if previous is not None else {}
    )
    lines: list[str] = []
    facts = run_facts(current)
    if previous is None:
        lines += [
            f"{facts.name or 'provision'}: {facts.plan.headline}",
            *([facts.plan.consent] if facts.plan.consent else []),
        ]
    told = previous.notes if previous is not None else ()
    # A machine that is ready is still set up, of which there is something to tell.
    lines += (
        [note for note in current.notes if note not in told]
        if previous is not None or not facts.is_final
        else []
    )
    changed = previous is None or previous.state is not current.state
    if changed and not facts.is_final:
        lines += _state_lines(facts)
    news = (
        a
        for a in current.attempts
        if a.state not in _NOISE and before.get(a.token) != (a.state, a.failure)
    )
    lines += [attempt_line(a) for a in news]
    fresh = current.logged - (previous.logged if previous is not None else 0)
    lines += ["… some lines of the log are left out here …"] if fresh > len(current.log) else []
    lines += current.log[max(0, len(current.log) - fresh) :] if fresh > 0 else ()
    if changed and facts.is_final:
        lines += _state_lines(facts)
    return [safe_text(line) for line in lines]


def _state_lines(facts: RunFacts) -> list[str]:
    if not facts.is_final:
        if facts.state == RunState.WAITING.value:
            return [f"{facts.name}: {facts.waiting or facts.message}"]
        # The message of a launch is of its latest attempt, which has a line of its own.
        detail = (
            f": {facts.message}"
            if facts.message and facts.state != RunState.LAUNCHING.value
            else ""
        )
        return (
            []
            if facts.state == RunState.PLANNED.value and not facts.needs_launch
            else [f"{facts.name}: {facts.look.words}{detail}"]
        )
    return [line for line in [*facts.summary, facts.spent, *facts.error.splitlines()] if line]


__all__ = [
    "SIMULATED",
    "AttemptFacts",
    "RunFacts",
    "attempt_facts",
    "attempt_line",
    "run_facts",
    "run_html",
    "run_lines",
    "run_text",
]
