"""`%nbprov dashboard`: everything in one live panel."""

from __future__ import annotations

import argparse
from collections.abc import Hashable
from typing import Any

from nbprov.api import session
from nbprov.api.reports.dashboard_data import overview
from nbprov.model.clock import Seconds
from nbprov.notebook.magics.subjects import (
    DASHBOARD,
    Subject,
    clusters_stage,
    more_subjects,
    never,
    of_all,
)
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.dashboard import Dashboard
from nbprov.notebook.panels.dashboard_view import DashboardView, view_of
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.live_display import LiveDisplay

REFRESH: Seconds = 30.0
"""How old a dashboard may be while a person sees it. With time alone change blocks and the age of
stock reports."""

MOST_FOLLOWING = 4
"""So many dashboards of a kernel are kept up to date; older ones become static forms."""

_shown: list[tuple[DisplayFollower, LiveDisplay[Any]]] = []


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Show the dashboard and keep it up to date."""
    if frontend.current() is not frontend.Frontend.WIDGETS:
        session().services.market.read()  # no page will look
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
            here.services.market.look()
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
        is_slow=True,
    )


more_subjects[DASHBOARD] = dashboard_subject


def _stage(view: DashboardView) -> Hashable:
    # Only what the saved output should tell apart, which is not what merely grows older.
    return clusters_stage(view), tuple(s.title for s in view.sections)
