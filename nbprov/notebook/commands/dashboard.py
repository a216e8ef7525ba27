"""`%nbprov dashboard`: everything in one live panel."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any

from nbprov.api import session
from nbprov.api.dashboard_data import Overview, Spending, overview
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.failures import RULES
from nbprov.model.stock import Stock
from nbprov.notebook.panels.actions import Buttons
from nbprov.notebook.panels.dashboard import Dashboard, DashboardView, Figure, Section
from nbprov.notebook.panels.displays import Follower, show
from nbprov.notebook.rendering.formatting import RUN_LOOKS, stock_words
from nbprov.provisioning.engine import Engine

LISTED = 6
"""Lines of a section: a dashboard is looked at, not read."""
REFRESH: Seconds = 30.0
"""What passes by itself (a block, the age of a word of stock) is drawn anew this often."""

_followers: list[Follower] = []


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Show the dashboard; it follows what happens, in other notebooks too, until another one is shown."""
    buttons, here = Buttons(), session()
    panel = Dashboard(
        view_of(overview(here.context, here.services)),
        on_stop=buttons.stop,
        on_start=buttons.start,
        on_down=buttons.down,
    )
    buttons.panel = panel
    display = show(panel)
    engine = here.engine
    engine.thread.soon(engine.lifecycle.watch)
    while _followers:
        _followers.pop().stop()  # one is kept true: those of cells that were run before stay as they are
    follower = Follower(
        display,
        lambda: view_of(overview(here.context, here.services)),
        _stage,
        lambda view: False,
        engine,
    )
    _followers.append(follower)
    engine.thread.soon(_again, engine, follower)


def _again(engine: Engine, follower: Follower) -> None:
    if follower.is_open:
        follower.changed()
        engine.thread.loop.call_later(REFRESH, _again, engine, follower)


def _stage(view: DashboardView) -> Hashable:
    # What the saved output should tell apart: not what merely grows older.
    return tuple((c.cluster_id, c.name, c.state, c.reason) for c in view.clusters), tuple(
        s.title for s in view.sections
    )


def view_of(seen: Overview) -> DashboardView:
    """An overview in words."""
    sections = [
        _section("launches under way", [_launch_words(seen, run) for run in seen.under_way]),
        _section(
            "blocked",
            [
                f"{b.words()}: {RULES[b.cause].words}, for another {_minutes(b.expires - seen.now)}"
                for b in seen.blocks
            ],
        ),
        _section(
            "stock, as clouds said within the last half hour",
            [_stock_line(stock, seen.now) for stock in seen.stock],
        ),
        _section("tunnels", seen.tunnels),
    ]
    return DashboardView(
        seen.clusters, seen.now, tuple(_figures(seen)), tuple(s for s in sections if s is not None)
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

    return [*both("today", seen.today), *both("in all", seen.ever)]


def _section(title: str, lines: Sequence[str]) -> Section | None:
    if not lines:
        return None
    more = [f"and {len(lines) - LISTED:,} more"] if len(lines) > LISTED else []
    return Section(title, (*islice(lines, LISTED), *more))


def _launch_words(seen: Overview, run: Any) -> str:
    waits = (
        f", gives up in {_minutes(run.wait_deadline - seen.now)}"
        if run.state is RunState.WAITING and run.wait_deadline
        else ""
    )
    return f"{run.name}: {RUN_LOOKS[run.state].words}{waits}{f': {run.message}' if run.message else ''}"


def _minutes(seconds: Seconds) -> str:
    # Drawn anew every half minute: seconds would be wrong at once.
    return short_duration(seconds // 60 * 60) if seconds >= 60 else "less than a minute"


def _stock_line(stock: Stock, now: float) -> str:
    pool = stock.pool
    where = "/".join(part for part in (pool.cloud, pool.zone or pool.region) if part)
    what = f"{pool.instance_type or 'everything'}{' spot' if pool.market == 'spot' else ''}"
    return f"{what} in {where}: {stock_words(stock, now)}"
