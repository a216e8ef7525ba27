"""What a dashboard shows around its clusters, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nbprov.api.reports.dashboard_data import LISTED, Overview
from nbprov.api.reports.history import LaunchRecord
from nbprov.api.reports.spending import DailyCosts, Spending
from nbprov.model.clock import Instant, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.failures import RULES
from nbprov.model.money import Micros, format_usd
from nbprov.notebook.rendering.formatting import (
    RUN_LOOKS,
    format_cost,
    format_place,
    nodes_prefix,
)
from nbprov.notebook.rendering.market_rows import (
    MarketRow,
    ago,
    market_rows,
    price_lines,
    whole_minutes,
)

from .clusters_table import ClustersView

PLACES = "places in the last 24 h"
"""The heading of what clouds answered to attempts and to questions about stock."""

NO_DAYS = DailyCosts((), ())


@dataclass(frozen=True, slots=True)
class Figure:
    """An amount that grows: its label, its value at the view's time, and its rate per hour."""

    label: str
    cost: Micros
    hourly: Micros
    simulated: bool = False

    def words(self) -> str:
        """Return the amount as text: `today $1.20, $3.00/h now`."""
        grows = f", {format_usd(self.hourly)}/h now" if self.hourly else ""
        simulated = " (simulated: you pay $0)" if self.simulated else ""
        return f"{self.label} {format_usd(self.cost)}{grows}{simulated}"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a cluster has spent of its budget at the view's time, and its rate per hour.

    Attributes
    ----------
    key
        The cluster's, since one that is being replaced has the name of another.
    """

    key: str
    name: str
    spent: Micros
    hourly: Micros
    limit: Micros
    simulated: bool

    def words(self) -> str:
        """Return it as text: `dev $1.20 of $5.00, 24 %`."""
        spent = format_cost(self.spent, simulated=self.simulated)
        percent = 100 * self.spent // self.limit
        return f"{self.name} {spent} of {format_usd(self.limit)}, {percent} %"


@dataclass(frozen=True, slots=True)
class DashboardSection:
    """A heading with lines below it; `warnings` are lines that stand out."""

    title: str
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def all_lines(self) -> list[str]:
        """Return the lines of a static form, the warnings with a mark."""
        return [*(f"▲ {line}" for line in self.warnings), *self.lines]


@dataclass(frozen=True, slots=True)
class DashboardView(ClustersView):
    """Everything the dashboard shows, as of one moment.

    Attributes
    ----------
    day_began
        When today began in the kernel's time zone, whose days and months are counted. A reader in
        another zone is told.
    """

    figures: tuple[Figure, ...] = ()
    budgets: tuple[Budget, ...] = ()
    sections: tuple[DashboardSection, ...] = ()
    days: DailyCosts = NO_DAYS
    places: tuple[MarketRow, ...] = ()
    more_places: int = 0
    day_began: Instant = 0.0


def view_of(seen: Overview) -> DashboardView:
    """Put an overview into words."""
    sections = [
        _section("launches in progress", [_launch_words(seen, run) for run in seen.under_way]),
        _section(
            "ended today",
            [_end_words(record, seen.now) for record in seen.ended],
            more=seen.ended.total - len(seen.ended),
            by="%nbprov history",
        ),
        _section(
            "blocked",
            [
                f"{b.words()}: {RULES[b.cause].words},"
                f" for another {whole_minutes(b.expires - seen.now)}"
                for b in seen.blocks
            ],
        ),
        _section("tunnels", seen.tunnels),
        _prices(seen),
    ]
    market = seen.market
    return DashboardView(
        seen.clusters,
        seen.now,
        tuple(_figures(seen)),
        tuple(_budgets(seen)),
        tuple(s for s in sections if s is not None),
        seen.days,
        market_rows(market),
        market.total - len(market.places),
        day_began=seen.today.since,
    )


def _prices(seen: Overview) -> DashboardSection | None:
    lines, warnings = price_lines(seen.market.prices, seen.now)
    if not lines and not warnings:
        return None
    return DashboardSection("age of prices", tuple(lines), tuple(warnings))


def _figures(seen: Overview) -> list[Figure]:
    def both(label: str, spent: Spending) -> list[Figure]:
        figures = [Figure(label, spent.paid, spent.paid_hourly)]
        if spent.simulated:
            figures.append(
                Figure(
                    f"{label}, simulated", spent.simulated, spent.simulated_hourly, simulated=True
                )
            )
        return figures

    figures = [*both("today", seen.today), *both("this month", seen.month)]
    ahead = "this month, if what runs goes on"
    if seen.month.paid_hourly:
        figures.append(Figure(ahead, seen.forecast.paid, 0))
    if seen.month.simulated_hourly:
        figures.append(Figure(f"{ahead}, simulated", seen.forecast.simulated, 0, simulated=True))
    return [*figures, *both("in total", seen.ever)]


def _budgets(seen: Overview) -> list[Budget]:
    return [
        Budget(c.cluster_id, c.name, c.cost, c.hourly_now, c.guards.budget, c.simulated)
        for c in seen.clusters
        if c.guards.budget and c.ended is None
    ]


def _section(
    title: str, lines: Sequence[str], more: int = 0, by: str = ""
) -> DashboardSection | None:
    """Return a section of the first lines; None where there is nothing to say.

    Parameters
    ----------
    more
        How many there are besides that have no line.
    by
        The command that shows them all.
    """
    if not lines:
        return None
    more += max(0, len(lines) - LISTED)
    rest = [_more(more, by)] if more else []
    return DashboardSection(title, (*islice(lines, LISTED), *rest))


def _more(count: int, by: str) -> str:
    return f"and {count:,} more{f' ({by})' if by else ''}" if count > 0 else ""


def more_places(count: int) -> str:
    """Return the line below the places that are shown; empty where these are all."""
    return _more(count, "%nbprov history has the attempts, %prices the stock")


def places_section(view: DashboardView) -> DashboardSection:
    """Return the table of places as a section of a static form, shorter than the table."""
    shown = [row.words(view.now) for row in view.places[:LISTED]]
    rest = more_places(len(view.places) - len(shown) + view.more_places)
    return DashboardSection(PLACES, (*shown, *([rest] if rest else [])))


def _launch_words(seen: Overview, run: Any) -> str:
    waits = (
        f", gives up in {whole_minutes(run.wait_deadline - seen.now)}"
        if run.state is RunState.WAITING and run.wait_deadline
        else ""
    )
    message = f": {run.message}" if run.message else ""
    return f"{run.name}: {RUN_LOOKS[run.state].words}{waits}{message}"


def _end_words(record: LaunchRecord, now: Instant) -> str:
    offer = record.candidate.offer if record.candidate is not None else None
    what = (
        f", {nodes_prefix(record.candidate.count)}{offer.instance_type}"
        f" in {format_place(offer.place)}"
        if record.candidate is not None and offer is not None
        else ""
    )
    simulated = " (simulated)" if record.simulated else ""
    reason = f": {record.reason}" if record.reason else ""
    return (
        f"{record.name} {RUN_LOOKS[record.state].words} {ago(now - (record.ended or now))}, after"
        f" {short_duration(record.seconds(now))}{what}, {format_usd(record.cost)}"
        f"{simulated}{reason}"
    )
