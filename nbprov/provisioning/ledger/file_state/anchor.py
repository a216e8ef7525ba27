"""The instant from which the ledger's clock counts: read from the wall clock once a boot."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.errors import LedgerError

if TYPE_CHECKING:
    from nbprov.provisioning.ledger.sqlite_store import SqliteStore

MOST_APART: Seconds = 60.0
"""A wall clock that differs by more is believed again, once nothing is measured any more."""

_IS_BUSY = (
    "SELECT EXISTS (SELECT 1 FROM price_segments WHERE ended IS NULL)"
    " OR EXISTS (SELECT 1 FROM clusters WHERE state <> 'ended')"
    " OR EXISTS (SELECT 1 FROM runs WHERE state IN ('launching', 'waiting', 'cancelling'))"
    " OR EXISTS (SELECT 1 FROM blocks WHERE expires > ?)"
)


def anchor_of(store: SqliteStore, clock: Clock, boot: str) -> Instant:
    """The instant at which `elapsed` was 0 in this start of the computer, for all its kernels.

    The first kernel of a start reads it from the wall clock. A wall clock that is set later
    changes no cost, block or deadline. It is read again once nothing is on the bill or blocked.

    Parameters
    ----------
    boot
        Names the start of the computer; where it is empty each kernel has an anchor of its own.
    """
    anchor = clock.now() - clock.elapsed()
    if not boot:
        return anchor
    key = f"clock of {boot}"
    row = store.row("SELECT value FROM meta WHERE key = ?", key)
    known = None if row is None else float(row[0])
    if known is not None:
        is_busy = store.row(_IS_BUSY, known + clock.elapsed())
        if abs(known - anchor) <= MOST_APART or is_busy is None or is_busy[0]:
            return known
    try:
        with store.transaction() as db:
            _write(db, key, anchor, known)
            return float(db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])
    except LedgerError:  # it cannot be written: this kernel counts for itself
        return anchor


def _write(db: sqlite3.Connection, key: str, anchor: Instant, known: Instant | None) -> None:
    # Another kernel may have written it since; whoever was first is right.
    if known is None:
        db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, repr(anchor)))
    else:
        db.execute(
            "UPDATE meta SET value = ? WHERE key = ? AND value = ?",
            (repr(anchor), key, repr(known)),
        )
