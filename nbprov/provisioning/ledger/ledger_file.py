"""The open ledger file, with the clock and the lease holder that its tables use."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Clock, Seconds

from .sqlite_store import SqliteStore


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """The things that every table of the ledger needs.

    Attributes
    ----------
    store
        The open SQLite file.
    clock
        The source of the present time.
    holder
        The name under which this process holds leases, unique for each process.
    lease_seconds
        How long a lease lasts if it is not renewed.
    """

    store: SqliteStore
    clock: Clock
    holder: str
    lease_seconds: Seconds
