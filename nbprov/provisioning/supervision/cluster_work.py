"""The work of this kernel on one cluster: its tasks, and the lease that keeps other kernels off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.runtime.fault_log import log_fault

log = logging.getLogger("nbprov.lifecycle")

RENEWALS_PER_LEASE = 4
"""While this kernel works on a cluster it renews the lease this often in its length."""


class ClusterBusy(NbprovError):
    """Another kernel is at work on this cluster."""

    code = "cluster.busy"


class ClusterWork:
    """Tasks and lease of one cluster. On the engine thread unless a method says otherwise.

    Parameters
    ----------
    run_id
        The run that made the cluster: the lease is the run's.
    is_driven
        Whether a launch still uses the lease, to end what it made beside the cluster.

    Attributes
    ----------
    replacement
        The task that replaces a lost machine; it goes on under the same lease.
    """

    def __init__(self, ledger: Ledger, run_id: str, is_driven: Callable[[], bool]) -> None:
        self._ledger, self._run_id, self._is_driven = ledger, run_id, is_driven
        self._verbs = 0
        self._leases = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.replacement: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """What was begun and is not over."""
        return frozenset(self._tasks)

    @property
    def is_busy(self) -> bool:
        """Whether a verb of this kernel is at work on the cluster."""
        return self._verbs > 0

    @property
    def is_replacing(self) -> bool:
        """Whether a lost machine is being replaced."""
        return self.replacement is not None and not self.replacement.done()

    @property
    def is_idle(self) -> bool:
        """Whether nothing of this kernel is at work on the cluster, in the background either."""
        return not (self._verbs or self._leases or self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine to its end, whoever waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("%s: %s", type(error).__name__, error)

    # ------------------------------------------------------------ lease

    @asynccontextmanager
    async def exclusive(self, row: ClusterRow) -> AsyncIterator[None]:
        """Work on the cluster once this kernel has the lease.

        Raises
        ------
        ClusterBusy
            If another kernel keeps it.
        """
        async with self._verb():
            await self._wait_for_lease(row)
            async with self.lease_renewed():
                yield

    @asynccontextmanager
    async def insistent(self) -> AsyncIterator[None]:
        """Work on the cluster, with the lease where it can be had, and without it otherwise."""
        async with self._verb():
            self.try_lease()
            async with self.lease_renewed():
                yield

    @asynccontextmanager
    async def _verb(self) -> AsyncIterator[None]:
        try:
            with self.counted():
                yield
        finally:
            if not self._verbs:
                self.release()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count as at work on the cluster, with whatever lease there is."""
        self._verbs += 1
        try:
            yield
        finally:
            self._verbs -= 1

    @asynccontextmanager
    async def leased(self) -> AsyncIterator[None]:
        """Keep other kernels from doing the same, as far as that can be.

        Guards that a kernel carries out, and verbs, go on meanwhile.
        """
        self.try_lease()
        self._leases += 1
        try:
            async with self.lease_renewed():
                yield
        finally:
            self._leases -= 1
            if not self._verbs:
                self.release()

    @asynccontextmanager
    async def lease_renewed(self) -> AsyncIterator[None]:
        """Renew the lease in the background."""
        task = asyncio.create_task(self._renew_lease())
        try:
            yield
        finally:
            task.cancel()

    async def _renew_lease(self) -> None:
        while True:
            await asyncio.sleep(self._ledger.lease_seconds / RENEWALS_PER_LEASE)
            self.try_lease()

    async def _wait_for_lease(self, row: ClusterRow) -> None:
        ledger = self._ledger
        first: tuple[str, Seconds] | None = None
        while not self.try_lease():
            run = ledger.runs.get(self._run_id)
            if run is None:
                return
            renewal = run.lease_holder, run.lease_renewed
            first = renewal if first is None else first
            if renewal != first:
                raise ClusterBusy(
                    f"another notebook is at work on {row.name}",
                    hint="%clusters shows what becomes of it; then try again",
                )
            await asyncio.sleep(max(0.05, min(1.0, ledger.leases.left(self._run_id))))

    def try_lease(self) -> bool:
        """Take the lease or renew it; whether this kernel has it now. Any thread."""
        try:
            return self._ledger.leases.claim(self._run_id)
        except Exception as error:
            log.warning("the lease of run %s could not be taken: %s", self._run_id, error)
            return False

    def release(self) -> None:
        """Give the lease back, unless something else of this kernel needs it to its own end."""
        if self.is_replacing or self._is_driven() or self._leases:
            return
        try:
            self._ledger.leases.release(self._run_id)
        except Exception as error:
            log_fault(
                log, error, "the lease of run %s was not released and will lapse", self._run_id
            )
