"""Keeping nodes from being ended as idle meanwhile: work on another node, or a copy over our own connection, does not look like work to their guards."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from nbprov.model.clock import Seconds
from nbprov.provisioning.live_cluster import LiveCluster, Node

TOUCH = "touch"
"""The name of what tells an agent; it is no cell of anybody."""

TOUCH_EVERY: Seconds = 60.0
"""A node that looks on while another one works, and does not hear of it by itself, is told so this often: its idle guard must not end it."""

_late: set[asyncio.Task[None]] = set()
"""What goes on by itself; the loop alone would let go of it."""


@asynccontextmanager
async def awake(
    nodes: Collection[Node], most: Seconds = math.inf, first: Seconds = 0.0
) -> AsyncIterator[None]:
    """Tell nodes now and again that there is work, for as long as the block lasts; which they are is looked at each time.

    Parameters
    ----------
    most
        For no longer than this, whatever the block does.
    first
        They hear of it so long after the beginning. Where the block is over by then they hear of it after its end, and nobody waits for that.
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
    """Keep the nodes that have no part in something from being ended as idle meanwhile."""
    # Agents that hear of each other need nobody for this, nor does it end with this kernel.
    return awake(
        [
            node
            for rank, node in enumerate(live.nodes)
            if rank in live.unheard and node not in chosen
        ]
    )


async def _touch(nodes: Collection[Node]) -> None:
    # One that cannot be reached now is told the next time.
    agents = [node.agent for node in nodes if node.agent is not None and not node.missing]
    await asyncio.gather(
        *(agent.shell(":", name=TOUCH, silent=True) for agent in agents), return_exceptions=True
    )
