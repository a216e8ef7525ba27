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
    boot
        The start of the computer on whose clock this process measures, unlike that of any other.
    lease_seconds
        How long a lease lasts if it is not renewed.
    """

    store: SqliteStore
    clock: Clock
    holder: str
    boot: str
    lease_seconds: Seconds
