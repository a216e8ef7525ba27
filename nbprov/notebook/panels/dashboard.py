"""The dashboard: the clusters table, with costs, launches, blocks and stock around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbprov.api.reports.spending import DailyCosts
from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros, format_usd
from nbprov.notebook.rendering.clusters import (
    cluster_facts,
    clusters_count,
    clusters_html,
    clusters_text,
)
from nbprov.notebook.rendering.tables import html_heading, html_lines, html_page, safe_text

from .clusters_table import ClustersTable, ClustersView
from .plain_fields import plain_fields

NO_DAYS = DailyCosts((), ())

MOST_DAYS = 7
"""So many days are written where there is no plot."""


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
class DashboardSection:
    """A heading with lines below it."""

    title: str
    lines: tuple[str, ...]


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
    sections: tuple[DashboardSection, ...] = ()
    days: DailyCosts = NO_DAYS
    day_began: Instant = 0.0


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
            "sections": [plain_fields(section) for section in view.sections],
            "days": plain_fields(view.days),
            "day_began": view.day_began,
        }

    def _heading(self) -> str:
        facts = [cluster_facts(view) for view in self._view.clusters]
        return f"nbprov: {clusters_count(facts, 'no cluster is live', live=' live')}"

    def _all_sections(self) -> list[DashboardSection]:
        """The sections of the static forms, which have no plot."""
        spent = _spent_by_day(self._view.days)
        return [*([spent] if spent.lines else []), *self._view.sections]

    def html(self) -> str:
        view = self._view
        parts = [html_heading(self._heading()), html_lines([f.words() for f in view.figures])]
        parts.append(clusters_html(view.clusters, view.now) if view.clusters else "")
        for section in self._all_sections():
            parts += [html_heading(section.title), html_lines(section.lines)]
        return html_page(*parts)

    def text(self) -> str:
        view = self._view
        lines = [self._heading(), *(figure.words() for figure in view.figures)]
        for section in self._all_sections():
            lines += ["", section.title, *(f"  {line}" for line in section.lines)]
        table = ["", clusters_text(view.clusters, view.now)] if view.clusters else []
        return safe_text("\n".join([*lines, *table]))


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
