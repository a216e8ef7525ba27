"""The ledger: one SQLite file, and a table object for each of its subjects."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path

from nbprov.model.clock import Clock, Seconds

from .blocks import BlockTable
from .clusters import ClusterTable
from .events import EventTable
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


class Ledger:
    """Every intent, attempt, machine, price and event of this user, shared by all kernels.

    Each public method of a table is one durable change or one query. Any thread may call it.

    Parameters
    ----------
    path
        The SQLite file.
    clock
        The source of the present time.
    holder
        The name under which this process holds leases, unique for each process.
    lease_seconds
        How long a lease lasts if it is not renewed.
    """

    def __init__(
        self, path: Path, clock: Clock, holder: str, lease_seconds: Seconds = LEASE_SECONDS
    ) -> None:
        self.store = SqliteStore(path)
        self.clock = clock
        self.holder = holder
        self.lease_seconds = lease_seconds
        file = LedgerFile(self.store, clock, holder, lease_seconds)
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

    def together(self) -> AbstractContextManager[sqlite3.Connection]:
        """Make all writes of a `with` block one atomic change with one fsync."""
        return self.store.transaction()

    def data_version(self) -> int:
        """A number that changes when another connection has written to the ledger."""
        row = self.store.row("PRAGMA data_version")
        return int(row[0]) if row is not None else 0

    def close(self) -> None:
        """Close the file."""
        self.store.close()
