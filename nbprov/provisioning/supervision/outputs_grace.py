"""Machines whose guard is due and that wait for their outputs: this kernel takes them, and lets the machines go on to their end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow
from nbprov.remote.agent.messages import HOLD_SECONDS, AgentStatus

from .guard_config import hold_known
from .leases import AtWork

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.remote.agent.client import AgentClient

log = logging.getLogger("nbprov.lifecycle")

HOLD_LOOK: Seconds = 15.0
"""Between two looks whether a machine with outputs has begun to end itself: a small part of what it waits."""
HOLD_SHARE = 20.0
"""Where it waits for less: looked for so often in that time."""
LATE_SECONDS: Seconds = 120.0
"""For outputs of a machine whose limit is over by the ledger, since no kernel was there in time: some minutes beyond hours, against all results."""
HOLD_GRACE: Seconds = 60.0
"""Beyond what a machine should wait at most, before a kernel ends one that goes on waiting."""

Told = Sequence[tuple["AgentClient", AgentStatus]]


class Holding(AtWork):
    """Looks for machines that wait for their outputs to be taken. On the engine thread.

    Nothing here puts an end off: how long a machine waits is its own agent's matter, and where a kernel ends it, that kernel's clock.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._looked: dict[str, Seconds] = {}
        self._held: dict[str, Seconds] = {}
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._late: dict[str, asyncio.Task[None]] = {}

    def _is_to_look(self, row: ClusterRow) -> bool:
        """Whether it is time to ask a cluster's agents whether they wait."""
        hold = hold_known(self._engine.ledger, row.run_id)
        if not hold or self._engine.take_outputs is None:
            return False
        now = self._engine.clock.elapsed()
        if now - self._looked.get(row.cluster_id, -HOLD_LOOK) < min(HOLD_LOOK, hold / HOLD_SHARE):
            return False
        self._looked[row.cluster_id] = now
        return True

    def _waits(self, row: ClusterRow, told: Told) -> bool:
        """Whether machines of a cluster wait for their outputs; then these are being taken. A wait without end counts as none."""
        left = [
            status.ending.hold_left
            for _, status in told
            if status.ending is not None and status.ending.hold_left is not None
        ]
        if told and all(status.ending is None for _, status in told):
            self._held.pop(row.cluster_id, None)
        if not left or self._engine.take_outputs is None:
            return False
        now = self._engine.clock.elapsed()
        if now - self._held.setdefault(row.cluster_id, now) > HOLD_SECONDS + HOLD_GRACE:
            return False
        task = self._taking.get(row.cluster_id)
        if task is None or task.done():
            self._taking[row.cluster_id] = self._begin(
                self._take(row, told, min(HOLD_SECONDS, *left))
            )
        return True

    async def _take(self, row: ClusterRow, told: Told, seconds: Seconds) -> None:
        if await self._taken(row, seconds):
            await asyncio.gather(*(self._released(row, agent) for agent, _ in told))
        self._looked.pop(row.cluster_id, None)

    async def _taken(self, row: ClusterRow, seconds: Seconds) -> bool:
        """Take a cluster's outputs within a bound; whether all came. Never raises, never longer, whatever goes wrong."""
        take = self._engine.take_outputs
        if take is None or not self._try_lease(row.run_id):
            return False  # another kernel takes them
        task = asyncio.create_task(take(row, seconds))
        try:
            done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
            if not done:
                log.info("%s: its outputs were not here in time", row.name)
                return False
            return not task.cancelled() and task.result()
        except Exception:
            log.exception("%s: its outputs", row.name)
            return False
        finally:
            task.cancel()

    @asynccontextmanager
    async def leased(self, row: ClusterRow) -> AsyncIterator[None]:
        """Keep other kernels from doing the same to a cluster, as far as that can be. Guards that a kernel carries out go on meanwhile."""
        self._try_lease(row.run_id)
        keeper = asyncio.create_task(self._keep_lease(row.run_id))
        self._leased[row.run_id] += 1
        try:
            yield
        finally:
            keeper.cancel()
            self._leased[row.run_id] -= 1
            if not self._busy[row.cluster_id]:
                self._release(row.run_id)

    async def _released(self, row: ClusterRow, agent: AgentClient) -> None:
        try:
            async with asyncio.timeout(HOLD_LOOK):
                await agent.release()
        except (NbprovError, CloudError, TimeoutError, OSError) as error:
            log.info("%s: it was not told that its outputs are taken: %s", row.name, error)

    def _may_end(self, row: ClusterRow) -> bool:
        """Whether a cluster that is due by the ledger alone may be ended now: once, and for a short time, its outputs are tried for first."""
        # Where the machine waited for them, their time is over.
        if (
            row.cluster_id in self._held
            or self._engine.take_outputs is None
            or not hold_known(self._engine.ledger, row.run_id)
        ):
            return True
        if row.cluster_id not in self._late:
            self._late[row.cluster_id] = self._begin(self._try_late(row))
        return self._late[row.cluster_id].done()

    async def _try_late(self, row: ClusterRow) -> None:
        await self._taken(row, LATE_SECONDS)

    def _keep_holds(self, cluster_ids: set[str]) -> None:
        """Forget what has ended."""
        for kept in (self._looked, self._held, self._taking, self._late):
            for cluster_id in kept.keys() - cluster_ids:
                del kept[cluster_id]
