"""Events: a run's history, with a text for people and data for programs."""

from __future__ import annotations

import json
from typing import Any

from nbprov.model.events import Event, EventKind
from nbprov.model.text.plain import printable

from .file_state.trouble import decoded
from .ledger_file import LedgerFile

EVENT_LIMIT = 500
"""The most characters of an event's text that are stored."""


@decoded
class EventTable:
    """The events of runs and their machines."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def add(self, run_id: str, kind: EventKind, text: str, token: str = "", **data: Any) -> None:
        """Add an event to the run's history.

        `text` is for people; programs read `data`.
        """
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO events (at, run_id, token, kind, data, text) VALUES (?, ?, ?, ?, ?,"
                " ?)",
                (
                    self._clock.now(),
                    run_id,
                    token,
                    kind.value,
                    json.dumps(data),
                    printable(text[:EVENT_LIMIT]),
                ),
            )

    def of_run(self, run_id: str) -> list[Event]:
        """Return the run's history, oldest first."""
        rows = self._store.rows("SELECT * FROM events WHERE run_id = ? ORDER BY id", run_id)
        return [
            Event(r["at"], EventKind(r["kind"]), r["text"], json.loads(r["data"]), r["token"])
            for r in rows
        ]

    def has(self, run_id: str, kind: EventKind) -> bool:
        """Tell whether an event of this kind ever happened to the run."""
        query = "SELECT 1 FROM events WHERE run_id = ? AND kind = ? LIMIT 1"
        return self._store.row(query, run_id, kind.value) is not None
