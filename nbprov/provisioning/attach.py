"""Opening the connections of a cluster that an earlier kernel made, or that was stopped and started."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NotFound
from nbprov.remote.agent.messages import GuardConfig
from nbprov.remote.ssh.keys import ClusterKeys

from .ledger import ClusterRow
from .live_cluster import LiveCluster, Node
from .run.attempt_actions import AGENT_SECONDS
from .ssh_ingress import Door
from .supervision.guard_config import of_node

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("nbprov.provisioning")


async def open_cluster(engine: Engine, row: ClusterRow) -> LiveCluster:
    """Connect to every machine of a cluster, and hand the agents the guards that the ledger knows.

    Raises
    ------
    NotFound
        If it does not run.
    CloudError
        If its machines cannot be reached.
    """
    cloud = engine.cloud(row.candidate.offer.cloud)
    await engine.lifecycle.observe(cloud)
    current = engine.cluster(row.name)
    if current.state not in (ClusterState.RUNNING, ClusterState.STARTING):
        raise NotFound(
            f"{row.name} is {current.state.value}: {current.reason}".rstrip(": "),
            hint=f"start it: %nbprov start {row.name}",
            code="cluster.not-running",
        )
    keys = ClusterKeys.load(engine.home / "keys" / row.run_id)
    machines, seconds = engine.ledger.instances.members(row.token), cloud.capabilities.ssh_deadline
    door = Door(
        cloud,
        [i.id for i in machines],
        engine.clock,
        partial(engine.ledger.instances.of_launch, row.token),
    )
    live = LiveCluster(row.run_id, row.name, row.candidate, keys, nodes_of(engine, row), door)
    known = engine.ledger.guards.get(row.run_id)
    # A start may have lost what the agent was told; the same values again do not begin a count anew.
    guards = (
        GuardConfig.from_json(known[0]) if known is not None and "poweroff" in known[0] else None
    )

    def told(node: Node) -> GuardConfig | None:
        return (
            None
            if guards is None
            else of_node(guards, engine.ledger, row.run_id, row.token, node.instance.node)
        )

    try:
        # A start may put the keys in place anew after sshd answers; at any other time a foreign key is somebody else's machine.
        await live.connect(
            seconds,
            boot_grace=seconds
            if cloud.capabilities.login and current.state is ClusterState.STARTING
            else 0.0,
        )
        await live.start_agents(told, AGENT_SECONDS)
        for note in live.notes:
            log.warning("%s: %s", row.name, note)
    except BaseException:
        # One node of several may have answered: nobody else knows of its connection.
        await asyncio.shield(live.close())
        raise
    return live


def nodes_of(engine: Engine, row: ClusterRow) -> list[Node]:
    """The nodes of a cluster in the order of their numbers; those that were lost in their places."""
    members = {i.node: i for i in engine.ledger.instances.members(row.token)}
    if len(members) >= row.candidate.count or 0 not in members:
        return [Node(i) for i in engine.ledger.instances.members(row.token)]
    lost = {i.node: i for i in engine.ledger.instances.of_launch(row.token)}
    found = []
    for number in range(row.candidate.count):
        instance = (
            members.get(number)
            or lost.get(number)
            or replace(members[0], id="", node=number, host="", port=0, private_host="")
        )
        found.append(Node(instance, missing=number not in members))
    return found
