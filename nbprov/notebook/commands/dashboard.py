"""`%nbprov dashboard`: everything in one live panel."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any

from nbprov.api import session
from nbprov.api.reports.dashboard_data import Overview, overview
from nbprov.api.reports.spending import Spending
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.failures import RULES
from nbprov.model.stock import Stock
from nbprov.notebook.magics.subjects import (
    DASHBOARD,
    Subject,
    clusters_stage,
    more_subjects,
    never,
    of_all,
)
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.dashboard import Dashboard, DashboardSection, DashboardView, Figure
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.rendering.formatting import RUN_LOOKS, format_stock

LISTED = 6
"""The most lines of a section, because a dashboard is looked at and not read."""
REFRESH: Seconds = 30.0
"""How old a dashboard may be while a person sees it. With time alone change blocks and the age of
stock reports."""

MOST_FOLLOWING = 4
"""So many dashboards of a kernel are kept up to date; older ones become static forms."""

_shown: list[tuple[DisplayFollower, LiveDisplay[Any]]] = []


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Show the dashboard and keep it up to date."""
    dashboard_subject().show()


class DashboardSubject(Subject):
    """Everything in this ledger. Only the latest displays are kept up to date."""

    __slots__ = ()

    def follow(self, display: LiveDisplay[Any]) -> DisplayFollower:
        """Keep a display up to date, and close the oldest one where there are too many.

        Each of them reads the whole ledger at a change, and a cell that is run again leaves the
        display of its earlier output behind.
        """
        follower = super().follow(display)
        _shown.append((follower, display))
        while len(_shown) > MOST_FOLLOWING:
            oldest, closed = _shown.pop(0)
            oldest.stop()
            closed.close()
        return follower


def dashboard_subject() -> Subject:
    """Return everything in this ledger as one subject. It is never over."""
    here = session()

    def panel(view: DashboardView) -> Dashboard:
        buttons = PanelActions()

        def look() -> None:
            buttons.look()
            if here.engine.clock.now() - made.view.now > REFRESH:
                here.engine.thread.soon(here.engine.changed)

        made = Dashboard(
            view,
            on_stop=buttons.stop,
            on_start=buttons.start,
            on_down=buttons.down,
            on_tasks=buttons.tasks,
            on_look=look,
        )
        buttons.panel = made
        return made

    return DashboardSubject(
        of_all(DASHBOARD),
        panel,
        lambda: view_of(overview(here.context, here.services)),
        _stage,
        never,
    )


more_subjects[DASHBOARD] = dashboard_subject


def _stage(view: DashboardView) -> Hashable:
    # Only what the saved output should tell apart, which is not what merely grows older.
    return clusters_stage(view), tuple(s.title for s in view.sections)


def view_of(seen: Overview) -> DashboardView:
    """Put an overview into words."""
    sections = [
        _section("launches in progress", [_launch_words(seen, run) for run in seen.under_way]),
        _section(
            "blocked",
            [
                f"{b.words()}: {RULES[b.cause].words}, for another {_minutes(b.expires - seen.now)}"
                for b in seen.blocks
            ],
        ),
        _section(
            "stock that clouds reported within the last half hour",
            [_stock_line(stock, seen.now) for stock in seen.stock],
        ),
        _section("tunnels", seen.tunnels),
    ]
    return DashboardView(
        seen.clusters,
        seen.now,
        tuple(_figures(seen)),
        tuple(s for s in sections if s is not None),
        seen.days,
        seen.today.since,
    )


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


def _section(title: str, lines: Sequence[str]) -> DashboardSection | None:
    if not lines:
        return None
    more = [f"and {len(lines) - LISTED:,} more"] if len(lines) > LISTED else []
    return DashboardSection(title, (*islice(lines, LISTED), *more))


def _launch_words(seen: Overview, run: Any) -> str:
    waits = (
        f", gives up in {_minutes(run.wait_deadline - seen.now)}"
        if run.state is RunState.WAITING and run.wait_deadline
        else ""
    )
    message = f": {run.message}" if run.message else ""
    return f"{run.name}: {RUN_LOOKS[run.state].words}{waits}{message}"


def _minutes(seconds: Seconds) -> str:
    # Redrawn only every half minute, so seconds would be wrong at once.
    return short_duration(seconds // 60 * 60) if seconds >= 60 else "less than a minute"


def _stock_line(stock: Stock, now: float) -> str:
    pool = stock.pool
    where = "/".join(part for part in (pool.cloud, pool.zone or pool.region) if part)
    what = f"{pool.instance_type or 'everything'}{' spot' if pool.market == 'spot' else ''}"
    return f"{what} in {where}: {format_stock(stock, now)}"
