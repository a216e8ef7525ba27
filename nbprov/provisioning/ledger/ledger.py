"""The ledger: one SQLite file, and a table object for each of its subjects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.errors import LedgerError
from nbprov.runtime.clocks import SteadyClock, boot_id

from .blocks import BlockTable
from .clusters import ClusterTable
from .events import EventTable
from .file_state.anchor import anchor_of
from .file_state.owner import LOST
from .guards import GuardTable
from .instances import InstanceTable
from .jobs import JobTable
from .launches import LaunchTable
from .leases import LEASE_SECONDS, LeaseTable
from .ledger_file import LedgerFile
from .observations import ObservationTable
from .prices import PriceSegmentTable
from .replacements import ReplacementTable
from .runs import RunTable
from .side_objects import SideObjectTable
from .sqlite_store import SqliteStore

T = TypeVar("T")


class Ledger:
    """Every intent, attempt, machine, price and event of this user, shared by all kernels.

    Each public method of a table is one durable change or one query. Any thread may call it.

    Parameters
    ----------
    path
        The SQLite file.
    clock
        The system's clock. The ledger's own (`Ledger.clock`) counts on from a reading of it.
    holder
        The name under which this process holds leases, unique for each process.
    lease_seconds
        How long a lease lasts if it is not renewed.
    """

    def __init__(
        self, path: Path, clock: Clock, holder: str, lease_seconds: Seconds = LEASE_SECONDS
    ) -> None:
        self.store = SqliteStore(path)
        boot = boot_id()
        self.clock = SteadyClock(clock, anchor_of(self.store, clock, boot))
        self.holder = holder
        self.lease_seconds = lease_seconds
        file = LedgerFile(self.store, self.clock, holder, boot or holder, lease_seconds)
        self.leases = LeaseTable(file)
        self.events = EventTable(file)
        self.guards = GuardTable(file)
        self.jobs = JobTable(file)
        self.blocks = BlockTable(file)
        self.observations = ObservationTable(file)
        self.prices = PriceSegmentTable(file)
        self.runs = RunTable(file, self.leases)
        self.launches = LaunchTable(file, self.leases, self.prices, self.observations)
        self.instances = InstanceTable(file, self.launches, self.prices)
        self.clusters = ClusterTable(file, self.leases, self.prices, self.events)
        self.replacements = ReplacementTable(
            file, self.leases, self.prices, self.observations, self.instances
        )
        self.side_objects = SideObjectTable(file, self.events)

    @property
    def owner(self) -> str:
        """This ledger's id, which every machine that it launches carries."""
        return self.store.owner

    @property
    def lost_at(self) -> Instant | None:
        """When this ledger was begun in the place of a lost one; None where none was lost.

        Machines that are older than this are nobody's orphans: the lost one knew them.
        """
        row = self.store.row("SELECT value FROM meta WHERE key = ?", LOST)
        return None if row is None else float(row[0])

    def end_loss(self) -> None:
        """Note that no machine of the lost ledger is left."""
        with self.store.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = ?", (LOST,))

    def together(self) -> AbstractContextManager[sqlite3.Connection]:
        """Make all writes of a `with` block one atomic change with one fsync."""
        return self.store.transaction()

    def record(self, write: Callable[[], T], otherwise: T) -> T:
        """Write down what happens in any case; `otherwise` where the ledger cannot be written.

        Only a create needs its row first. An end that was asked for is carried out with a full
        disk too: the clouds' listings tell the next kernel what a row does not say.
        """
        try:
            return write()
        except (LedgerError, sqlite3.Error):  # the store has said so, once
            return otherwise

    def trouble_with(self, write: Callable[[], object]) -> str:
        """Write down what has happened already; why that failed, in a line, else an empty text.

        Whoever tells a person of it must not call it failed: it would be done again.
        """
        try:
            write()
        except LedgerError as error:
            return error.message
        except sqlite3.Error as error:
            return f"the ledger cannot be written: {error}"
        return ""

    def data_version(self) -> int:
        """A number that changes when another connection has written to the ledger."""
        row = self.store.row("PRAGMA data_version")
        return int(row[0]) if row is not None else 0

    def close(self) -> None:
        """Close the file."""
        self.store.close()
