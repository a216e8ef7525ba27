"""What the machines of running clusters do now, asked while somebody looks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterState, MachineLoad
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster, Node

ANSWER_SECONDS: Seconds = 5.0
"""How long an agent may take: a person looks, and asks again soon."""
LEAST_PAUSE: Seconds = 4.0
"""The least time between two questions, however many tables are looked at."""
CONNECT_PAUSE: Seconds = 60.0
"""The least time between two connections to a cluster that could not be reached."""
KEPT: Seconds = 30.0
"""A load that is older than this says nothing about now."""

log = logging.getLogger("nbprov.api")


class LoadService:
    """Asks the agents of running clusters what their machines do. Asking keeps none awake."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked: dict[str, Instant] = {}
        self._loads: dict[str, tuple[Instant, tuple[MachineLoad, ...]]] = {}

    def of(self, run_id: str) -> tuple[MachineLoad, ...]:
        """The load of each machine of a cluster; empty where nobody looked just now. Any thread."""
        at, loads = self._loads.get(run_id, (0.0, ()))
        return loads if self._context.engine.clock.elapsed() - at < KEPT else ()

    def look(self) -> None:
        """Ask the agents of all running clusters, unless they were asked just now. Any thread.

        A cluster of another kernel is connected to, as its cells would do.
        """
        self._context.engine.thread.call(self._look())

    async def _look(self) -> None:
        engine = self._context.engine
        now = engine.clock.elapsed()
        running = {
            row.run_id: row
            for row in engine.ledger.clusters.latest(live_only=True)
            if row.state is ClusterState.RUNNING
        }
        self._loads = {run_id: load for run_id, load in self._loads.items() if run_id in running}
        due = [row for row in running.values() if now >= self._asked.get(row.run_id, 0.0)]
        for row in due:
            self._asked[row.run_id] = now + LEAST_PAUSE
        if due:
            await asyncio.gather(*(self._ask(row) for row in due))
            engine.changed()

    async def _ask(self, row: ClusterRow) -> None:
        engine = self._context.engine
        live = engine.live.get(row.run_id)
        if live is None:
            # A first connection may take long, and a machine may be out of reach for hours.
            self._asked[row.run_id] = engine.clock.elapsed() + CONNECT_PAUSE
            try:
                live = await engine.attach(row.name)
            except (NbprovError, CloudError, OSError) as error:
                log.info("the load of %s: %s", row.name, error)
                return
            self._asked[row.run_id] = 0.0
        loads = await self._loads_of(live)
        if loads:
            self._loads[row.run_id] = (engine.clock.elapsed(), loads)

    async def _loads_of(self, live: LiveCluster) -> tuple[MachineLoad, ...]:
        found = await asyncio.gather(*(self._load(node) for node in live.present))
        return tuple(load for load in found if load is not None)

    async def _load(self, node: Node) -> MachineLoad | None:
        if node.agent is None or not node.agent.is_linked:
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await node.agent.load(self._context.engine.clock.now())
        except (NbprovError, TimeoutError) as error:
            log.info("the load of a machine: %s", error)
            return None
