"""The machines of one cluster, whose agents tell each other when they were last active."""

from __future__ import annotations

from collections.abc import Sequence

from .framing import parsed
from .messages import PeerState, peer_states
from .transport import AgentTransport


class GangClient:
    """Tells the agent of one machine of the others."""

    def __init__(self, transport: AgentTransport) -> None:
        self._transport = transport

    async def join(self, rank: int, nodes: Sequence[tuple[str, int]], secret: bytes) -> None:
        """Tell the agent which machines make up its cluster.

        The agents then tell each other when they were last active.

        Parameters
        ----------
        rank
            Which of `nodes` this machine is.
        nodes
            Address and UDP port of every machine's agent, head first.
        secret
            Of this cluster alone; the agents authenticate each other by it.

        Raises
        ------
        AgentError
            `agent.gang`, where the machine cannot listen at its address.
        """
        config = {"rank": rank, "nodes": [list(node) for node in nodes], "secret": secret.hex()}
        await self._transport.ask("gang", config=config)

    async def peers(self) -> tuple[PeerState, ...]:
        """Return the other machines of the cluster, as far as this one has heard of them."""
        return parsed(peer_states, (await self._transport.ask("gang")).get("peers"))
