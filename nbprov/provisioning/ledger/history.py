"""What happened on and around a run's machines: events, guards, jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.events import Event, EventKind

from .leases import Leases
from .rows import storable

_LIVE = ("queued", "running")

EVENT_LIMIT = 500
"""Characters of an event's text that are kept."""


class History(Leases):
    """Lines, guards and jobs of runs."""

    def note(self, run_id: str, kind: EventKind, text: str, token: str = "", **data: Any) -> None:
        """Add an event to the run's history: `text` is for people, `data` is what programs read of it."""
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO events (at, run_id, token, kind, data, text) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    self.clock.now(),
                    run_id,
                    token,
                    kind.value,
                    json.dumps(data),
                    storable(text[:EVENT_LIMIT]),
                ),
            )

    def events(self, run_id: str) -> list[Event]:
        """The run's history, oldest first."""
        rows = self.store.rows("SELECT * FROM events WHERE run_id = ? ORDER BY id", run_id)
        return [
            Event(r["at"], EventKind(r["kind"]), r["text"], json.loads(r["data"]), r["token"])
            for r in rows
        ]

    def has_event(self, run_id: str, kind: EventKind) -> bool:
        """Whether anything of this kind ever happened to the run."""
        query = "SELECT 1 FROM events WHERE run_id = ? AND kind = ? LIMIT 1"
        return self.store.row(query, run_id, kind.value) is not None

    def set_guard(
        self, run_id: str, node: int, config: Mapping[str, Any], status: Mapping[str, Any]
    ) -> None:
        """Store what a node's guard was told and what it last reported."""
        with self.store.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO guards (run_id, node, config, status, reported) VALUES (?, ?, ?, ?, ?)",
                (
                    run_id,
                    node,
                    json.dumps(dict(config)),
                    json.dumps(dict(status)),
                    self.clock.now(),
                ),
            )

    def set_guards(self, run_id: str, nodes: int, config: Mapping[str, Any]) -> None:
        """Store what the guards of so many nodes, the head first, are told from now on."""
        with self.together():
            for node in range(nodes):
                self.set_guard(run_id, node, config, {})

    def guard(
        self, run_id: str, node: int = 0
    ) -> tuple[dict[str, Any], dict[str, Any], Instant] | None:
        """Configuration, last status and its instant of a node's guard."""
        row = self.store.row("SELECT * FROM guards WHERE run_id = ? AND node = ?", run_id, node)
        return (
            None
            if row is None
            else (json.loads(row["config"]), json.loads(row["status"]), row["reported"])
        )

    def set_job(
        self,
        run_id: str,
        job_id: str,
        kind: str,
        command: str,
        state: str,
        exit_code: int | None = None,
    ) -> None:
        """Store a job and how far it came; told again without its command it keeps the one that is known."""
        now = self.clock.now()
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO jobs (run_id, job_id, kind, command, state, exit_code, started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run_id, job_id) DO UPDATE"
                " SET state = excluded.state, exit_code = excluded.exit_code, ended = excluded.ended,"
                " command = CASE WHEN excluded.command <> '' THEN excluded.command ELSE command END",
                (
                    run_id,
                    job_id,
                    kind,
                    storable(command),
                    state,
                    exit_code,
                    now,
                    None if exit_code is None and state in _LIVE else now,
                ),
            )

    def jobs(self, run_id: str) -> list[dict[str, Any]]:
        """The run's jobs as stored, oldest first."""
        return [
            dict(r)
            for r in self.store.rows(
                "SELECT * FROM jobs WHERE run_id = ? ORDER BY started, job_id", run_id
            )
        ]
