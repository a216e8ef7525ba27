"""What the tests of outputs share: the state of clusters, and the files of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tunnel_world import WAIT_SECONDS, TunnelWorld

from nbprov import api
from nbprov.model.clusters import ClusterState
from nbprov.model.events import EventKind

Up = Callable[..., api.Cluster]


def listed(folder: Path) -> list[str]:
    """List the files below a folder."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink()
    )


def state(world: TunnelWorld, cluster: api.Cluster) -> ClusterState:
    """Return the cluster's state in the ledger."""
    row = world.session.engine.ledger.clusters.of_run(cluster.cluster_id)
    assert row is not None
    return row.state


def said(cluster: api.Cluster, world: TunnelWorld) -> list[str]:
    """Return what the history says about the cluster's outputs."""
    return [
        event.text
        for event in world.session.engine.ledger.events.of_run(cluster.cluster_id)
        if event.kind is EventKind.OUTPUTS_PULL_ENDED
    ]


def make(cluster: api.Cluster, script: str) -> None:
    """Run a script on the head."""
    cluster.bash(script, timeout=WAIT_SECONDS)
