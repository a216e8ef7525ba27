"""The daemon's records: rows of JSON by kind and id.

Each change is one commit, so that a killed daemon loses nothing.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class StateStore:
    """Rows by kind and id, kept in memory and written through to SQLite.

    They are not fsynced: the daemon's machines do not survive a power failure, so their records
    need not either.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS rows (kind TEXT, id TEXT, body TEXT NOT NULL, PRIMARY "
            "KEY (kind, id))"
        )
        self._rows: dict[str, dict[str, Record]] = {}
        for kind, name, body in self._db.execute("SELECT kind, id, body FROM rows ORDER BY rowid"):
            self._rows.setdefault(kind, {})[name] = json.loads(body)

    def all(self, kind: str) -> list[Record]:
        """Return all rows of a kind, oldest first. Change a row, then `put` it."""
        return list(self._rows.get(kind, {}).values())

    def get(self, kind: str, name: str) -> Record | None:
        """Return one row, or None."""
        return self._rows.get(kind, {}).get(name)

    def put(self, *entries: tuple[str, Record]) -> None:
        """Write rows (kind, row), each under its `id`, all or none."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            for kind, row in entries:
                self._db.execute(
                    (
                        "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = "
                        "excluded.body"
                    ),
                    (kind, row["id"], json.dumps(row)),
                )
        for kind, row in entries:
            self._rows.setdefault(kind, {})[row["id"]] = row

    def drop(self, kind: str, name: str) -> None:
        """Remove a row; a missing one is skipped."""
        self._rows.get(kind, {}).pop(name, None)
        self._db.execute("DELETE FROM rows WHERE kind = ? AND id = ?", (kind, name))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
