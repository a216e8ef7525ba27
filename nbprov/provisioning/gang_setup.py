"""Makes the machines of a cluster known to each other.

This is done whenever their connections are opened, because addresses may have changed since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.launches import Instance
from nbprov.remote.errors import RemoteError

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient
    from nbprov.remote.boot.gang_config import GangConfig
    from nbprov.remote.ssh.connection import Connection
    from nbprov.remote.ssh.keys import ClusterKeys

HEARD_SECONDS: Seconds = 2.0
"""How long the agents may take to hear of each other.

A message and its answer within one zone take a millisecond.
"""
HEARD_STEP: Seconds = 0.05


class GangNode(Protocol):
    """What the set-up of a gang needs of a node; see `live_cluster.Node`."""

    instance: Instance
    connection: Connection | None
    agent: AgentClient | None
    folder: str
    missing: bool


@dataclass(slots=True)
class GangState:
    """What the set-up of a gang came to.

    Attributes
    ----------
    unheard
        Ranks of the nodes whose agents do not hear of all others.
    notes
        What could not be done, for people.
    """

    unheard: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


async def set_up_gang(gang: GangConfig, nodes: Sequence[GangNode], keys: ClusterKeys) -> GangState:
    """Put hosts files and the cluster's inner key on every machine, and connect the agents.

    What fails is only noted: the machines are there, and each can be reached from here.

    Raises
    ------
    SshError
        If a connection breaks.
    """
    from nbprov.remote.boot.gang_config import gang_secret, install_node_files, node_files

    state = GangState()
    present = [(rank, node) for rank, node in enumerate(nodes) if not node.missing]
    try:
        content = await asyncio.to_thread(node_files, gang, keys)
        agents, shared = (
            (gang.agents, await asyncio.to_thread(gang_secret, keys))
            if len(nodes) > 1
            else ([], b"")
        )
    except NbprovError as error:
        return GangState({rank for rank, _ in present}, [error.message])

    async def write_files(node: GangNode) -> None:
        assert node.connection is not None, "a gang is set up over open connections"
        if node.agent is not None and not node.connection.is_open:
            # The connection broke since it was opened, and the agent's client reconnects.
            if not node.agent.connection.is_open:
                await node.agent.status()
            node.connection = node.agent.connection
        try:
            node.folder = await install_node_files(node.connection, content)
        except RemoteError as error:
            state.notes.append(f"node {node.instance.node}: {error.message}")

    async def join(rank: int, node: GangNode) -> None:
        assert node.agent is not None, "a gang is set up once its agents run"
        try:
            await node.agent.gang.join(rank, agents, shared)
        except RemoteError as error:
            state.unheard.add(rank)
            state.notes.append(f"node {node.instance.node}: {error.message}")

    await asyncio.gather(
        *(write_files(node) for _, node in present),
        *(join(rank, node) for rank, node in present if agents),
    )
    if agents:
        joined = [rank for rank, _ in present if rank not in state.unheard]
        heard = await asyncio.gather(*(_hears_all(nodes, rank) for rank in joined))
        state.unheard |= {
            rank for rank, is_heard in zip(joined, heard, strict=True) if not is_heard
        }
    if state.unheard:
        state.notes.append(_unheard_words(nodes, state.unheard))
    return state


def _unheard_words(nodes: Sequence[GangNode], unheard: set[int]) -> str:
    names = ", ".join(str(nodes[rank].instance.node) for rank in sorted(unheard))
    return (
        f"the agents of nodes {names} do not hear of all others:"
        " while they idle, work on other nodes does not keep them"
    )


async def _hears_all(nodes: Sequence[GangNode], rank: int) -> bool:
    """Wait until an agent has heard of all others; whether it has in time."""
    agent = nodes[rank].agent
    missing = {other for other, node in enumerate(nodes) if node.missing}
    assert agent is not None, "a gang is set up once its agents run"
    end = asyncio.get_running_loop().time() + HEARD_SECONDS
    while True:
        try:
            if all(
                peer.heard is not None or peer.node in missing for peer in await agent.gang.peers()
            ):
                return True
        except RemoteError:
            return False
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(HEARD_STEP)
