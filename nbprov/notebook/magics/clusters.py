"""`%clusters`, and the panel of a cluster that a cell found running."""

from __future__ import annotations

from typing import Any

from .subjects import cluster_subject, clusters_subject


def list_clusters(shell: Any, *, ended: bool) -> None:
    """Show the clusters in a live table."""
    clusters_subject(ended=ended).show()


def show_cluster(cluster_id: str) -> None:
    """Show one cluster in a live table."""
    cluster_subject(cluster_id).show()
