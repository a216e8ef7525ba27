"""The first line of a launch in its saved forms: what it is, since when, what comes next, its cost.

A live panel says the same from the same fields (`widgets/run_outlook.js`), in durations that go on
each second. A notebook that is saved may be read at any time, so it has points in time.
"""

from __future__ import annotations

from nbprov.model.clock import short_duration
from nbprov.model.clusters import RunState, RunView
from nbprov.model.money import format_usd

from .formatting import SIMULATED, format_utc, per_hour
from .run_facts import RunFacts


def headline(view: RunView, facts: RunFacts) -> tuple[str, ...]:
    """Return the parts of the line; the first is the launch's name and what it is.

    Examples
    --------
    `dev: ◐ launching`, `since 2026-11-21 07:09:10 UTC`, `next: aws/use1-az2 at $3.67/h`,
    `cost $0.0039 so far`, `$2.50/h`, `as of 2026-11-21 07:09:40 UTC`
    """
    stamp = f"as of {format_utc(facts.now)}" if facts.now else ""
    title = f"{facts.name or 'provision'}: {facts.look}"
    parts = [title, *_course(view, facts), *_cost(facts), stamp]
    return tuple(part for part in parts if part)


def _course(view: RunView, facts: RunFacts) -> list[str]:
    if facts.needs_launch:
        return ["nothing is billed", "next: press Launch"]
    if facts.state == RunState.READY.value:
        since = facts.ended if facts.is_running else None
        return ["" if since is None else f"since {format_utc(since)}", _next(facts.hint)]
    if facts.is_final:
        return [_end(view, facts)]
    if not facts.started:
        return []
    word = "since" if facts.state == RunState.LAUNCHING.value else "launched"
    begun = f"{word} {format_utc(facts.started)}"
    if facts.next_pass is not None and facts.next_pass > facts.now:
        return [begun, _next(f"all places again at {format_utc(facts.next_pass)}")]
    return [begun, _next(facts.following)]


def _next(words: str) -> str:
    return f"next: {words}" if words else ""


def _end(view: RunView, facts: RunFacts) -> str:
    """When it was over, and how long a launch took that came to nothing."""
    if facts.state == RunState.ENDED.value:
        # The launch was over long before the cluster was.
        ended = view.cluster.ended if view.cluster is not None else None
        return "" if ended is None else f"at {format_utc(ended)}"
    if not facts.started:
        return ""
    took = f"after {short_duration((facts.ended or facts.now) - facts.started)}"
    return took if facts.ended is None else f"at {format_utc(facts.ended)}, {took}"


def _cost(facts: RunFacts) -> list[str]:
    if not facts.attempts:
        return []
    is_over = facts.is_final and not facts.hourly
    return [
        f"cost {format_usd(facts.cost)}{'' if is_over else ' so far'}",
        per_hour(facts.hourly) if facts.hourly else "",
        SIMULATED if facts.simulated else "",
    ]
