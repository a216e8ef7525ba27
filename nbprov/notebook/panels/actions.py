"""What the buttons of the panels do: hand off at once, and show in the panel what went wrong later."""

from __future__ import annotations

from typing import Any

from nbprov.api import Cluster, Operation, session
from nbprov.model.clusters import ClusterState, RunView
from nbprov.model.errors import NbprovError

from . import ClustersView, Panel


class Buttons:
    """The callbacks of one panel. Called on the kernel's main thread or on a subshell's, so nothing here waits.

    Attributes
    ----------
    panel
        Whose they are; set once it is made.
    """

    def __init__(self) -> None:
        self.panel: Panel[Any] | None = None

    def stop(self, name: str) -> None:
        """Stop a cluster."""
        self._follow(self._shown(name).stop())

    def start(self, name: str) -> None:
        """Start a stopped cluster."""
        self._follow(self._shown(name).start())

    def down(self, name: str) -> None:
        """End a cluster, or give up its launch."""
        self._follow(session().down(name, cluster_id=self._id_of(name)))

    def _shown(self, name: str) -> Cluster:
        return session().cluster(name, cluster_id=self._id_of(name))

    def _id_of(self, name: str) -> str:
        """Which cluster the panel shows under this name: another one may have taken the name since."""
        view = self.panel.view if self.panel is not None else None
        if isinstance(view, RunView):
            return view.cluster.cluster_id if view.cluster is not None else view.run_id
        rows = (
            [c for c in view.clusters if c.name == name] if isinstance(view, ClustersView) else []
        )
        rows.sort(key=lambda row: row.state is ClusterState.ENDED)
        return rows[0].cluster_id if rows else ""

    def _follow(self, begun: Operation) -> None:
        begun.when_failed(self._tell)

    def _tell(self, error: BaseException) -> None:
        # Through the one way to the browser, and by a message: the state of the panel has no room for what a button did.
        said = (
            f"{error.message} {error.hint}".strip()
            if isinstance(error, NbprovError)
            else f"{type(error).__name__}: {error}"
        )
        engine = session().engine

        def send() -> None:
            if self.panel is not None and self.panel.widget is not None:
                self.panel.widget.send({"type": "notice", "view": "", "text": said})

        engine.publisher.mark(("notice", id(self), said), send)
