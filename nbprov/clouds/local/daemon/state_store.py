"""What the daemon remembers: rows of JSON by kind and id, one commit a change, so that a killed daemon loses nothing."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Store:
    """Rows by kind and id, kept in memory and written through to SQLite.

    Not fsynced: the daemon's machines do not survive a power cut, so neither need their records. A killed process loses nothing.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS rows (kind TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, id))"
        )
        self._rows: dict[str, dict[str, Record]] = {}
        for kind, name, body in self._db.execute("SELECT kind, id, body FROM rows ORDER BY rowid"):
            self._rows.setdefault(kind, {})[name] = json.loads(body)

    def all(self, kind: str) -> list[Record]:
        """All rows of a kind, oldest first. Change a row, then `put` it."""
        return list(self._rows.get(kind, {}).values())

    def get(self, kind: str, name: str) -> Record | None:
        """One row; None where there is none."""
        return self._rows.get(kind, {}).get(name)

    def put(self, *entries: tuple[str, Record]) -> None:
        """Write rows (kind, row), each under its `id`, all or none."""
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            for kind, row in entries:
                self._db.execute(
                    "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
                    (kind, row["id"], json.dumps(row)),
                )
        for kind, row in entries:
            self._rows.setdefault(kind, {})[row["id"]] = row

    def drop(self, kind: str, name: str) -> None:
        """Forget a row; one that is not there is passed over."""
        self._rows.get(kind, {}).pop(name, None)
        self._db.execute("DELETE FROM rows WHERE kind = ? AND id = ?", (kind, name))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
