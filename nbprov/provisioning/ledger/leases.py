"""Who works on a run: leases that are renewed with every change, so that a kernel which lost one can write nothing more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from nbprov.model.clock import Clock, Seconds
from nbprov.model.errors import NbprovError

from .sqlite_store import Store

LEASE_SECONDS: Seconds = 12.0
"""A kernel that has not renewed its lease for so long counts as dead. Longer than any pause of a healthy kernel, short enough to wait for."""


class LeaseLost(NbprovError):
    """Another kernel has taken this run over, because this one did not renew its lease (a closed laptop, a long pause)."""

    code = "ledger.lease-lost"


class Leases:
    """The open file, and the leases by which one kernel at a time works on a run.

    Parameters
    ----------
    path
        The SQLite file.
    clock
        What `now` is.
    holder
        Who holds this process's leases; unique a process.
    """

    def __init__(
        self, path: Path, clock: Clock, holder: str, lease_seconds: Seconds = LEASE_SECONDS
    ) -> None:
        self.store = Store(path)
        self.clock = clock
        self.holder = holder
        self.lease_seconds = lease_seconds

    @property
    def owner(self) -> str:
        """This ledger's id, borne by every machine it launched."""
        return self.store.owner

    def together(self) -> AbstractContextManager[sqlite3.Connection]:
        """Make what is written inside one atomic change with one fsync."""
        return self.store.transaction()

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def _hold(self, db: sqlite3.Connection, run_id: str) -> None:
        # Renewed and checked inside the change itself: a kernel that slept through its lease can write nothing more.
        row = db.execute("SELECT lease_holder FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row[0] != self.holder:
            raise LeaseLost(
                f"run {run_id} is in the hands of another kernel",
                hint="this one was silent for too long; %clusters shows what became of it",
            )
        db.execute(
            "UPDATE runs SET lease_expires = ? WHERE run_id = ?",
            (self.clock.now() + self.lease_seconds, run_id),
        )

    def renew(self, run_ids: Iterable[str]) -> set[str]:
        """Renew leases; returns the runs that this kernel no longer holds."""
        lost = set()
        with self.store.transaction() as db:
            for run_id in run_ids:
                try:
                    self._hold(db, run_id)
                except LeaseLost:
                    lost.add(run_id)
        return lost

    def take(self, run_id: str) -> bool:
        """Take a lapsed lease; False if another kernel holds it. One of several kernels that try at once wins."""
        now = self.clock.now()
        with self.store.transaction() as db:
            done = db.execute(
                "UPDATE runs SET lease_holder = ?, lease_expires = ? WHERE run_id = ? AND (lease_expires IS NULL OR lease_expires <= ? OR lease_holder = ?)",
                (self.holder, now + self.lease_seconds, run_id, now, self.holder),
            )
            return done.rowcount == 1

    def release(self, run_id: str) -> None:
        """Give a lease up."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE runs SET lease_holder = NULL, lease_expires = NULL WHERE run_id = ? AND lease_holder = ?",
                (run_id, self.holder),
            )

    def release_all(self) -> None:
        """Give up every lease of this process: an orderly shutdown need not be waited for."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE runs SET lease_holder = NULL, lease_expires = NULL WHERE lease_holder = ?",
                (self.holder,),
            )
