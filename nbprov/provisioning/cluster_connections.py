"""The open connections of this kernel to clusters, also to those that an earlier kernel made."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NotFound
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.ssh.keys import ClusterKeys

from .async_cloud import AsyncCloud
from .cluster_lookup import find_cluster
from .ledger import ClusterRow, Ledger
from .live_cluster import LiveCluster, Node, agent_of
from .run.attempt import AGENT_SECONDS
from .ssh_ingress import SshIngress
from .supervision.guard_config import as_told, of_node

log = logging.getLogger("nbprov.provisioning")

CLOSE_SECONDS: Seconds = 0.5
"""How long connections may take to close at shutdown.

A machine that answers needs some milliseconds.
"""


class ClusterConnections:
    """Opens the connections of clusters and keeps them. Its coroutines run on the engine thread.

    Parameters
    ----------
    keys_folder
        Holds a folder of keys for each run.
    clouds
        Looks a cloud up by its name.
    observe
        Brings the ledger up to date with a listing of a cloud.

    Attributes
    ----------
    live
        The clusters that are connected, by the ids of their runs.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        keys_folder: Path,
        *,
        clouds: Callable[[str], AsyncCloud],
        observe: Callable[[AsyncCloud], Awaitable[None]],
    ) -> None:
        self.live: dict[str, LiveCluster] = {}
        self._ledger, self._clock, self._keys_folder = ledger, clock, keys_folder
        self._clouds, self._observe = clouds, observe
        self._locks: dict[str, asyncio.Lock] = {}

    async def attach(self, name: str) -> LiveCluster:
        """The live cluster with open connections; those of an earlier kernel are opened anew.

        Raises
        ------
        NotFound
            If no live cluster has this name.
        CloudError
            If its machines cannot be reached.
        """
        row = find_cluster(self._ledger, name)
        async with self._locks.setdefault(row.run_id, asyncio.Lock()):
            live = self.live.get(row.run_id)
            if live is None:
                live = await self.open(row)
                self.live[row.run_id] = live
            live.name = row.name  # another kernel may have renamed it
            return live

    async def forget(self, run_id: str) -> None:
        """Close a cluster's connections: it was stopped, ended, or its addresses changed."""
        live = self.live.pop(run_id, None)
        if live is not None:
            await live.close()

    async def close(self) -> None:
        """Close all connections. What is not closed in time ends with the process."""
        live = list(self.live.values())
        self.live.clear()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(one.close() for one in live), return_exceptions=True)
        except TimeoutError:
            log.info("connections were not closed within %g s", CLOSE_SECONDS)

    async def open(self, row: ClusterRow) -> LiveCluster:
        """Connect to every machine of a cluster, and send the agents their guards.

        Raises
        ------
        NotFound
            If it does not run.
        CloudError
            If its machines cannot be reached.
        """
        cloud = self._clouds(row.candidate.offer.cloud)
        await self._observe(cloud)
        current = find_cluster(self._ledger, row.name)
        if current.state not in (ClusterState.RUNNING, ClusterState.STARTING):
            raise NotFound(
                f"{row.name} is {current.state.value}: {current.reason}".rstrip(": "),
                hint=f"start it: %nbprov start {row.name}",
                code="cluster.not-running",
            )
        live = self._unconnected(cloud, row)
        seconds = cloud.capabilities.ssh_deadline
        # A start may install our keys anew after sshd answers. At any other time a host key that
        # is not ours belongs to somebody else's machine.
        is_starting = cloud.capabilities.login and current.state is ClusterState.STARTING
        try:
            await live.connect(seconds, boot_grace=seconds if is_starting else 0.0)
            await live.start_agents(partial(self._guards_of, row), AGENT_SECONDS)
            has_lost = await self._tell_costs(live)
            live.has_lost_guards = has_lost and current.state is ClusterState.RUNNING
            for note in live.notes:
                log.warning("%s: %s", row.name, note)
        except BaseException:
            # Some of its nodes may be connected, and nobody else knows of that.
            await asyncio.shield(live.close())
            raise
        return live

    def _unconnected(self, cloud: AsyncCloud, row: ClusterRow) -> LiveCluster:
        ledger = self._ledger
        ingress = SshIngress(
            cloud,
            [i.id for i in ledger.instances.members(row.token)],
            self._clock,
            partial(ledger.instances.of_launch, row.token),
        )
        keys = ClusterKeys.load(self._keys_folder / row.run_id)
        nodes = nodes_of(ledger, row)
        return LiveCluster(row.run_id, row.name, row.candidate, keys, nodes, ingress)

    def _guards_of(self, row: ClusterRow, node: Node) -> GuardConfig | None:
        """The guards of a node by the ledger.

        A start may have lost what its agent knew; repeated values do not restart a count.
        """
        known = self._ledger.guards.get(row.run_id)
        if known is None or "poweroff" not in known[0]:
            return None
        config = GuardConfig.from_json(known[0])
        return of_node(config, self._ledger, row.run_id, row.token, node.instance.node)

    async def _tell_costs(self, live: LiveCluster) -> bool:
        """Tell agents that had lost their guards, and with them their count, what was spent.

        Returns whether there was one.
        """
        lost = [n for n in live.present if n.told is not None and agent_of(n).found_unset]
        for node in lost:
            assert node.told is not None, "only nodes with guards are told what was spent"
            told = as_told(node.told, self._ledger, live.run_id)
            if told != node.told:
                await agent_of(node).set_guards(told)
        return bool(lost)


def nodes_of(ledger: Ledger, row: ClusterRow) -> list[Node]:
    """The nodes of a cluster in the order of their numbers, with lost ones in their places."""
    members = {i.node: i for i in ledger.instances.members(row.token)}
    if len(members) >= row.candidate.count or 0 not in members:
        return [Node(i) for i in ledger.instances.members(row.token)]
    lost = {i.node: i for i in ledger.instances.of_launch(row.token)}
    found = []
    for number in range(row.candidate.count):
        instance = (
            members.get(number)
            or lost.get(number)
            or replace(members[0], id="", node=number, host="", port=0, private_host="")
        )
        found.append(Node(instance, missing=number not in members))
    return found
