"""Notices about a running cell.

They tell that its connection is down, that it waits behind another cell, that a guard will soon
act, or that its kernel lost the variables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.output_stream import OutputStream

from .output import OutputBudget, OutputCollation

LOOK_SECONDS: Seconds = 1.0
"""Interval of checks on a silent cell, and how long a connection may be down before a notice."""

GUARDS_SECONDS: Seconds = 60.0
"""Interval of checks on the guards of a machine where a cell runs."""

NEAR_SECONDS: Seconds = 600.0
"""A guard that is due within this is announced, so that there is time to save."""

STATUS_SECONDS: Seconds = 20.0
"""How long an agent may take to describe its guards, which it answers from memory."""

_born: dict[tuple[str, int], str] = {}
"""The kernel that this process's last cell met on each node; a new one has no variables."""


class CellWatch:
    """Watches one cell on one node."""

    def __init__(
        self,
        live: LiveCluster,
        node: Node,
        agent: AgentClient,
        id: str,
        gathered: OutputCollation,
        budget: OutputBudget,
    ) -> None:
        self._live, self._node, self._agent, self._id = live, node, agent, id
        self._gathered, self._budget = gathered, budget
        self._is_started = False
        self._warned: set[str] = set()

    def began(self, following: OutputStream) -> None:
        """Note that the agent accepted the cell, and tell if its kernel is a new one."""
        self._is_started = True
        if following.born is None:
            return
        key = (self._live.run_id, self._node.instance.node)
        before, _born[key] = _born.get(key, ""), following.born
        if before and before != following.born and not following.kernel_ended:
            self._budget.note(
                f"the kernel on {self._where} was started anew since the last cell;"
                " its variables are gone"
            )

    @property
    def _where(self) -> str:
        return (
            self._live.name
            if len(self._live.nodes) == 1
            else f"node {self._node.instance.node} of {self._live.name}"
        )

    async def look(self) -> None:
        """Check repeatedly until cancelled."""
        is_down = is_waiting = False
        looks, each = 0, max(1, round(GUARDS_SECONDS / LOOK_SECONDS))
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if looks % each == 0 and self._agent.is_linked and self._cuts_off:
                await self._tell_of_guards()
            looks += 1
            if self._agent.is_linked == is_down:
                is_down = not is_down
                goes_on = (
                    "the cell goes on there, and nothing of its output is lost"
                    if self._is_started
                    else "the cell begins once it is back"
                )
                self._budget.note(
                    f"the line to {self._where} is down; {goes_on}"
                    if is_down
                    else f"the line to {self._where} is back"
                )
            if self._is_started and not (is_down or is_waiting or self._gathered.has_begun):
                is_waiting = await self._tell_of_queue()

    @property
    def _cuts_off(self) -> frozenset[str]:
        """Return the guards that end the machine even while a cell runs there."""
        told = self._node.told
        if told is None:
            return frozenset()
        limits = {"lifetime": told.max_lifetime_seconds, "budget": told.limit}
        idle = (
            told.idle_seconds if told.wait_for == "none" else None
        )  # otherwise a running cell holds it off
        return frozenset(
            name for name, limit in (*limits.items(), ("idle", idle)) if limit is not None
        )

    async def _tell_of_guards(self) -> None:
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                guards = (await self._agent.status()).guards
        except (CloudError, NbprovError, TimeoutError):
            return  # it is asked again later
        for guard in guards:
            if (
                guard.guard in self._cuts_off - self._warned
                and guard.left is not None
                and guard.left <= NEAR_SECONDS
            ):
                self._warned.add(guard.guard)
                verb, left = (
                    "stopped" if guard.mode == "stop" else "ended",
                    short_duration(max(0.0, guard.left)),
                )
                self._budget.note(
                    f"{self._where} is to be {verb} in {left} ({guard.guard}),"
                    " and a cell that still runs then is cut off"
                )

    async def _tell_of_queue(self) -> bool:
        try:
            if (await self._agent.task(self._id)).state != "queued":
                return False
        except NbprovError:
            return False  # the cell itself reports what is wrong
        self._budget.note(
            f"{self._where} is busy with another cell; this one waits for it"
            f" (%nbprov cells {self._live.name} lists them)"
        )
        return True


@asynccontextmanager
async def watching(
    live: LiveCluster,
    node: Node,
    agent: AgentClient,
    id: str,
    gathered: OutputCollation,
    budget: OutputBudget,
) -> AsyncIterator[CellWatch]:
    """Watch a cell for as long as the block lasts."""
    watch = CellWatch(live, node, agent, id, gathered, budget)
    task = asyncio.create_task(watch.look())
    try:
        yield watch
    finally:
        task.cancel()
