"""Jobs: what was queued on machines, and its progress."""

from __future__ import annotations

from typing import Any

from .file_state.trouble import decoded
from .ledger_file import LedgerFile
from .rows import storable

_LIVE = ("queued", "running")


@decoded
class JobTable:
    """The jobs of runs."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock

    def set(
        self,
        run_id: str,
        job_id: str,
        kind: str,
        command: str,
        state: str,
        exit_code: int | None = None,
    ) -> None:
        """Store a job and its progress; a job without its command keeps the stored one."""
        now = self._clock.now()
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO jobs (run_id, job_id, kind, command, state, exit_code, started,"
                " ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run_id, job_id) DO UPDATE"
                " SET state = excluded.state, exit_code = excluded.exit_code, ended ="
                " excluded.ended,"
                " command = CASE WHEN excluded.command <> '' THEN excluded.command ELSE command"
                " END",
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

    def of_run(self, run_id: str) -> list[dict[str, Any]]:
        """Return the run's jobs as stored, oldest first."""
        return [
            dict(r)
            for r in self._store.rows(
                "SELECT * FROM jobs WHERE run_id = ? ORDER BY started, job_id", run_id
            )
        ]
