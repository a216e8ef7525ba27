"""`%clusters`, and the clusters table that other magics show."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from nbprov.api import session
from nbprov.notebook.panels import ClustersTable, ClustersView
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.displays import show


def list_clusters(shell: Any, *, ended: bool) -> None:
    """Show the clusters in a live table."""
    here = session()
    shown: set[str] = set()

    def snapshot() -> Any:
        # What ends while the table is open stays in it, as ended, because a row that vanishes
        # would leave the person wondering.
        views = here.clusters(ended=ended, kept=tuple(shown))
        shown.update(v.cluster_id for v in views)
        return views

    show_clusters(snapshot(), snapshot)


def show_clusters(views: Any, snapshot: Callable[[], Any] | None = None) -> None:
    """Show a clusters table whose buttons work; it is live if `snapshot` is given."""
    actions = PanelActions()
    panel = ClustersTable(views, on_stop=actions.stop, on_start=actions.start, on_down=actions.down)
    actions.panel = panel
    display = show(panel)
    if snapshot is not None:
        engine = session().engine
        engine.thread.soon(engine.lifecycle.watch)
        DisplayFollower(display, snapshot, _stage, _never, engine)


def _stage(view: ClustersView) -> Hashable:
    return tuple((c.cluster_id, c.name, c.state, c.reason) for c in view.clusters)


def _never(view: ClustersView) -> bool:
    """A table of all clusters is never over: another cell or notebook may launch one."""
    return False
