"""Keep nodes from being ended as idle while they wait for other work.

Work on another node, or a copy over our own connection, is no activity to a node's guards.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from nbprov.model.clock import Seconds
from nbprov.provisioning.live_cluster import LiveCluster, Node

TOUCH = "touch"
"""The name under which an agent records the activity; it is not a user's cell."""

TOUCH_EVERY: Seconds = 60.0
"""How often a waiting node is told that there is work, well before its idle guard acts."""

_late: set[asyncio.Task[None]] = set()
"""Tasks in progress; the event loop alone does not keep a reference to them."""


@asynccontextmanager
async def awake(
    nodes: Collection[Node], most: Seconds = math.inf, first: Seconds = 0.0
) -> AsyncIterator[None]:
    """Tell nodes repeatedly that there is work, for as long as the block lasts.

    Parameters
    ----------
    nodes
        Read again each time.
    most
        The nodes are told for no longer than this, whatever the block does.
    first
        Seconds before they are told first. If the block ends earlier, they are told once after
        its end, and nobody waits for that.
    """
    is_told = False

    async def go_on() -> None:
        nonlocal is_told
        await asyncio.sleep(first)
        loop = asyncio.get_running_loop()
        end = loop.time() + most
        while loop.time() < end:
            is_told = True
            await _touch(nodes)
            await asyncio.sleep(TOUCH_EVERY)

    task = asyncio.create_task(go_on()) if nodes else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            if first and not is_told:
                late = asyncio.create_task(_touch(nodes))
                _late.add(late)
                late.add_done_callback(_late.discard)


def others_awake(live: LiveCluster, chosen: Collection[Node]) -> AbstractAsyncContextManager[None]:
    """Keep the nodes that take no part in some work from being ended as idle meanwhile."""
    # Agents that hear of each other do this by themselves, even without this kernel.
    return awake(
        [
            node
            for rank, node in enumerate(live.nodes)
            if rank in live.unheard and node not in chosen
        ]
    )


async def _touch(nodes: Collection[Node]) -> None:
    # A node that cannot be reached now is told the next time.
    agents = [node.agent for node in nodes if node.agent is not None and not node.missing]
    await asyncio.gather(
        *(agent.shell(":", name=TOUCH, silent=True) for agent in agents), return_exceptions=True
    )
