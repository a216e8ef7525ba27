"""The SKYPILOT_* and NBPROV_* variables of a node."""

from __future__ import annotations

from nbprov.provisioning.live import LiveCluster, Node
from nbprov.remote.environment import env_for


def node_environment(live: LiveCluster, node: Node, *, setup: bool = False) -> dict[str, str]:
    """The variables that setup, run and cells find on a node."""
    offer = live.candidate.offer
    return live.variables | env_for(
        node_rank=node.instance.node,
        node_ips=[n.instance.private_host or n.instance.host for n in live.nodes],
        num_gpus=offer.accelerator_count,
        task_id=f"nbprov-{live.run_id}",
        cluster_info={"cluster_name": live.name, "cloud": offer.cloud, "region": offer.region, "zone": offer.zone},
        setup=setup,
    )
