"""Asks the agents of a cluster what their guards see."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow
from nbprov.remote.agent.messages import AgentStatus

from .context import Connections
from .outages import ATTEMPT_SECONDS

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient

ASK_SECONDS: Seconds = 30.0
"""How long an agent may take to say what its guards see.

It answers from memory, so this is a matter of the connection.
"""

EVENTS_SECONDS: Seconds = 2.0
"""How long an agent's events are read: those that it has come at once."""


async def agent_statuses(
    connections: Connections, row: ClusterRow
) -> tuple[list[tuple[AgentClient, AgentStatus]], Exception | None]:
    """The answers of all agents that answer, and why another one did not; None where all did."""

    async def ask(agent: AgentClient | None) -> tuple[AgentClient, AgentStatus]:
        if agent is None:
            raise NbprovError("the connection to it is closed", code="agent.closed")
        async with asyncio.timeout(ASK_SECONDS):
            return agent, await agent.status()

    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            live = await connections.attach(row.name)
    except Exception as error:  # whatever it is, nobody knows of the machine's idle time
        return [], error
    answers = await asyncio.gather(*(ask(n.agent) for n in live.present), return_exceptions=True)
    statuses = [answer for answer in answers if not isinstance(answer, BaseException)]
    if statuses and len(statuses) == len(answers):
        return statuses, None
    silent = NbprovError("its machines did not answer", code="agent.silent")
    return statuses, next((a for a in answers if isinstance(a, Exception)), silent)


async def is_powering_off(agent: AgentClient) -> bool:
    """Whether an agent has begun to power its machine off, by its events."""
    found = False
    with contextlib.suppress(TimeoutError, CloudError, NbprovError, OSError):
        async with asyncio.timeout(EVENTS_SECONDS):
            async for event in agent.events():  # does not end by itself
                what = event.content.get("what")
                # The journal also holds the events of starts before a stop.
                found = what == "poweroff" or (found and what not in ("started", "guard"))
    return found
