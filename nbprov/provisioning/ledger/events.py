"""Events: a run's history, with a text for people and data for programs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from nbprov.model.clusters import AttemptState, Phase
from nbprov.model.events import Event, EventKind
from nbprov.model.text.plain import printable

from .file_state.trouble import decoded
from .ledger_file import LedgerFile

EVENT_LIMIT = 500
"""The most characters of an event's text that are stored."""

PHASE_EVENTS = 1_000
"""The latest changes of attempts that are read for a display, which shows a hundred attempts."""


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
        return [_event(r) for r in rows]

    def of_kinds(self, run_id: str, kinds: Collection[EventKind]) -> list[Event]:
        """Return the events of these kinds in a run's history, oldest first."""
        marks = ", ".join("?" * len(kinds))
        query = f"SELECT * FROM events WHERE run_id = ? AND kind IN ({marks}) ORDER BY id"
        return [_event(r) for r in self._store.rows(query, run_id, *(k.value for k in kinds))]

    def phases(self, run_id: str) -> dict[str, tuple[Phase, ...]]:
        """Return the states that a run's latest attempts went through, by token, oldest first."""
        query = (
            "SELECT at, token, data FROM events WHERE run_id = ? AND kind = ? ORDER BY id DESC"
            " LIMIT ?"
        )
        found: dict[str, list[Phase]] = {}
        rows = self._store.rows(query, run_id, EventKind.ATTEMPT_CHANGED.value, PHASE_EVENTS)
        for row in reversed(rows):
            state = AttemptState(json.loads(row["data"])["state"])
            phases = found.setdefault(row["token"], [])
            if not phases or phases[-1].state is not state:
                phases.append(Phase(state, row["at"]))
        return {token: tuple(phases) for token, phases in found.items()}

    def has(self, run_id: str, kind: EventKind) -> bool:
        """Tell whether an event of this kind ever happened to the run."""
        query = "SELECT 1 FROM events WHERE run_id = ? AND kind = ? LIMIT 1"
        return self._store.row(query, run_id, kind.value) is not None


def _event(row: sqlite3.Row) -> Event:
    data = json.loads(row["data"])
    return Event(row["at"], EventKind(row["kind"]), row["text"], data, row["token"])
