"""What changed in a run, as plain lines for terminals and for notebooks that nobody watches."""

from __future__ import annotations

from nbprov.model.clusters import AttemptState, AttemptView, RunState, RunView
from nbprov.model.failures import Cause

from .formatting import ATTEMPT_LOOKS, format_place, nodes_prefix, per_hour
from .run_facts import RunFacts, run_facts
from .tables import one_line, safe_text

_UNREPORTED = frozenset(
    {
        AttemptState.INTENT,
        AttemptState.SENT,
        AttemptState.SSH,
        AttemptState.AGENT,
        AttemptState.HEALTH,
    }
)
"""Steps that get no line: they follow each other within seconds, and their result gets one."""


def attempt_line(attempt: AttemptView) -> str:
    """Return an attempt as one line.

    Examples
    --------
    `attempt 2  local/local-north/b  a100x1  $1.10/h  refused: out of stock: no a100x1 left in b`
    """
    offer = attempt.candidate.offer
    spot = "  spot" if offer.market.value == "spot" else ""
    kind = nodes_prefix(attempt.candidate.count) + offer.instance_type
    state = ATTEMPT_LOOKS[attempt.state].words
    failure = attempt.failure
    if failure is not None and failure.cause is not Cause.CANCELLED:
        state += f": {one_line(failure.sentence())}"
    price = per_hour(attempt.candidate.hourly)
    return f"attempt {attempt.number}  {format_place(offer.place)}  {kind}{spot}  {price}  {state}"


def run_lines(previous: RunView | None, current: RunView) -> list[str]:
    """Return what changed between two snapshots, one line for each change.

    Without an earlier snapshot this is the whole story so far. The lines of successive snapshots
    do not repeat each other, so a caller prints them as they come.
    """
    facts = run_facts(current)
    is_changed = previous is None or previous.state is not current.state
    lines = _opening_lines(facts) if previous is None else []
    lines += _new_notes(previous, current, facts)
    if is_changed and not facts.is_final:
        lines += _state_lines(facts)
    lines += _new_attempts(previous, current)
    lines += _new_log(previous, current)
    if is_changed and facts.is_final:
        lines += _end_lines(facts)
    return [safe_text(line) for line in lines]


def _opening_lines(facts: RunFacts) -> list[str]:
    headline = f"{facts.name or 'provision'}: {facts.plan.headline}"
    return [headline, facts.plan.consent] if facts.plan.consent else [headline]


def _new_notes(previous: RunView | None, current: RunView, facts: RunFacts) -> list[str]:
    # A machine that is ready is still being set up, so notes also come after the final state.
    if previous is None:
        return [] if facts.is_final else list(current.notes)
    return [note for note in current.notes if note not in previous.notes]


def _new_attempts(previous: RunView | None, current: RunView) -> list[str]:
    before = {a.token: (a.state, a.failure) for a in previous.attempts} if previous else {}
    return [
        attempt_line(a)
        for a in current.attempts
        if a.state not in _UNREPORTED and before.get(a.token) != (a.state, a.failure)
    ]


def _new_log(previous: RunView | None, current: RunView) -> list[str]:
    fresh = current.logged - (previous.logged if previous is not None else 0)
    if fresh <= 0:
        return []
    gap = ["… some lines of the log are not shown …"] if fresh > len(current.log) else []
    return [*gap, *current.log[max(0, len(current.log) - fresh) :]]


def _state_lines(facts: RunFacts) -> list[str]:
    if facts.state == RunState.WAITING.value:
        return [f"{facts.name}: {facts.waiting or facts.message}"]
    if facts.state == RunState.PLANNED.value and not facts.needs_launch:
        return []
    # While launching, the message is that of the latest attempt, which has a line of its own.
    is_told = not facts.message or facts.state == RunState.LAUNCHING.value
    detail = "" if is_told else f": {facts.message}"
    return [f"{facts.name}: {facts.look.words}{detail}"]


def _end_lines(facts: RunFacts) -> list[str]:
    # Where it failed, the cell raises the hint with the error.
    hint = f"next: {facts.hint}" if facts.state == RunState.READY.value else ""
    return [
        line
        for line in [*facts.summary, hint, facts.earlier, facts.spent, *facts.error.splitlines()]
        if line
    ]
