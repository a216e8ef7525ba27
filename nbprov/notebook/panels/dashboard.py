"""The dashboard: the clusters table, with costs, launches, blocks and stock around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbprov.api.reports.spending import DailyCosts
from nbprov.model.clusters import ClusterView
from nbprov.model.money import format_usd
from nbprov.notebook.rendering.clusters import (
    cluster_facts,
    clusters_count,
    clusters_html,
    clusters_text,
)
from nbprov.notebook.rendering.formatting import format_utc
from nbprov.notebook.rendering.tables import html_heading, html_lines, html_page, safe_text

from .clusters_table import ClustersTable, ClustersView
from .dashboard_view import DashboardSection, DashboardView, more_places, places_section
from .plain_fields import plain_fields

MOST_DAYS = 7
"""So many days are written where there is no plot."""


class Dashboard(ClustersTable):
    """One widget to keep in sight.

    In JupyterLab its output can be docked beside the notebook with *Create New View for Output*.
    """

    _view: DashboardView

    def update(self, view: ClustersView | Sequence[ClusterView]) -> None:
        if not isinstance(view, DashboardView):
            raise TypeError("a dashboard shows a DashboardView")
        super().update(view)

    def state(self) -> dict[str, Any]:
        view = self._view
        return {
            **super().state(),
            "heading": self._heading(),
            "figures": [plain_fields(figure) for figure in view.figures],
            "budgets": [plain_fields(budget) for budget in view.budgets],
            "sections": [plain_fields(section) for section in view.sections],
            "days": plain_fields(view.days),
            "day_began": view.day_began,
            "places": [plain_fields(row) for row in view.places],
            "more_places": more_places(view.more_places),
        }

    def _heading(self) -> str:
        facts = [cluster_facts(c, self._view.now) for c in self._view.clusters]
        return f"nbprov: {clusters_count(facts, 'no cluster is live', live=' live')}"

    def _all_sections(self) -> list[DashboardSection]:
        """The sections of the static forms, which have no plot and no bars."""
        view = self._view
        budgets = DashboardSection("spent of budgets", tuple(b.words() for b in view.budgets))
        drawn = (budgets, _spent_by_day(view.days), places_section(view))
        return [*(one for one in drawn if one.lines), *view.sections]

    def html(self) -> str:
        view = self._view
        parts = [html_heading(self._heading()), html_lines([f.words() for f in view.figures])]
        parts.append(
            clusters_html(view.clusters, view.now) if view.clusters else html_lines([self._as_of()])
        )
        for section in self._all_sections():
            parts += [html_heading(section.title), html_lines(section.all_lines())]
        return html_page(*parts)

    def text(self) -> str:
        return self._text(is_saved=False)

    def saved_text(self) -> str:
        return self._text(is_saved=True)

    def _text(self, *, is_saved: bool) -> str:
        view = self._view
        lines = [self._heading(), *(figure.words() for figure in view.figures)]
        for section in self._all_sections():
            lines += ["", section.title, *(f"  {line}" for line in section.all_lines())]
        table = (
            clusters_text(view.clusters, view.now, is_saved=is_saved)
            if view.clusters
            else self._as_of()
        )
        return safe_text("\n".join([*lines, "", table]))

    def _as_of(self) -> str:
        """What a saved form says of its time; a table of clusters says it, too."""
        return f"as of {format_utc(self._view.now)}"


def _spent_by_day(days: DailyCosts) -> DashboardSection:
    """The last days on which something was spent, newest first, a line each."""
    lines: list[str] = []
    for at in reversed(range(len(days.days))):
        costs = [(one, one.costs[at]) for one in days.clouds if one.costs[at]]
        if costs and len(lines) < MOST_DAYS:
            each = ", ".join(
                f"{one.cloud} {format_usd(cost)}{' (simulated)' if one.simulated else ''}"
                for one, cost in costs
            )
            lines.append(f"{days.days[at]}: {each}")
    return DashboardSection("spent by day", tuple(lines))
