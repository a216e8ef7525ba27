"""Renames clusters, and puts one in the place of another."""

from __future__ import annotations

from collections.abc import Callable

from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.supervision.cluster_work import ClusterBusy, ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext

_TRIES = 99


class ClusterRename:
    """Changes the names of clusters. On the engine thread.

    Parameters
    ----------
    work_on
        The work of this kernel on a cluster.
    """

    def __init__(
        self, context: SupervisionContext, work_on: Callable[[ClusterRow], ClusterWork]
    ) -> None:
        self._context, self._work_on = context, work_on

    async def rename(self, row: ClusterRow, name: str) -> None:
        """Give a cluster another name; see `ClusterLifecycle.rename`."""
        work = self._work_on(row)
        if work.is_busy:
            raise ClusterBusy(
                f"{row.name} is being stopped, started or ended",
                hint="%clusters shows what becomes of it; then try again",
            )
        async with work.exclusive(row):
            self._context.ledger.clusters.rename(row.cluster_id, name)
        self._apply(row.run_id, name)

    async def take_place(self, new: ClusterRow, old: ClusterRow) -> ClusterRow:
        """Put a cluster in the place of another; see `ClusterLifecycle.take_place`."""
        ledger = self._context.ledger
        async with self._work_on(old).exclusive(old):
            free = (name for name in _names_aside(old.name) if not self._is_taken(name))
            aside = next(free, f"{old.name}-{old.cluster_id[:8]}")
            reason = f"replaced: another cluster is called {old.name} now"
            ledger.clusters.take_place(new.cluster_id, old.cluster_id, aside, reason)
        self._apply(old.run_id, aside)
        self._apply(new.run_id, old.name)
        return ledger.clusters.by_id(old.cluster_id) or old

    def _is_taken(self, name: str) -> bool:
        ledger = self._context.ledger
        row = ledger.clusters.named(name)
        is_live = row is not None and row.ended is None
        return is_live or any(run.name == name for run in ledger.runs.unfinished())

    def _apply(self, run_id: str, name: str) -> None:
        """Have this kernel's launch and connections bear the name."""
        context = self._context
        driver, live = context.drivers.get(run_id), context.connections.live.get(run_id)
        if driver is not None:
            driver.context.progress.name = name
        if live is not None:
            live.name = name
        context.changed()


def _names_aside(name: str) -> list[str]:
    return [f"{name}-old", *(f"{name}-old-{n}" for n in range(2, _TRIES))]
