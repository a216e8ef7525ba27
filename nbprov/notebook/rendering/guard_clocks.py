"""The guards of a running cluster, each with the instant at which it acts."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.money import SECONDS_PER_HOUR

from .formatting import format_utc


@dataclass(frozen=True, slots=True)
class GuardClock:
    """One guard that runs.

    Attributes
    ----------
    words
        What it does, without a time.
    due
        When it acts; None where that is not known, or where it does not count now.
    note
        What is said beside or in place of the time left.
    """

    words: str
    due: Instant | None = None
    note: str = ""


def guard_clocks(view: ClusterView, now: Instant) -> tuple[GuardClock, ...]:
    """Return the guards of a running cluster; none in another state, in which they do not count.

    Idle time is known while somebody looks, since only the machines count it.
    """
    if view.state is not ClusterState.RUNNING:
        return ()
    clocks = (_idle(view), _lifetime(view), _budget(view, now))
    return tuple(clock for clock in clocks if clock is not None)


def _idle(view: ClusterView) -> GuardClock | None:
    words = view.guards.idle_words()
    if not words:
        return None
    words += " (default)" if view.guards.is_default else ""
    ends = [load.idle_ends for load in view.loads if load.idle_ends is not None]
    if any(load.is_active for load in view.loads):
        return GuardClock(words, note="in use now")
    if not ends or len(ends) < len(view.instances):
        return GuardClock(words)
    return GuardClock(words, max(ends))


def _lifetime(view: ClusterView) -> GuardClock | None:
    if view.guards.max_lifetime is None:
        return None
    launched = [machine.launched_at for machine in view.instances if machine.launched_at]
    began = min([*launched, view.started])
    return GuardClock(view.guards.lifetime_words(), began + view.guards.max_lifetime)


def _budget(view: ClusterView, now: Instant) -> GuardClock | None:
    limit = view.guards.budget
    if limit is None:
        return None
    words = view.guards.budget_words()
    if not view.hourly_now:
        return GuardClock(words)
    left = max(0, limit - view.cost) * SECONDS_PER_HOUR / view.hourly_now
    return GuardClock(words, now + left, "at this rate")


def guard_text(view: ClusterView) -> str:
    """Return the guards for a form that stays: of the times only the end of the lifetime does.

    It reads `down after 1 h idle, down after 2 h (at 2026-11-21 09:09:10 UTC)`.
    """
    guards = view.guards
    end = _lifetime(view) if view.state is ClusterState.RUNNING else None
    at = f" (at {format_utc(end.due)})" if end is not None and end.due is not None else ""
    said = (guards.idle_words(), guards.lifetime_words() + at, guards.budget_words())
    text = ", ".join(words for words in said if words) or "none"
    return text + (" (default)" if guards.is_default else "")
