"""The SKYPILOT_* and NBPROV_* variables of a node."""

from __future__ import annotations

from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.boot.gang_config import launcher_files
from nbprov.remote.boot.node_environment import environment_variables


def node_environment(live: LiveCluster, node: Node, *, setup: bool = False) -> dict[str, str]:
    """Return the variables that setup, run and cells find on a node."""
    offer, gang = live.candidate.offer, live.gang
    return live.variables | environment_variables(
        # The rank counts only nodes that are there: a lost machine leaves no gap.
        node_rank=next(rank for rank, other in enumerate(live.nodes) if other is node),
        node_ips=gang.addresses,
        num_gpus=offer.accelerator_count,
        task_id=f"nbprov-{live.run_id}",
        cluster_info={
            "cluster_name": live.name,
            "cloud": offer.cloud,
            "region": offer.region,
            "zone": offer.zone,
        },
        setup=setup,
        port=gang.port,
        files=launcher_files(node.folder, len(live.nodes)) if node.folder else None,
    )
