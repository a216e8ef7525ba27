"""What other kernels do to clusters, noticed here by the ledger."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbprov.model.clusters import ClusterState

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.engine")

_LEFT = (ClusterState.STOPPING, ClusterState.STOPPED, ClusterState.ENDING, ClusterState.ENDED)


class Elsewhere:
    """Tells the listeners of an engine of changes that another kernel wrote, and closes connections to what is not there any more.

    SQLite says in microseconds whether another connection has written; only then are rows read.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._version = -1
        self._known: object = None
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Look once. On the engine thread."""
        engine = self._engine
        version = engine.ledger.data_version()
        if version == self._version:
            return
        self._version = version
        for run_id in list(engine.live):
            row = engine.ledger.clusters.of_run(run_id)
            # What this kernel itself does to a cluster sees to its connections.
            if (
                row is not None
                and row.state in _LEFT
                and not engine.lifecycle.is_busy(row.cluster_id)
            ):
                self._forget(run_id)
        seen = [
            (row.cluster_id, row.name, row.state, row.reason)
            for row in engine.ledger.clusters.latest(live_only=True)
        ]
        if seen != self._known:
            self._known = seen
            engine.changed()

    def _forget(self, run_id: str) -> None:
        # Closing says farewell to the machine, which may be gone: nobody waits for that.
        task = asyncio.create_task(self._engine.forget(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
