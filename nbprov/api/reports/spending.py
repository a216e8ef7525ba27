"""What was spent, by time, day and cloud, and what this month will come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros, cost_of

from .costs import is_simulated

if TYPE_CHECKING:
    from nbprov.model.offers import Offer
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
    """What one cloud cost on each day; `simulated` where nobody pays for it."""

    cloud: str
    costs: tuple[Micros, ...]
    simulated: bool


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


def spent_since(ledger: Ledger, clusters: Iterable[ClusterView], since: Instant) -> Spending:
    """What was spent since an instant, and what these clusters cost now."""
    clusters = tuple(clusters)
    paid = simulated = 0
    for run_id, cost in ledger.prices.costs_since(since).items():
        launches = ledger.launches.of_run(run_id)
        if launches and all(is_simulated(launch.candidate.offer) for launch in launches):
            simulated += cost
        else:
            paid += cost
    return Spending(
        since,
        paid,
        sum(c.hourly_now for c in clusters if not c.simulated),
        simulated,
        sum(c.hourly_now for c in clusters if c.simulated),
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


def daily_costs(ledger: Ledger, now: Instant, days: int = SHOWN_DAYS) -> DailyCosts:
    """What each cloud cost on each of the last days.

    A machine that ran over midnight counts for both days.
    """
    first = _day(now)
    begins = [_local(first - timedelta(days=back)) for back in reversed(range(days))]
    edges = [*(begin.timestamp() for begin in begins), now]
    offers: dict[str, dict[str, Offer]] = {}
    found: dict[tuple[str, bool], list[Micros]] = {}
    for segment in ledger.prices.segments_since(edges[0]):
        if segment.run_id not in offers:
            launches = ledger.launches.of_run(segment.run_id)
            offers[segment.run_id] = {one.token: one.candidate.offer for one in launches}
        offer = offers[segment.run_id].get(segment.token)
        if offer is None:
            continue
        costs = found.setdefault((offer.cloud, is_simulated(offer)), [0] * days)
        for day in range(days):
            seconds = min(segment.ended, edges[day + 1]) - max(segment.started, edges[day])
            costs[day] += cost_of(segment.hourly, seconds) if seconds > 0 else 0
    clouds = [CloudCosts(cloud, tuple(costs), is_free) for (cloud, is_free), costs in found.items()]
    return DailyCosts(
        tuple(begin.date().isoformat() for begin in begins),
        tuple(sorted(clouds, key=lambda one: (-sum(one.costs), one.cloud))),
    )


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
