"""The runs of the ledger."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from nbprov.model.clock import Instant
from nbprov.model.clusters import RunState
from nbprov.model.errors import NbprovError
from nbprov.model.money import Micros
from nbprov.model.text.plain import printable

from .file_state.trouble import decoded
from .leases import LeaseTable
from .ledger_file import LedgerFile
from .rows import RunRow, run_row, storable
from .side_objects import DOUBT_SECONDS


class NameTaken(NbprovError):
    """A live cluster or launch already has this name."""

    code = "cluster.name-taken"


@decoded
class RunTable:
    """Open runs, change their states, and find those that a dead kernel left."""

    def __init__(self, file: LedgerFile, leases: LeaseTable) -> None:
        self._store = file.store
        self._clock = file.clock
        self._leases = leases

    def open(
        self,
        run_id: str,
        name: str,
        spec: str,
        *,
        folder: str,
        race: int,
        consent: Micros,
        state: RunState,
        wait_deadline: Instant | None = None,
        outputs_to: str = "",
    ) -> None:
        """Store a run and take its lease, before anything else happens in its name.

        Parameters
        ----------
        consent
            The highest hourly price of the whole cluster that was agreed to; it holds for every
            kernel that works on the run.
        wait_deadline
            The instant until which the run waits for stock; None if it does not wait.
        outputs_to
            The absolute folder for outputs that was agreed to.

        Raises
        ------
        NameTaken
            If a live cluster or an unfinished launch has this name.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            _require_free(db, name)
            row = {
                "run_id": run_id,
                "name": name,
                "state": state.value,
                "spec": storable(spec),
                "folder": folder,
                "outputs_to": outputs_to,
                "race": race,
                "consent": consent,
                "wait_deadline": wait_deadline,
                **self._leases.new(),
                "created": now,
                "updated": now,
            }
            columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
            db.execute(f"INSERT INTO runs ({columns}) VALUES ({values})", row)

    def move(self, run_id: str, state: RunState, message: str = "", error: str = "") -> None:
        """Move a run to another state.

        A final state gives up the lease once nothing of the run is pending (`release`).
        """
        with self._store.transaction() as db:
            self._leases.hold(db, run_id)
            db.execute(
                "UPDATE runs SET state = ?, message = ?, error = ?, updated = ? WHERE run_id = ?",
                (state.value, printable(message), printable(error), self._clock.now(), run_id),
            )

    def agree(self, run_id: str, hourly: Micros) -> None:
        """Raise what was agreed to for a run; it never becomes less."""
        with self._store.transaction() as db:
            db.execute(
                "UPDATE runs SET consent = max(consent, ?) WHERE run_id = ?", (hourly, run_id)
            )

    def prolong(self, run_id: str, wait_deadline: Instant) -> None:
        """Let a run wait for stock until a later time."""
        with self._store.transaction() as db:
            self._leases.hold(db, run_id)
            db.execute(
                "UPDATE runs SET wait_deadline = ?, updated = ? WHERE run_id = ?",
                (wait_deadline, self._clock.now(), run_id),
            )

    def rewrite_spec(self, run_id: str, spec: str, folder: str, outputs_to: str) -> None:
        """Replace the spec of a run, the folder of its paths, and that for outputs.

        It is used if the run's cluster continues under another spec.
        """
        with self._store.transaction() as db:
            db.execute(
                "UPDATE runs SET spec = ?, folder = ?, outputs_to = ?, updated = ?"
                " WHERE run_id = ?",
                (storable(spec), folder, outputs_to, self._clock.now(), run_id),
            )

    def request_cancel(self, run_id: str) -> None:
        """Store that a person cancelled the run.

        Whichever kernel works on it next ends its machines.
        """
        with self._store.transaction() as db:
            db.execute(
                "UPDATE runs SET cancelled = 1, updated = ? WHERE run_id = ?",
                (self._clock.now(), run_id),
            )

    def cancelled(self, run_ids: Iterable[str]) -> set[str]:
        """Return those of the runs that were cancelled, perhaps in another kernel."""
        ids = list(run_ids)
        marks = ", ".join("?" * len(ids))
        return (
            {
                r[0]
                for r in self._store.rows(
                    f"SELECT run_id FROM runs WHERE cancelled = 1 AND run_id IN ({marks})", *ids
                )
            }
            if ids
            else set()
        )

    def get(self, run_id: str) -> RunRow | None:
        """Return one run."""
        row = self._store.row("SELECT * FROM runs WHERE run_id = ?", run_id)
        return None if row is None else run_row(row)

    def latest(self, limit: int = -1, name: str = "") -> list[RunRow]:
        """Return runs, newest first: of a name or all, and by default however many there are."""
        where, names = ("WHERE name = ?", [name]) if name else ("", [])
        query = f"SELECT * FROM runs {where} ORDER BY created DESC LIMIT ?"
        return [run_row(r) for r in self._store.rows(query, *names, limit)]

    def last(self, name: str = "") -> RunRow | None:
        """Return the latest run, of a name or of all."""
        return next(iter(self.latest(1, name)), None)

    def count(self, name: str = "") -> int:
        """Return how many runs there are, of a name or in all."""
        where, names = ("WHERE name = ?", [name]) if name else ("", [])
        row = self._store.row(f"SELECT count(*) FROM runs {where}", *names)
        return 0 if row is None else int(row[0])

    def unfinished(self) -> list[RunRow]:
        """Return the runs that still need work.

        They are being launched or cancelled, wait for stock, or have a launch that may be on the
        bill beside a handed-over cluster.
        """
        return [run_row(r) for r in self._store.rows(_UNFINISHED)]

    def ended_since(self, since: Instant) -> list[RunRow]:
        """Return the runs that ended since an instant, or whose cluster did, latest first."""
        return [run_row(r) for r in self._store.rows(_ENDED_SINCE, since)]

    def over(self, run_ids: Iterable[str]) -> set[str]:
        """Return those of the runs that are over for good.

        Nothing of such a run is on the bill or may still come there, by all that the ledger knows,
        and no kernel is at work on it. Such a run never begins again. A run that is not in the
        ledger is not over: a launch may just begin, or another ledger may know it.
        """
        found = self._store.rows(
            _OVER, json.dumps(list(run_ids)), self._clock.now() - DOUBT_SECONDS
        )
        return {row[0] for row in found if not self._leases.is_held(row[0])}


