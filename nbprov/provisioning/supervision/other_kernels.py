"""Detects other kernels' changes to clusters, launches and blocks by the ledger's data version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nbprov.model.clusters import ClusterState
from nbprov.provisioning.ledger import Ledger

from .context import Connections

_LEFT = (ClusterState.STOPPING, ClusterState.STOPPED, ClusterState.ENDING, ClusterState.ENDED)


class OtherKernels:
    """Reports changes that another kernel wrote, and closes connections to machines that are gone.

    SQLite says in microseconds whether another connection has written; only then are rows read.

    Parameters
    ----------
    is_busy
        Whether this kernel is at work on a cluster: then it sees to the connections itself.
    """

    def __init__(
        self,
        ledger: Ledger,
        connections: Connections,
        is_busy: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        self._ledger, self._connections = ledger, connections
        self._is_busy, self._changed = is_busy, changed
        self._version = -1
        self._known: object = None
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Look once. On the engine thread."""
        version = self._ledger.data_version()
        if version == self._version:
            return
        self._version = version
        for run_id in list(self._connections.live):
            row = self._ledger.clusters.of_run(run_id)
            if row is not None and row.state in _LEFT and not self._is_busy(row.cluster_id):
                self._forget(run_id)
        seen = (
            [
                (row.cluster_id, row.name, row.state, row.desired_state, row.reason)
                for row in self._ledger.clusters.latest(live_only=True)
            ],
            [(run.run_id, run.state, run.cancelled) for run in self._ledger.runs.unfinished()],
            self._ledger.launches.live_states(),
            self._ledger.blocks.standing(),
        )
        if seen != self._known:
            self._known = seen
            self._changed()

    def _forget(self, run_id: str) -> None:
        # Closing sends a farewell to the machine, which may be gone: nobody waits for that.
        task = asyncio.create_task(self._connections.forget(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
