"""Logs of jobs, kept on this computer before the machines that have them go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context, EngineBound

if TYPE_CHECKING:
    from nbprov.machines.jobs.archive import JobArchive
    from nbprov.machines.jobs.monitor import JobMonitor
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow

log = logging.getLogger("nbprov.api")


class JobArchiveService:
    """Keeps the logs of jobs that ended, and of all jobs before their cluster ends or stops."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keeper = EngineBound(context, self._made)

    def _made(self, engine: Engine) -> JobMonitor:
        from nbprov.machines.jobs.monitor import JobMonitor

        return JobMonitor(engine, self._context.mask)

    @property
    def keeper(self) -> JobMonitor:
        """The task that keeps logs, for code on the engine thread."""
        return self._keeper.get()

    @property
    def store(self) -> JobArchive:
        """The logs that are kept here. Any thread."""
        return self.keeper.store

    def begin(self, engine: Engine) -> None:
        """Begin to keep logs, on an engine that was just opened. Returns at once."""
        engine.thread.soon(self.keeper.begin)

    async def with_logs_kept(
        self,
        row: ClusterRow,
        work: Coroutine[Any, Any, None],
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        """Keep the logs of a cluster's jobs, for `LAST_SECONDS` at most, then stop or end it.

        The ledger says already what is to become of it: should this kernel die here, the next one
        goes on.

        Parameters
        ----------
        say
            Told in a line which logs could not be kept, if any.
        """
        lifecycle = self._context.engine.lifecycle
        try:
            async with lifecycle.leased(row):
                try:
                    unkept = await self.keeper.archive_before_end(row)
                    if unkept:
                        say(unkept)
                except Exception:
                    log.exception("logs of jobs before the end of %s", row.name)
                await work
        finally:
            work.close()
            lifecycle.asked.discard(row.cluster_id)