_UNFINISHED = """
    SELECT * FROM runs WHERE run_id IN (
        SELECT run_id FROM runs WHERE state IN ('launching', 'waiting', 'cancelling')
        UNION SELECT run_id FROM launches
              WHERE state NOT IN ('refused', 'gone', 'absent') AND state <> 'ready'
        UNION SELECT run_id FROM clusters WHERE state <> 'ended' AND state = 'ending')
    ORDER BY created
"""
"""Each condition repeats that of a partial index word by word, since SQLite uses none otherwise."""

_ENDED_SINCE = """
    SELECT runs.* FROM (
        SELECT run_id, ended AS over FROM clusters WHERE ended >= ?1
        UNION ALL
        SELECT run_id, updated FROM runs AS run
        WHERE state IN ('cancelled', 'failed', 'ended') AND updated >= ?1
          AND NOT EXISTS (SELECT 1 FROM clusters WHERE run_id = run.run_id))
    JOIN runs USING (run_id) ORDER BY over DESC
"""

_OVER = """
    SELECT run_id FROM runs AS run
    WHERE run_id IN (SELECT value FROM json_each(?1))
      AND state IN ('cancelled', 'failed', 'ended')
      AND NOT EXISTS (SELECT 1 FROM clusters WHERE run_id = run.run_id AND state <> 'ended')
      AND NOT EXISTS (SELECT 1 FROM launches WHERE run_id = run.run_id
                      AND (state NOT IN ('refused', 'gone', 'absent')
                           OR (state = 'absent' AND coalesce(ended, ?2) >= ?2)))
      AND NOT EXISTS (SELECT 1 FROM replacements WHERE run_id = run.run_id
                      AND (state NOT IN ('ready', 'refused', 'gone', 'absent')
                           OR (state = 'absent' AND coalesce(ended, ?2) >= ?2)))
      AND NOT EXISTS (SELECT 1 FROM instances JOIN launches USING (token)
                      WHERE launches.run_id = run.run_id AND instances.state <> 'gone'
                        AND instances.last_seen > launches.ended)
"""
"""The last condition is a machine that was listed when its launch counted as over already."""


def _require_free(db: sqlite3.Connection, name: str) -> None:
    busy = db.execute(
        "SELECT state FROM clusters WHERE name = ? AND state <> 'ended' UNION ALL"
        " SELECT state FROM runs WHERE name = ?"
        " AND state IN ('launching', 'waiting', 'cancelling')",
        (name, name),
    ).fetchone()
    if busy is not None:
        raise NameTaken(
            f"a cluster called {name!r} is {busy[0]} already",
            hint=f"use another name, or end it: %nbprov down {name}",
        )
