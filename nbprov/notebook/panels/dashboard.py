"""The dashboard: the clusters table, with costs, launches, blocks and stock around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    """Everything the dashboard shows, as of one moment."""

    figures: tuple[Figure, ...] = ()
    sections: tuple[DashboardSection, ...] = ()


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
            "figures": [asdict(figure) for figure in view.figures],
            "sections": [asdict(section) for section in view.sections],
        }

    def _heading(self) -> str:
        facts = [cluster_facts(view) for view in self._view.clusters]
        return f"nbprov: {clusters_count(facts, 'no cluster is live', live=' live')}"

    def html(self) -> str:
        view = self._view
        parts = [html_heading(self._heading()), html_lines([f.words() for f in view.figures])]
        parts.append(clusters_html(view.clusters, view.now) if view.clusters else "")
        for section in view.sections:
            parts += [html_heading(section.title), html_lines(section.lines)]
        return html_page(*parts)

    def text(self) -> str:
        view = self._view
        lines = [self._heading(), *(figure.words() for figure in view.figures)]
        for section in view.sections:
            lines += ["", section.title, *(f"  {line}" for line in section.lines)]
        table = ["", clusters_text(view.clusters, view.now)] if view.clusters else []
        return safe_text("\n".join([*lines, *table]))
