"""Renaming a cluster, and putting one in the place of another."""

from __future__ import annotations

from nbprov.provisioning.ledger import ClusterRow

from .cloud_watcher import Watching
from .desired_state import REPLACED
from .leases import ClusterBusy

_TRIES = 99


class Naming(Watching):
    """Verbs that change names alone. On the engine thread."""

    async def rename(self, row: ClusterRow, name: str) -> None:
        """Give a cluster another name.

        Raises
        ------
        NameTaken
            If it is in use.
        NotFound
            If the cluster has ended or is being ended.
        ClusterBusy
            If it is being stopped, started or ended, here or in another kernel.
        """
        if self._busy[row.cluster_id]:
            raise ClusterBusy(
                f"{row.name} is being stopped, started or ended",
                hint="%clusters shows what becomes of it; then try again",
            )
        async with self._at_work(row, alone=True):
            self._engine.ledger.clusters.rename(row.cluster_id, name)
        self._told(row.run_id, name)

    async def take_place(self, new: ClusterRow, old: ClusterRow) -> ClusterRow:
        """Put a cluster in the place of another, whose end is then everybody's business; the old one's row under its new name.

        From here on the old one is ended by whoever looks: a kernel that dies right after this leaves it to the next.

        Raises
        ------
        NotFound
            If one of them has ended meanwhile.
        ClusterBusy
            If somebody is at work on the old one.
        """
        ledger = self._engine.ledger
        async with self._at_work(old, alone=True):
            aside = next(
                (n for n in _asides(old.name) if not self._is_taken(n)),
                f"{old.name}-{old.cluster_id[:8]}",
            )
            ledger.clusters.take_place(
                new.cluster_id,
                old.cluster_id,
                aside,
                f"{REPLACED}another cluster is called {old.name} now",
            )
        self._told(old.run_id, aside)
        self._told(new.run_id, old.name)
        return ledger.clusters.by_id(old.cluster_id) or old

    def _is_taken(self, name: str) -> bool:
        row = self._engine.ledger.clusters.named(name)
        return (row is not None and row.ended is None) or any(
            r.name == name for r in self._engine.ledger.runs.unfinished()
        )

    def _told(self, run_id: str, name: str) -> None:
        driver, live = self._engine.drivers.get(run_id), self._engine.live.get(run_id)
        if driver is not None:
            driver.name = name
        if live is not None:
            live.name = name
        self._engine.changed()


def _asides(name: str) -> list[str]:
    return [f"{name}-old", *(f"{name}-old-{n}" for n in range(2, _TRIES))]
