"""Tells whether an earlier kernel left anything.

Every `%load_ext` asks this, so it imports nothing of the ledger.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

LIVE_ROWS = (
    "SELECT EXISTS (SELECT 1 FROM launches WHERE state NOT IN ('refused', 'gone', 'absent'))"
    " OR EXISTS (SELECT 1 FROM clusters WHERE state <> 'ended')"
    " OR EXISTS (SELECT 1 FROM runs WHERE state IN ('launching', 'waiting', 'cancelling'))"
    " OR EXISTS (SELECT 1 FROM side_objects WHERE shared = 0 AND state <> 'removed')"
    " OR EXISTS (SELECT 1 FROM meta WHERE key = 'lost')"
)

LOOK_SECONDS = 1.0
"""How long a query waits for another kernel that locks the file."""


def has_live_rows(path: Path) -> bool:
    """Whether a ledger has anything that may be on the bill, or was here and is gone.

    It takes well under a millisecond.
    """
    if not path.exists() or not path.stat().st_size:
        # A ledger that was here and is gone has left its id: the engine says so.
        return (path.parent / "owner").exists() or any(path.parent.glob("keys/*"))
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOOK_SECONDS
    )
    try:
        return bool(connection.execute(LIVE_ROWS).fetchone()[0])
    except sqlite3.DatabaseError:
        return True  # unreadable is not empty: the engine looks, and says what is wrong
    finally:
        connection.close()
