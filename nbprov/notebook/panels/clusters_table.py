"""The clusters table, with buttons to stop, start and terminate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterView
from nbprov.notebook.rendering.clusters import (
    cluster_facts,
    clusters_heading,
    clusters_html,
    clusters_text,
    saved_clusters,
)

from .panel import NamedCallback, Panel, call
from .plain_fields import plain_fields


@dataclass(frozen=True, slots=True)
class ClustersView:
    """The clusters as they were at one moment."""

    clusters: tuple[ClusterView, ...]
    now: Instant


def _view_of(clusters: ClustersView | Sequence[ClusterView]) -> ClustersView:
    return (
        clusters
        if isinstance(clusters, ClustersView)
        else ClustersView(tuple(clusters), time.time())
    )


class ClustersTable(Panel[ClustersView]):
    """What runs, what it costs and which guard ends it, with a row of buttons for each cluster.

    Parameters
    ----------
    clusters
        Cluster views, as of now, or a `ClustersView` with its own time.
    on_stop, on_start, on_down
        Called with the cluster's name; a button without a callback is not drawn. Down needs a
        second press.
    on_tasks
        Called with a cluster's name, the kind and id of a job or cell of it, and the view that asks
        for its output; with empty texts in their place the list is wanted.
    on_look
        Called every few seconds while a person sees running clusters.
    """

    def __init__(
        self,
        clusters: ClustersView | Sequence[ClusterView],
        *,
        on_stop: NamedCallback | None = None,
        on_start: NamedCallback | None = None,
        on_down: NamedCallback | None = None,
        on_tasks: Callable[[str, str, str, str], None] | None = None,
        on_look: Callable[[], None] | None = None,
    ) -> None:
        self._on_tasks, self._on_look = on_tasks, on_look
        self._listening = {"stop": on_stop, "start": on_start, "down": on_down}
        super().__init__(_view_of(clusters))

    def update(self, view: ClustersView | Sequence[ClusterView]) -> None:
        """Show the clusters as they are now. May be called from any thread."""
        super().update(_view_of(view))

    def state(self) -> dict[str, Any]:
        facts = [cluster_facts(c, self._view.now) for c in self._view.clusters]
        listening = {**self._listening, "tasks": self._on_tasks}
        actions = [name for name, callback in listening.items() if callback is not None]
        return {
            "heading": clusters_heading(facts),
            "clusters": [plain_fields(f) for f in facts],
            "now": self._view.now,
            "actions": actions,
        }

    def html(self) -> str:
        return clusters_html(self._view.clusters, self._view.now)

    def text(self) -> str:
        return clusters_text(self._view.clusters, self._view.now)

    def saved_text(self) -> str:
        return clusters_text(self._view.clusters, self._view.now, is_saved=True)

    def saved_state(self, state: dict[str, Any]) -> dict[str, Any]:
        kept, others = saved_clusters(
            [cluster_facts(c, self._view.now) for c in self._view.clusters]
        )
        if not others:
            return state
        rows = [plain_fields(one) for one in kept]
        heading = f"{state['heading']}; {others}"
        return {**state, "heading": heading, "clusters": rows, "is_cut": True}

    def _widget_class(self) -> Callable[..., Any]:
        from .widget import ClustersTableWidget

        return ClustersTableWidget

    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "look" and self._on_look is not None:
            self._on_look()
        if kind == "tasks" and self._on_tasks is not None:
            self._on_tasks(*(str(content[key]) for key in ("name", "kind", "id", "view")))
        if kind in self._listening:
            call(self._listening[kind], str(content["name"]))
