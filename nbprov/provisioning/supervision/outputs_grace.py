"""Pulls the outputs of a machine that has reached a limit and waits for that, then lets it end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow
from nbprov.remote.agent.config import HOLD_SECONDS
from nbprov.remote.agent.messages import AgentStatus

from .cluster_work import ClusterWork
from .context import SupervisionContext
from .guard_config import hold_known

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient

log = logging.getLogger("nbprov.lifecycle")

HOLD_LOOK: Seconds = 15.0
"""Between two looks whether a machine with outputs has begun to end itself.

This is a small part of the time that it waits.
"""

HOLD_SHARE = 20.0
"""A machine that waits for less is looked at this often in its time."""

LATE_SECONDS: Seconds = 120.0
"""How long outputs of a machine are pulled whose limit is over by the ledger.

No kernel was there in time. Some minutes beyond hours may save all results.
"""

HOLD_GRACE: Seconds = 60.0
"""A machine that waits for longer than it should by this much is ended by a kernel."""

Statuses = Sequence[tuple["AgentClient", AgentStatus]]


class OutputsGrace:
    """Looks for machines of one cluster that wait for their outputs. On the engine thread.

    Nothing here delays an end: how long a machine waits is decided by its own agent, and where a
    kernel ends it, by that kernel's clock.
    """

    def __init__(self, context: SupervisionContext, work: ClusterWork) -> None:
        self._context, self._work = context, work
        self._looked: Seconds | None = None
        self._waiting_since: Seconds | None = None
        self._pull: asyncio.Task[None] | None = None
        self._late_pull: asyncio.Task[None] | None = None

    def is_to_look(self, row: ClusterRow) -> bool:
        """Whether it is time to ask the agents whether they wait."""
        hold = hold_known(self._context.ledger, row.run_id)
        if not hold or self._context.hooks.take_outputs is None:
            return False
        now, pause = self._context.clock.elapsed(), min(HOLD_LOOK, hold / HOLD_SHARE)
        if self._looked is not None and now - self._looked < pause:
            return False
        self._looked = now
        return True

    def is_waiting(self, row: ClusterRow, statuses: Statuses) -> bool:
        """Whether machines wait for their outputs; then these are being pulled.

        A wait that lasts longer than it may counts as none.
        """
        endings = [status.ending for _, status in statuses]
        left = [e.hold_left for e in endings if e is not None and e.hold_left is not None]
        if endings and all(ending is None for ending in endings):
            self._waiting_since = None
        if not left or self._context.hooks.take_outputs is None:
            return False
        now = self._context.clock.elapsed()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since > HOLD_SECONDS + HOLD_GRACE:
            return False
        if self._pull is None or self._pull.done():
            seconds = min(HOLD_SECONDS, *left)
            self._pull = self._work.begin(self._pull_and_release(row, statuses, seconds))
        return True

    async def _pull_and_release(
        self, row: ClusterRow, statuses: Statuses, seconds: Seconds
    ) -> None:
        if await self.pull(row, seconds):
            await asyncio.gather(*(_release(row, agent) for agent, _ in statuses))
        self._looked = None

    async def pull(self, row: ClusterRow, seconds: Seconds) -> bool:
        """Pull the outputs within a number of seconds; whether all came. Never raises."""
        take = self._context.hooks.take_outputs
        if take is None or not self._work.try_lease():
            return False  # another kernel pulls them
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

    def may_end(self, row: ClusterRow) -> bool:
        """Whether a cluster that is due by the ledger alone may be ended now.

        Its outputs are tried for once before, for a short time, unless a machine waited for that.
        """
        context = self._context
        if self._waiting_since is not None or context.hooks.take_outputs is None:
            return True
        if not hold_known(context.ledger, row.run_id):
            return True
        if self._late_pull is None:
            self._late_pull = self._work.begin(self._pull_late(row))
        return self._late_pull.done()

    async def _pull_late(self, row: ClusterRow) -> None:
        await self.pull(row, LATE_SECONDS)


async def _release(row: ClusterRow, agent: AgentClient) -> None:
    try:
        async with asyncio.timeout(HOLD_LOOK):
            await agent.release()
    except (NbprovError, CloudError, TimeoutError, OSError) as error:
        log.info("%s: it was not told that its outputs are here: %s", row.name, error)
