"""Removes what a home and a kernel keep of runs that are over: their keys, and their drivers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

from nbprov.model.errors import LedgerError
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.runtime.worker_pool import WorkerPool

from .ledger import Ledger
from .run.driver import RunDriver

log = logging.getLogger("nbprov.engine")


class FinishedRuns:
    """Removes keys and drivers of runs that are over. On the engine thread.

    The ledger alone says which are over (`RunTable.over`): keys of a run that it does not know
    stay, since a launch makes its keys before its row.

    Parameters
    ----------
    keys_folder
        Holds a folder of keys for each run.
    drivers
        The launches of this kernel, by the ids of their runs.
    """

    def __init__(self, ledger: Ledger, keys_folder: Path, drivers: dict[str, RunDriver]) -> None:
        self._ledger, self._keys_folder, self._drivers = ledger, keys_folder, drivers
        self._pool = WorkerPool("keys", 1)
        self._removal: Future[None] | None = None

    def collect(self) -> Future[None] | None:
        """Look which runs are over, and remove what is kept of them. Never raises.

        Returns the removal of keys, which goes on in another thread; None where there are none.
        """
        if self._removal is not None and not self._removal.done():
            return self._removal
        try:
            kept = {entry.name for entry in os.scandir(self._keys_folder) if entry.is_dir()}
        except OSError:
            kept = set()  # no launch made it yet
        driven = {id for id, driver in self._drivers.items() if driver.finished.done()}
        try:
            # Nothing is concluded from a copy.
            is_copy = self._ledger.store.is_copy
            over = set() if is_copy else self._ledger.runs.over(kept | driven)
        except LedgerError as error:
            log.info("which runs are over: %s; looked again later", error)
            return None
        for run_id in over & driven:
            del self._drivers[run_id]
        doomed = over & kept - self._drivers.keys()
        # Off this thread: a home of old may have thousands.
        self._removal = self._pool.submit(lambda: self._remove(doomed)) if doomed else None
        return self._removal

    def _remove(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            ClusterKeys.remove(self._keys_folder / run_id)
