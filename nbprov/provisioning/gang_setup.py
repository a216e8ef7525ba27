"""Making the machines of a cluster known to each other, whenever their connections are opened: addresses may have changed since."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.remote.errors import RemoteError

if TYPE_CHECKING:
    from .live_cluster import LiveCluster, Node

HEARD_SECONDS: Seconds = 2.0
"""How long the agents may take to hear of each other: a word and an answer in one zone take a millisecond."""
HEARD_STEP: Seconds = 0.05


async def tie(live: LiveCluster) -> None:
    """Put hosts files and the cluster's inner key on every machine, and tell the agents of each other.

    What does not work is noted in `live.notes`, and costs the cluster nothing else: its machines are there, and each can be reached.

    Raises
    ------
    SshError
        A connection broke.
    """
    from nbprov.model.errors import NbprovError
    from nbprov.remote.boot.gang_config import material, put_in_place, secret

    gang = live.gang
    live.notes, live.unheard = [], set()
    try:
        told = await asyncio.to_thread(material, gang, live.keys)
        agents, shared = (
            (gang.agents, await asyncio.to_thread(secret, live.keys))
            if len(live.nodes) > 1
            else ([], b"")
        )
    except NbprovError as error:
        live.notes.append(error.message)
        live.unheard = {rank for rank, node in enumerate(live.nodes) if not node.missing}
        return

    async def files(node: Node) -> None:
        assert node.connection is not None, "machines are tied over open connections"
        if node.agent is not None and not node.connection.is_open:
            # The line broke since it was opened, and the agent's client has made another one, or makes it now.
            if not node.agent.connection.is_open:
                await node.agent.status()
            node.connection = node.agent.connection
        try:
            node.folder = await put_in_place(node.connection, told)
        except RemoteError as error:
            live.notes.append(f"node {node.instance.node}: {error.message}")

    async def join(rank: int, node: Node) -> None:
        assert node.agent is not None, "machines are tied once their agents run"
        try:
            await node.agent.join_gang(rank, agents, shared)
        except RemoteError as error:
            live.unheard.add(rank)
            live.notes.append(f"node {node.instance.node}: {error.message}")

    there = [(rank, node) for rank, node in enumerate(live.nodes) if not node.missing]
    await asyncio.gather(
        *(files(node) for _, node in there), *(join(rank, node) for rank, node in there if agents)
    )
    if agents:
        await asyncio.gather(*(_hear(live, rank) for rank, _ in there if rank not in live.unheard))
    if live.unheard:
        names = ", ".join(str(live.nodes[rank].instance.node) for rank in sorted(live.unheard))
        live.notes.append(
            f"the agents of nodes {names} do not hear of all others: while they idle, work on other nodes does not keep them"
        )


async def _hear(live: LiveCluster, rank: int) -> None:
    """Wait until a machine has heard of all others; note where it does not in time."""
    agent, missing = (
        live.nodes[rank].agent,
        {rank for rank, node in enumerate(live.nodes) if node.missing},
    )
    assert agent is not None, "machines are tied once their agents run"
    end = asyncio.get_running_loop().time() + HEARD_SECONDS
    while True:
        try:
            if all(peer.heard is not None or peer.node in missing for peer in await agent.gang()):
                return
        except RemoteError:
            break
        if asyncio.get_running_loop().time() > end:
            break
        await asyncio.sleep(HEARD_STEP)
    live.unheard.add(rank)
