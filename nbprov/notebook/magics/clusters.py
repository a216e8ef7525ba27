"""`%clusters`."""

from __future__ import annotations

from typing import Any

from nbprov.api import session

from .provision import show_clusters


def list_clusters(shell: Any, *, ended: bool) -> None:
    """Show the clusters, live: the table follows what happens to them."""
    here = session()
    shown = {view.cluster_id for view in here.clusters(ended=ended)}

    def snapshot() -> Any:
        # A cluster that ends while the table is open stays in it, as ended: a row that vanishes would leave the person wondering.
        views = [
            v
            for v in here.clusters(ended=True)
            if ended or v.cluster_id in shown or v.ended is None
        ]
        shown.update(v.cluster_id for v in views)
        return views

    show_clusters(snapshot(), snapshot)
