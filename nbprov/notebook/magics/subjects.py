"""What a panel shows, by the id of its subject in the ledger, and not by an object of a kernel.

So the panels of one thing show the same in every cell, and a later kernel can go on with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from nbprov.api import session
from nbprov.model.clusters import ClusterState
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.clusters_table import ClustersTable, ClustersView
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.displays import show
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.panels.page_link import page_link
from nbprov.notebook.panels.panel import Panel

from .run_display import follow_launch
from .shown_launch import RUN

CLUSTER, CLUSTERS, ALL_CLUSTERS, DASHBOARD = "cluster", "clusters", "clusters-all", "dashboard"
"""The kinds of subjects, beside `RUN`. A subject is a kind, a colon and an id."""

more_subjects: dict[str, Callable[[], Subject]] = {}
"""What makes the subjects of other modules, by kind."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that panels show.

    Attributes
    ----------
    panel
        Makes a panel of a view, with its buttons.
    snapshot
        Returns the view to show now. Any thread.
    stage, is_over, is_slow
        As for `DisplayFollower`.
    """

    name: str
    panel: Callable[[Any], Panel[Any]]
    snapshot: Callable[[], Any]
    stage: Callable[[Any], Hashable | None]
    is_over: Callable[[Any], bool]
    is_slow: bool = False

    def show(self) -> LiveDisplay[Any]:
        """Show it in the running cell and keep it up to date."""
        panel = self.panel(self.snapshot())
        panel.subject = self.name
        display = show(panel)
        self.follow(display)
        return display

    def follow(self, display: LiveDisplay[Any]) -> DisplayFollower:
        """Keep a display up to date."""
        engine = session().engine
        engine.thread.soon(engine.lifecycle.watch)
        return DisplayFollower(
            display, self.snapshot, self.stage, self.is_over, engine, is_slow=self.is_slow
        )


def follow_subject(name: str, anchor: str) -> LiveDisplay[Any] | None:
    """Go on with a panel of an earlier kernel; None where its subject is not known here."""
    kind, _, key = name.partition(":")
    if kind == RUN:
        return follow_launch(key, anchor)
    subject = _find(kind, key)
    if subject is None:
        return None
    panel = subject.panel(subject.snapshot())
    panel.subject, panel.anchor = name, anchor
    display = LiveDisplay(panel)
    display.take_up()
    subject.follow(display)
    return display


def _find(kind: str, key: str) -> Subject | None:
    here = session()
    if kind == CLUSTER and here.engine.ledger.clusters.by_id(key) is not None:
        return cluster_subject(key)
    if key != _ledger_mark():
        return None  # a notebook of somebody else: its clusters are not these
    if kind in (CLUSTERS, ALL_CLUSTERS):
        return clusters_subject(ended=kind == ALL_CLUSTERS)
    made = more_subjects.get(kind)
    return made() if made is not None else None


def of_all(kind: str) -> str:
    """Return the name of a subject that shows everything in this ledger."""
    return f"{kind}:{_ledger_mark()}"


def _ledger_mark() -> str:
    owner = session().engine.ledger.owner
    return hashlib.sha256(owner.encode()).hexdigest()[:12]


# ---------------------------------------------------------------- clusters


def cluster_subject(cluster_id: str) -> Subject:
    """One cluster, until it has ended."""
    here = session()

    def snapshot() -> Any:
        row = here.engine.ledger.clusters.by_id(cluster_id)
        return [here.services.views.view(row)] if row is not None else []

    return Subject(f"{CLUSTER}:{cluster_id}", clusters_panel, snapshot, clusters_stage, _all_ended)


def clusters_subject(*, ended: bool) -> Subject:
    """All clusters and launches of the ledger. It is never over: another may be launched."""
    here = session()
    shown: set[str] = set()

    def snapshot() -> Any:
        # What ends while the table is open stays in it, as ended, because a row that vanishes
        # would leave the person wondering.
        views = here.clusters(ended=ended, kept=tuple(shown))
        shown.update(v.cluster_id for v in views)
        return views

    name = of_all(ALL_CLUSTERS if ended else CLUSTERS)
    return Subject(name, clusters_panel, snapshot, clusters_stage, never)


def clusters_panel(views: Any) -> ClustersTable:
    """Return a clusters table whose buttons work."""
    actions = PanelActions()
    panel = ClustersTable(
        views,
        on_stop=actions.stop,
        on_start=actions.start,
        on_down=actions.down,
        on_tasks=actions.tasks,
        on_look=actions.look,
    )
    actions.panel = panel
    return panel


def clusters_stage(view: ClustersView) -> Hashable:
    """Return what the saved form of a clusters table tells apart."""
    return tuple((c.cluster_id, c.name, c.state, c.reason) for c in view.clusters)


def _all_ended(view: ClustersView) -> bool:
    return all(c.state is ClusterState.ENDED for c in view.clusters)


def never(view: Any) -> bool:
    """Whether a subject that is never over is over."""
    return False


page_link.follow = follow_subject
