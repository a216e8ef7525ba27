"""The agents of a cluster that this kernel is connected to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbprov.provisioning.live_cluster import Node, check_there

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient


def agent_of(node: Node) -> AgentClient:
    """The agent of a node of an attached cluster.

    Raises
    ------
    NodeMissing
        If its machine was lost.
    """
    check_there(node)
    assert node.agent is not None, "attach() opens every agent"
    return node.agent
