"""Leases: which kernel works on a run. They are renewed with every change, so that a kernel which
lost one can write nothing more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError

from .ledger_file import LedgerFile

LEASE_SECONDS: Seconds = 12.0

"""A kernel that has not renewed its lease for so long counts as dead.

Longer than any pause of a healthy kernel, short enough to wait for.
"""


class LeaseLost(NbprovError):
    """Another kernel has taken this run over, because this one did not renew its lease (a closed
    laptop, a long pause).
    """

    code = "ledger.lease-lost"


class LeaseTable:
    """Leases, by which one kernel at a time works on a run."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock
        self._holder = file.holder
        self._lease_seconds = file.lease_seconds

    def hold(self, db: sqlite3.Connection, run_id: str) -> None:
        """Renew this kernel's lease of a run within a change.

        It is checked inside the change itself, so a kernel that slept through its lease writes
        nothing more.

        Raises
        ------
        LeaseLost
            If another kernel holds it.
        """
        row = db.execute("SELECT lease_holder FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row[0] != self._holder:
            raise LeaseLost(
                f"run {run_id} is in the hands of another kernel",
                hint="this one was silent for too long; %clusters shows what became of it",
            )
        db.execute(
            "UPDATE runs SET lease_expires = ? WHERE run_id = ?",
            (self._clock.now() + self._lease_seconds, run_id),
        )

    def renew(self, run_ids: Iterable[str]) -> set[str]:
        """Renew leases; returns the runs that this kernel no longer holds."""
        lost = set()
        with self._store.transaction() as db:
            for run_id in run_ids:
                try:
                    self.hold(db, run_id)
                except LeaseLost:
                    lost.add(run_id)
        return lost

    def take(self, run_id: str) -> bool:
        """Take a lapsed lease; False if another kernel holds it.

        One of several kernels that try at once wins.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            done = db.execute(
                "UPDATE runs SET lease_holder = ?, lease_expires = ? WHERE run_id = ? AND"
                " (lease_expires IS NULL OR lease_expires <= ? OR lease_holder = ?)",
                (self._holder, now + self._lease_seconds, run_id, now, self._holder),
            )
            return done.rowcount == 1

    def release(self, run_id: str) -> None:
        """Give a lease up."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE runs SET lease_holder = NULL, lease_expires = NULL WHERE run_id = ? AND"
                " lease_holder = ?",
                (run_id, self._holder),
            )

    def release_all(self) -> None:
        """Give up every lease of this process: an orderly shutdown need not be waited for."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE runs SET lease_holder = NULL, lease_expires = NULL WHERE lease_holder = ?",
                (self._holder,),
            )
