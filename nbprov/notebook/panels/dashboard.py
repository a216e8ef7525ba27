"""The dashboard: the clusters table with what is spent, under way, blocked and in stock around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros, format_usd
from nbprov.notebook.rendering.clusters import cluster_facts, clusters_html, clusters_text
from nbprov.notebook.rendering.tables import html_heading, html_lines, html_page, safe_text

from .clusters_table import ClustersTable, ClustersView


@dataclass(frozen=True, slots=True)
class Figure:
    """An amount that grows: what it is, how much at the view's instant, and by how much an hour."""

    label: str
    cost: Micros
    hourly: Micros
    simulated: bool = False

    def words(self) -> str:
        """`today $1.20, $3.00/h now`."""
        grows = f", {format_usd(self.hourly)}/h now" if self.hourly else ""
        return f"{self.label} {format_usd(self.cost)}{grows}{' (simulated: you pay $0)' if self.simulated else ''}"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and lines below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DashboardView(ClustersView):
    """Everything at an instant."""

    figures: tuple[Figure, ...] = ()
    sections: tuple[Section, ...] = ()


class Dashboard(ClustersTable):
    """One widget to keep in sight: in JupyterLab its output can be docked beside the notebook (*Create New View for Output*)."""

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
        live, ending = (
            [c for c in facts if c.can_down],
            [c for c in facts if not c.can_down and c.ended is None],
        )
        if not live and not ending:
            return "nbprov: no cluster is live"
        of_live = [f"{len(live)} cluster{'' if len(live) == 1 else 's'} live"] if live else []
        # It is on the bill until its cloud no longer lists it.
        of_ending = (
            [
                f"{len(ending)}{'' if live else ' cluster' if len(ending) == 1 else ' clusters'} ending"
            ]
            if ending
            else []
        )
        return f"nbprov: {', '.join([*of_live, *of_ending])}"

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
