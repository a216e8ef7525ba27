"""What was spent, by time, day and cloud, and what this month will come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros, cost_of
from nbprov.model.offers import SIMULATED

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import Ledger

SHOWN_DAYS = 30
"""Days of a plot, today included."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent since an instant, and what it grows by an hour.

    What is paid and what is only simulated are counted apart.
    """

    since: Instant
    paid: Micros = 0
    paid_hourly: Micros = 0
    simulated: Micros = 0
    simulated_hourly: Micros = 0


@dataclass(frozen=True, slots=True)
class CloudCosts:
    """What one cloud cost on each day; `simulated` where nobody pays for it.

    Attributes
    ----------
    hourly
        What the last day's cost grows by an hour.
    """

    cloud: str
    costs: tuple[Micros, ...]
    simulated: bool
    hourly: Micros = 0


@dataclass(frozen=True, slots=True)
class DailyCosts:
    """What was spent on each of the last days.

    Attributes
    ----------
    days
        ISO dates in this computer's time zone, oldest first; the last one is today.
    clouds
        The clouds that cost something, the dearest first.
    """

    days: tuple[str, ...]
    clouds: tuple[CloudCosts, ...]


def midnight(now: Instant) -> Instant:
    """When today began in this computer's time zone."""
    return _day(now).timestamp()


def month_begin(now: Instant) -> Instant:
    """When this month began in this computer's time zone."""
    return _local(_day(now).replace(day=1)).timestamp()


def month_end(now: Instant) -> Instant:
    """When this month ends in this computer's time zone."""
    # The 32nd day after the first one of a month lies in the next month.
    later = _day(now).replace(day=1) + timedelta(days=32)
    return _local(later.replace(day=1)).timestamp()


class Bill:
    """All that was on the bill, read from the ledger once."""

    def __init__(self, ledger: Ledger) -> None:
        self._now = ledger.clock.now()
        self._segments = [
            (segment, segment.source == SIMULATED) for segment in ledger.prices.segments()
        ]

    def since(self, since: Instant) -> Spending:
        """What was spent since an instant, and what is on the bill now.

        Both come from the same segments, as in `daily`, so that the amounts of a page that lets
        them grow agree at every moment.
        """
        spent, hourly = {True: 0, False: 0}, {True: 0, False: 0}
        for segment, simulated in self._segments:
            spent[simulated] += segment.cost(since, self._now)
            hourly[simulated] += segment.hourly if segment.is_open else 0
        return Spending(since, spent[False], hourly[False], spent[True], hourly[True])

    def daily(self, days: int = SHOWN_DAYS) -> DailyCosts:
        """What each cloud cost on each of the last days.

        A machine that ran over midnight counts for both days.
        """
        today = _day(self._now)
        begins = [_local(today - timedelta(days=back)) for back in reversed(range(days))]
        edges = [*(begin.timestamp() for begin in begins), self._now]
        found: dict[tuple[str, bool], list[Micros]] = {}
        hourly: Counter[tuple[str, bool]] = Counter()
        for segment, simulated in self._segments:
            if segment.ended <= edges[0]:
                continue
            source = segment.cloud or "unknown", simulated
            costs = found.setdefault(source, [0] * days)
            hourly[source] += segment.hourly if segment.is_open else 0
            for day in range(days):
                costs[day] += segment.cost(edges[day], edges[day + 1])
        clouds = (
            CloudCosts(cloud, tuple(costs), free, hourly[cloud, free])
            for (cloud, free), costs in found.items()
        )
        return DailyCosts(
            tuple(begin.date().isoformat() for begin in begins),
            tuple(sorted(clouds, key=lambda one: (-sum(one.costs), one.cloud))),
        )


def month_forecast(month: Spending, clusters: Iterable[ClusterView], now: Instant) -> Spending:
    """What this month will have cost if what runs goes on.

    A cluster goes on until the month ends, or its `max_lifetime` or `budget` ends it before.

    Examples
    --------
    >>> month_forecast(Spending(0.0, paid=5_000_000), (), 0.0).paid
    5000000
    """
    paid, simulated = month.paid, month.simulated
    for cluster in clusters:
        more = _still_to_come(cluster, month_end(now) - now, now)
        if cluster.simulated:
            simulated += more
        else:
            paid += more
    return Spending(month.since, paid, 0, simulated, 0)


def _still_to_come(cluster: ClusterView, seconds: Seconds, now: Instant) -> Micros:
    guards = cluster.guards
    if guards.max_lifetime is not None:
        seconds = min(seconds, max(0.0, cluster.started + guards.max_lifetime - now))
    more = cost_of(cluster.hourly_now, seconds)
    return more if guards.budget is None else min(more, max(0, guards.budget - cluster.cost))


def _day(now: Instant) -> datetime:
    """The beginning of the day of an instant."""
    day = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return _local(day)


def _local(day: datetime) -> datetime:
    """The same wall clock in this computer's zone, whose offset changes over the year."""
    return day.replace(tzinfo=None).astimezone()
