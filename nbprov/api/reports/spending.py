"""What was spent, by time, day and cloud, and what this month will come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros, cost_of
from nbprov.model.offers import SIMULATED

if TYPE_CHECKING:
    from nbprov.api.context import Context
    from nbprov.provisioning.ledger import Ledger
    from nbprov.provisioning.ledger.prices import PriceSegment

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
    """What was on the bill, read from the ledger once.

    Parameters
    ----------
    segments
        What was on the bill, until now at most.
    earlier
        What was spent on all that is not among the segments, since it ended before
        `earlier.since`.
    """

    def __init__(
        self, segments: Iterable[PriceSegment], now: Instant, earlier: Spending | None = None
    ) -> None:
        self._now = now
        self._earlier = Spending(0.0) if earlier is None else earlier
        self._segments = [(segment, segment.source == SIMULATED) for segment in segments]

    @classmethod
    def of(cls, ledger: Ledger) -> Bill:
        """All that was ever on the bill."""
        return cls(ledger.prices.segments(), ledger.clock.now())

    def since(self, since: Instant) -> Spending:
        """What was spent since an instant, and what is on the bill now.

        Both come from the same segments, as in `daily`, so that the amounts of a page that lets
        them grow agree at every moment.

        Parameters
        ----------
        since
            0, or no earlier than what the bill has segments of.
        """
        earlier = self._earlier if since < self._earlier.since else Spending(0.0)
        spent, hourly = {True: earlier.simulated, False: earlier.paid}, {True: 0, False: 0}
        for segment, simulated in self._segments:
            spent[simulated] += segment.cost(since, self._now)
            hourly[simulated] += segment.hourly if segment.is_open else 0
        return Spending(since, spent[False], hourly[False], spent[True], hourly[True])

    def daily(self, days: int = SHOWN_DAYS) -> DailyCosts:
        """What each cloud cost on each of the last days.

        A machine that ran over midnight counts for both days.
        """
        first = _first_day(self._now, days)
        begins = [_local(first + timedelta(days=day)) for day in range(days)]
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


class BillReader:
    """Reads the bill again and again, and what ended long ago only once a day."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: tuple[tuple[Instant, int], Spending] | None = None

    def read(self) -> Bill:
        """Read the bill as of now. Any thread."""
        prices, now = self._context.engine.ledger.prices, self._context.engine.clock.now()
        begin = min(month_begin(now), _first_day(now, SHOWN_DAYS).timestamp())
        # An end may be written long after it happened, and adds to what ended before.
        key = begin, prices.count_before(begin)
        if self._known is None or self._known[0] != key:
            spent = Bill(prices.segments_before(begin), now).since(0.0)
            self._known = key, replace(spent, since=begin)
        return Bill(prices.segments(begin), now, self._known[1])


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


def _first_day(now: Instant, days: int) -> datetime:
    """The beginning of the first of so many days, of which today is the last."""
    return _local(_day(now) - timedelta(days=days - 1))


def _local(day: datetime) -> datetime:
    """The same wall clock in this computer's zone, whose offset changes over the year."""
    return day.replace(tzinfo=None).astimezone()
