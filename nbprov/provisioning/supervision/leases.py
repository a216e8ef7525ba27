"""Who works on a cluster in this kernel, under which lease, and which of its machines a listing lacks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.launches import Instance
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow

from .absence_tracker import Absences
from .outages import FOREIGN, SILENCE_AGAIN, Notes, foreign_words

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

RENEWALS_A_LEASE = 4
"""While a verb works it renews its run's lease this often in its length."""


class ClusterBusy(NbprovError):
    """Another kernel is at work on this cluster."""

    code = "cluster.busy"


class AtWork:
    """What verbs and the watcher share: tasks that go on by themselves, leases, and absences. On the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._busy: Counter[str] = Counter()
        self._leased: Counter[str] = Counter()
        self._downs: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._absences = Absences()
        self._notes = Notes(engine.ledger, engine.clock, engine.changed)
        self._foreign: set[str] = set()
        self._replacing: dict[str, asyncio.Task[None]] = {}
        """By the id of the cluster: what puts another machine in the place of a lost one."""

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        for cluster_id in [c for c, t in self._downs.items() if t is task]:
            del self._downs[cluster_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("%s: %s", type(error).__name__, error)

    def is_busy(self, cluster_id: str) -> bool:
        """Whether a verb of this kernel is at work on a cluster."""
        return bool(self._busy[cluster_id])

    @asynccontextmanager
    async def _at_work(self, row: ClusterRow, *, alone: bool = False) -> AsyncIterator[None]:
        """Hold the run's lease, so that no other kernel repeats what this one does. Where `alone`, only with it."""
        self._busy[row.cluster_id] += 1
        keeper: asyncio.Task[None] | None = None
        try:
            if alone:
                await self._take_lease(row)
            else:
                self._try_lease(row.run_id)
            keeper = asyncio.create_task(self._keep_lease(row.run_id))
            yield
        finally:
            if keeper is not None:
                keeper.cancel()
            self._busy[row.cluster_id] -= 1
            if not self._busy[row.cluster_id]:
                del self._busy[row.cluster_id]
                self._release(row.run_id)

    async def _take_lease(self, row: ClusterRow) -> None:
        ledger = self._engine.ledger
        first: float | None = None
        while not ledger.leases.take(row.run_id):
            run = ledger.runs.get(row.run_id)
            if run is None:
                return
            first = run.lease_expires if first is None else first
            if run.lease_expires > first:
                raise ClusterBusy(
                    f"another notebook is at work on {row.name}",
                    hint="%clusters shows what becomes of it; then try again",
                )
            await asyncio.sleep(max(0.05, min(1.0, run.lease_expires - self._engine.clock.now())))

    def _try_lease(self, run_id: str) -> bool:
        try:
            return self._engine.ledger.leases.take(run_id)
        except Exception as error:
            log.warning("the lease of run %s could not be taken: %s", run_id, error)
            return False

    async def _keep_lease(self, run_id: str) -> None:
        while True:
            await asyncio.sleep(self._engine.ledger.lease_seconds / RENEWALS_A_LEASE)
            self._try_lease(run_id)

    def _release(self, run_id: str) -> None:
        if run_id in self._replacing:
            return  # it goes on under the same lease; a cluster has its run's id
        driver = self._engine.drivers.get(run_id)
        if driver is not None and not driver.machine.finished:
            return  # it winds up what is beside the cluster, under the same lease
        if self._leased[run_id]:
            return  # what goes on around it needs the lease to its own end
        try:
            self._engine.ledger.leases.release(run_id)
        except Exception as error:
            log.warning("the lease of run %s was not given up and will lapse: %s", run_id, error)

    async def _missing(
        self,
        cloud: AsyncCloud,
        row: ClusterRow,
        machines: list[Instance],
        asked: Seconds,
        also: Collection[str] = (),
    ) -> tuple[set[str], set[str]]:
        # A cluster whose ids are not known is missing as a whole or not at all.
        expected = (
            *(
                self._engine.ledger.launches.ids_of(row.token)
                or ((row.token,) if not machines else ())
            ),
            *also,
        )
        absent = set(expected) - {i.id for i in machines}
        if absent and not await cloud.is_of(row.candidate.account):
            self._foreign.add(row.cluster_id)
            self._notes.say(row, FOREIGN, foreign_words(row), again=SILENCE_AGAIN)
            return set(), absent
        self._foreign.discard(row.cluster_id)
        self._notes.over(row, FOREIGN)
        return self._absences.look(
            row.cluster_id,
            expected,
            [i.id for i in machines],
            asked=asked,
            answered=self._engine.clock.elapsed(),
            settle=cloud.capabilities.settle,
        )
