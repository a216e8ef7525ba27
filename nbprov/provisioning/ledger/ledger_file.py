"""The open ledger file, and on whose behalf it is written."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Clock, Seconds

from .sqlite_store import Store


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """What every table of the ledger needs.

    Attributes
    ----------
    store
        The open SQLite file.
    clock
        What `now` is.
    holder
        Who holds this process's leases; unique for each process.
    lease_seconds
        How long a lease lasts that is not renewed.
    """

    store: Store
    clock: Clock
    holder: str
    lease_seconds: Seconds
