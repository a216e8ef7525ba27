"""Leases: which kernel works on a run.

Every change renews the lease, so that a kernel which lost it can write nothing more. Whether a
kernel is silent is measured with the clock that never jumps, and never read from a wall clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from nbprov.model.clock import Seconds
from nbprov.model.errors import LedgerError, NbprovError

from .file_state.trouble import decoded
from .ledger_file import LedgerFile

LEASE_SECONDS: Seconds = 12.0

"""A kernel that has not renewed its lease for this long counts as dead.

The time is longer than any pause of a healthy kernel, and short enough to wait for.
"""


class LeaseLost(NbprovError):
    """Another kernel has taken this run over, since this one did not renew its lease.

    A closed laptop or a long pause are usual causes.
    """

    code = "ledger.lease-lost"


@decoded
class LeaseTable:
    """The leases by which one kernel at a time works on a run.

    A lease holds for `lease_seconds` after its last renewal. Kernels of one start of the computer
    share the clock that measures this. Where the holder was of another start, or of another
    computer, a kernel waits and sees: the lease has lapsed when it was not renewed for that long.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock
        self._holder = file.holder
        self._boot = file.boot
        self._lease_seconds = file.lease_seconds
        self._seen: dict[str, tuple[object, Seconds]] = {}

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
        self._take(db, run_id)

    def new(self) -> dict[str, str | float]:
        """The lease's columns for a run that this kernel opens or goes on with.

        When it expires is to be shown, and never believed.
        """
        return {
            "lease_holder": self._holder,
            "lease_expires": self._clock.now() + self._lease_seconds,
            "lease_renewed": self._clock.elapsed(),
            "lease_boot": self._boot,
        }

    def _take(self, db: sqlite3.Connection, run_id: str) -> None:
        db.execute(
            "UPDATE runs SET lease_holder = :lease_holder, lease_expires = :lease_expires,"
            " lease_renewed = :lease_renewed, lease_boot = :lease_boot WHERE run_id = :run_id",
            {**self.new(), "run_id": run_id},
        )

    def renew(self, run_ids: Iterable[str]) -> set[str]:
        """Renew leases; return the runs that this kernel no longer holds."""
        lost = set()
        with self._store.transaction() as db:
            for run_id in run_ids:
                try:
                    self.hold(db, run_id)
                except LeaseLost:
                    lost.add(run_id)
        return lost

    def take(self, run_id: str) -> bool:
        """Take a lapsed lease; return False if another kernel holds it.

        If several kernels try at once, one wins.
        """
        if self._left(self._store.row(_LEASE, run_id), run_id) > 0:
            return False  # seen without a write
        with self._store.transaction() as db:
            row = db.execute(_LEASE, (run_id,)).fetchone()
            if row is None or self._left(row, run_id) > 0:
                return False
            self._take(db, run_id)
            return True

    def is_held(self, run_id: str) -> bool:
        """Whether a kernel that lives, perhaps this one, is at work on a run."""
        row = self._store.row(_LEASE, run_id)
        is_own = row is not None and row["lease_holder"] == self._holder
        return is_own or self._left(row, run_id) > 0

    def left(self, run_id: str) -> Seconds:
        """How long another kernel's lease of a run holds still; 0 where it can be taken."""
        return self._left(self._store.row(_LEASE, run_id), run_id)

    def _left(self, row: sqlite3.Row | None, run_id: str) -> Seconds:
        if row is None or row["lease_holder"] in (None, self._holder):
            return 0.0
        now, renewed = self._clock.elapsed(), row["lease_renewed"]
        if row["lease_boot"] == self._boot and renewed is not None and renewed <= now:
            return max(0.0, float(renewed) + self._lease_seconds - now)
        known, since = self._seen.get(run_id, (None, now))
        if known != tuple(row):
            known, since = tuple(row), now
        self._seen[run_id] = known, since
        return max(0.0, since + self._lease_seconds - now)

    def claim(self, run_id: str) -> bool:
        """Take a lease as `take`; where the ledger cannot be written, it is free for an end.

        No kernel could end a cluster on a full disk otherwise. A lease that another kernel holds
        is left to it in any case. What creates or starts a machine has a write of its own before.
        """
        try:
            return self.take(run_id)
        except LedgerError:
            try:
                return self.left(run_id) <= 0
            except LedgerError:
                return True  # a ledger that cannot be read keeps no machine on the bill

    def release(self, run_id: str) -> None:
        """Give a lease up."""
        with self._store.transaction() as db:
            db.execute(f"{_RELEASE} AND run_id = ?", (self._holder, run_id))

    def release_all(self) -> None:
        """Give up every lease of this process, so that nobody waits after an orderly shutdown."""
        with self._store.transaction() as db:
            db.execute(_RELEASE, (self._holder,))


_LEASE = "SELECT lease_holder, lease_expires, lease_renewed, lease_boot FROM runs WHERE run_id = ?"
_RELEASE = (
    "UPDATE runs SET lease_holder = NULL, lease_expires = NULL, lease_renewed = NULL,"
    " lease_boot = NULL WHERE lease_holder = ?"
)
