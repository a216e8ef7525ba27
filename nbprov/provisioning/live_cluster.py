"""A connected cluster: its machines, and the open connection and agent of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.launches import Instance
from nbprov.model.offers import Candidate

from .gang_setup import set_up_gang

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient
    from nbprov.remote.agent.config import GuardConfig
    from nbprov.remote.boot.gang_config import GangConfig
    from nbprov.remote.ssh.connection import Connection
    from nbprov.remote.ssh.keys import ClusterKeys

    from .ssh_ingress import SshIngress


class NodeMissing(NbprovError):
    """A machine of the cluster was lost, and no other is in its place yet."""

    code = "node.missing"


@dataclass(slots=True)
class Node:
    """One machine with its connection and agent; node 0 is the head.

    Attributes
    ----------
    folder
        Where our files lie on it; empty until they are there.
    missing
        The machine was lost; another one is to take its place. `instance` is the lost one.
    told
        The guards that this kernel has sent to its agent; None where it has sent none.
    """

    instance: Instance
    connection: Connection | None = None
    agent: AgentClient | None = None
    folder: str = ""
    missing: bool = False
    told: GuardConfig | None = None

    async def close(self) -> None:
        """Close the connection; the machine and everything on it go on."""
        if self.agent is not None:
            await self.agent.close()
        if self.connection is not None:
            await self.connection.close()
        self.agent = self.connection = None


@dataclass(slots=True)
class LiveCluster:
    """The machines of one launch, head first.

    A lost machine keeps its place (`Node.missing`), so that a number always means the same node.

    Attributes
    ----------
    ingress
        Lets this computer in to machines that do not answer; None where nothing can.
    unheard
        Nodes whose agents do not hear of all others. While another node works, this kernel must
        keep them awake.
    notes
        What could not be done for the machines as a gang, for people.
    has_lost_guards
        A machine that had its guards was found without them, got them again, and nobody was told.
    variables
        Environment variables of setup, run and cells beside the usual ones.
    """

    run_id: str
    name: str
    candidate: Candidate
    keys: ClusterKeys
    nodes: list[Node] = field(default_factory=list)
    ingress: SshIngress | None = None
    variables: dict[str, str] = field(default_factory=dict)
    unheard: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    has_lost_guards: bool = False

    @property
    def gang(self) -> GangConfig:
        """The machines as a gang, in the order of their ranks."""
        from nbprov.remote.boot.gang_config import GangConfig, slots_of

        offer = self.candidate.offer
        slots = slots_of(offer.accelerator_count, offer.vcpus or 0)
        missing = frozenset(rank for rank, node in enumerate(self.nodes) if node.missing)
        return GangConfig(self.run_id, tuple(node.instance for node in self.nodes), slots, missing)

    @property
    def head(self) -> Node:
        """The first node."""
        return self.nodes[0]

    @property
    def present(self) -> list[Node]:
        """The nodes whose machines are there."""
        return [node for node in self.nodes if not node.missing]

    async def connect(self, seconds: Seconds, *, boot_grace: Seconds = 0.0) -> None:
        """Open an ssh connection to every node, all at once.

        Parameters
        ----------
        boot_grace
            Seconds for which a machine may show a foreign host key, or refuse ours: its start
            script may not have installed them yet.

        Raises
        ------
        CloudError
            With the cause of the first node that cannot be reached in time.
        """
        await all_of(
            *(self.connect_to(node, seconds, boot_grace=boot_grace) for node in self.present)
        )

    async def connect_to(self, node: Node, seconds: Seconds, *, boot_grace: Seconds = 0.0) -> None:
        """Open an ssh connection to one node; as `connect`."""
        from nbprov.remote.ssh.readiness import wait_for_ssh

        at = node.instance
        node.connection = await wait_for_ssh(
            at.host,
            at.port,
            self.keys,
            seconds,
            at.user or None,
            boot_grace=boot_grace,
            on_silence=self._request_access,
        )

    def _request_access(self) -> None:
        if self.ingress is not None:
            self.ingress.request_access()

    async def _reconnect(self, node: Node) -> Connection:
        """A new connection to a machine whose old one broke, at the address of its last listing."""
        from nbprov.remote.errors import SshError
        from nbprov.remote.ssh.connection import CONNECT_SECONDS, Connection
        from nbprov.remote.ssh.readiness import is_silence

        if self.ingress is not None:
            node.instance = self.ingress.current_address(node.instance)
        at = node.instance
        try:
            return await Connection.open(
                at.host, at.port, self.keys, CONNECT_SECONDS, at.user or None
            )
        except SshError as error:
            if is_silence(error):
                self._request_access()
            raise

    async def start_agents(self, guards: GuardsOf | GuardConfig | None, seconds: Seconds) -> None:
        """Start the agents, send them their guards, and make the nodes known to each other.

        Parameters
        ----------
        guards
            One configuration for all, or a function that returns that of a node. None leaves an
            agent the guards that it has.

        Raises
        ------
        CloudError
            With the cause of the first node whose agent does not answer in time.
        """
        of = guards if callable(guards) else lambda node: guards
        await all_of(*(self.start_agent(node, of(node), seconds) for node in self.present))
        await self.set_up_gang()

    async def set_up_gang(self) -> None:
        """Make the nodes known to each other, and keep what could not be done.

        Raises
        ------
        SshError
            If a connection breaks.
        """
        state = await set_up_gang(self.gang, self.nodes, self.keys)
        self.unheard, self.notes = state.unheard, state.notes

    async def start_agent(self, node: Node, guards: GuardConfig | None, seconds: Seconds) -> None:
        """Start the agent of one node and send it its guards."""
        from nbprov.remote.agent.client import AgentClient
        from nbprov.remote.agent.config import AgentConfig

        assert node.connection is not None, "agents are started over an open connection"
        config = AgentConfig(guards=guards, start_seconds=seconds)
        node.agent = await AgentClient.start(
            node.connection, config, reconnect=partial(self._reconnect, node)
        )
        node.told = guards or node.told

    async def close(self) -> None:
        """Close every connection; the machines go on."""
        if self.ingress is not None:
            self.ingress.close()
        await asyncio.gather(*(node.close() for node in self.nodes))


GuardsOf = Callable[[Node], "GuardConfig | None"]
"""The guards of a node's agent."""


def check_there(node: Node) -> None:
    """Raise `NodeMissing` for a node whose machine was lost."""
    if node.missing:
        raise NodeMissing(
            f"node {node.instance.node} was lost, and no other machine is in its place yet",
            hint="%clusters says what is done about it; name the other nodes, as with --nodes head",
        )


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


async def all_of(*coroutines: Any) -> None:
    """Run all at once; where one fails the others are cancelled, and its error is raised."""
    tasks = [asyncio.create_task(c) for c in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
