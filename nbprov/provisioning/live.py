"""A cluster that can be worked with: its machines, and the open connection and agent of each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.model.launches import Instance
from nbprov.model.offers import Candidate

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient
    from nbprov.remote.agent.values import GuardConfig
    from nbprov.remote.connection import Connection
    from nbprov.remote.keys import ClusterKeys


@dataclass(slots=True)
class Node:
    """One machine with its connection and agent; node 0 is the head."""

    instance: Instance
    connection: Connection | None = None
    agent: AgentClient | None = None

    async def close(self) -> None:
        """Close the connection; the machine and everything on it go on."""
        if self.agent is not None:
            await self.agent.close()
        if self.connection is not None:
            await self.connection.close()
        self.agent = self.connection = None


@dataclass(slots=True)
class LiveCluster:
    """The machines of one launch, head first."""

    run_id: str
    name: str
    candidate: Candidate
    keys: ClusterKeys
    nodes: list[Node] = field(default_factory=list)

    @property
    def head(self) -> Node:
        """The first node."""
        return self.nodes[0]

    async def connect(self, seconds: Seconds) -> None:
        """Open an ssh connection to every node, all at once.

        Raises
        ------
        CloudError
            With the cause of the first node that cannot be reached in time.
        """
        from nbprov.remote.connection import wait_for_ssh

        async def one(node: Node) -> None:
            node.connection = await wait_for_ssh(node.instance.host, node.instance.port, self.keys, seconds)

        await _all(*(one(node) for node in self.nodes))

    async def start_agents(self, guards: GuardConfig | None, seconds: Seconds) -> None:
        """Start the agent of every node and hand it its guards; None leaves those it has.

        Raises
        ------
        CloudError
            With the cause of the first node whose agent does not answer in time.
        """
        from nbprov.remote.agent.client import AgentClient
        from nbprov.remote.agent.values import AgentConfig

        async def one(node: Node) -> None:
            assert node.connection is not None, "agents are started over an open connection"
            node.agent = await AgentClient.start(node.connection, AgentConfig(guards=guards, start_seconds=seconds))

        await _all(*(one(node) for node in self.nodes))

    async def close(self) -> None:
        """Close every connection; the machines go on."""
        await asyncio.gather(*(node.close() for node in self.nodes))


async def _all(*coroutines: Any) -> None:
    tasks = [asyncio.create_task(c) for c in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
