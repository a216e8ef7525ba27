"""Create calls: the intent before each one, its operation, and the answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbprov.model.clock import Instant
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Failure
from nbprov.model.launches import CreateOperation, Launch
from nbprov.model.offers import SIMULATED, Candidate
from nbprov.model.text.plain import printable

from .file_state.trouble import decoded
from .leases import LeaseTable
from .ledger_file import LedgerFile
from .observations import ObservationTable
from .prices import PriceSegmentTable
from .rows import (
    AttemptRow,
    LaunchRow,
    attempt_row,
    candidate_of,
    dump,
    failure_of,
    launch_row,
    storable,
)


@dataclass(frozen=True, slots=True)
class LaunchTally:
    """How many launches a run has.

    Attributes
    ----------
    failed
        How many of them have a failure.
    sources
        Where their prices were read.
    """

    count: int
    failed: int
    sources: frozenset[str]

    @property
    def is_simulated(self) -> bool:
        """Whether nobody pays for any of them."""
        return self.sources == {SIMULATED}


@dataclass(frozen=True, slots=True)
class LastTried:
    """What a run asked for last, and the last failure of its launches; None where there is none."""

    candidate: Candidate | None
    failure: Failure | None


@decoded
class LaunchTable:
    """The requests to clouds and the clouds' answers."""

    def __init__(
        self,
        file: LedgerFile,
        leases: LeaseTable,
        prices: PriceSegmentTable,
        observations: ObservationTable,
    ) -> None:
        self._store = file.store
        self._clock = file.clock
        self._leases = leases
        self._prices = prices
        self._observations = observations

    def intend(self, row: LaunchRow) -> None:
        """Commit an intent: the launch, its price, its slot and its lease.

        A create may be sent only after that.
        """
        with self._store.transaction() as db:
            self._leases.hold(db, row.run_id)
            db.execute(
                "INSERT INTO launches (token, run_id, number, slot, cloud, account, state,"
                " candidate, launch, keys, hourly, deadline, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    row.token,
                    row.run_id,
                    row.number,
                    row.slot,
                    row.cloud,
                    row.candidate.account,
                    row.state.value,
                    dump(row.candidate),
                    dump(row.launch),
                    row.keys,
                    row.candidate.hourly,
                    row.deadline,
                    row.created,
                ),
            )
            self._begin_attempt(db, row.token)

    def intend_again(self, token: str, launch: Launch) -> None:
        """Commit that a launch is sent once more, after a rate limit or a passing fault.

        It keeps its token and gets a new `answer_by`.
        """
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = 'intent', launch = ?, candidate = ?, hourly = ?,"
                " deadline = ?, operation = NULL WHERE token = ?",
                (
                    dump(launch),
                    dump(launch.candidate),
                    launch.candidate.hourly,
                    launch.answer_by,
                    token,
                ),
            )
            self._begin_attempt(db, token)

    def reprice(self, token: str, launch: Launch) -> None:
        """Store the price at which a create is sent again."""
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            candidate = launch.candidate
            db.execute(
                "UPDATE launches SET launch = ?, candidate = ?, hourly = ? WHERE token = ?",
                (dump(launch), dump(candidate), candidate.hourly, token),
            )

    def prolong(self, token: str, launch: Launch) -> None:
        """Commit that a launch which made too few machines is sent once more for the rest.

        It gets a new `answer_by`.
        """
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET launch = ?, deadline = ? WHERE token = ?",
                (dump(launch), launch.answer_by, token),
            )

    def sent(self, token: str, operation: CreateOperation) -> None:
        """Store the operation before it is followed."""
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = 'sent', operation = ? WHERE token = ?",
                (dump(operation), token),
            )

    def accepted(self, token: str, ids: Sequence[str]) -> None:
        """Store the ids of the machines that were made; the price runs from now on."""
        now = self._clock.now()
        with self._store.transaction() as db:
            run_id = self._run_of(db, token)
            self._leases.hold(db, run_id)
            db.execute(
                "UPDATE launches SET state = 'accepted', ids = ? WHERE token = ?",
                (json.dumps(list(ids)), token),
            )
            self._answer(db, token, "accepted", None)
            row = db.execute("SELECT * FROM launches WHERE token = ?", (token,)).fetchone()
            candidate = candidate_of(row["candidate"])
            self._prices.start(db, run_id, token, ids, candidate.offer.hourly, now)
            self._observations.add(db, "attempt", candidate, "accepted", now - row["created"])

    def failed(self, token: str, failure: Failure, state: AttemptState) -> None:
        """Store why a launch failed and its new state (refused, absent, unknown, ending)."""
        now = self._clock.now()
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = ?, failure = ?, ended = CASE WHEN ? THEN ? END"
                " WHERE token = ?",
                (state.value, dump(failure), state.is_final, now, token),
            )
            if state.is_final:
                self._prices.end(db, token, now)
            outcome = {AttemptState.UNKNOWN: "unknown"}.get(state, "refused")
            self._answer(db, token, outcome, failure)
            row = db.execute(
                "SELECT candidate, created FROM launches WHERE token = ?", (token,)
            ).fetchone()
            self._observations.add(
                db,
                "attempt",
                candidate_of(row["candidate"]),
                failure.cause.value,
                now - row["created"],
            )

    def move(self, token: str, state: AttemptState) -> None:
        """Move a launch to another state (booting, ssh, agent, ready, ending, gone, absent).

        `gone` and `absent` end its price.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            self._leases.hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = ?, ended = CASE WHEN ? THEN ? END WHERE token = ?",
                (state.value, state.is_final, now, token),
            )
            if state.is_final:
                self._prices.end(db, token, now)
                self._answer(db, token, "refused", None)

    def of_run(self, run_id: str) -> list[LaunchRow]:
        """Return all launches of a run, oldest first."""
        return [
            launch_row(r)
            for r in self._store.rows(
                "SELECT * FROM launches WHERE run_id = ? ORDER BY number", run_id
            )
        ]

    def by_token(self, token: str) -> LaunchRow | None:
        """Return one launch."""
        row = self._store.row("SELECT * FROM launches WHERE token = ?", token)
        return None if row is None else launch_row(row)

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """Return all launches of a run without their requests, oldest first."""
        return self._attempts("WHERE run_id = ? ORDER BY number", run_id)

    def live_attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the launches of a run that may be on the bill, oldest first."""
        # The plus keeps SQLite from the index of the run, which has all that were refused, too.
        where = "WHERE +run_id = ? AND state NOT IN ('refused', 'gone', 'absent') ORDER BY number"
        return self._attempts(where, run_id)

    def latest_attempts(self, run_id: str, limit: int) -> list[AttemptRow]:
        """Return the latest launches of a run, oldest first."""
        return self._attempts("WHERE run_id = ? ORDER BY number DESC LIMIT ?", run_id, limit)[::-1]

    def paid_attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the launches of a run that were on the bill, oldest first."""
        where = "WHERE token IN (SELECT token FROM price_segments WHERE run_id = ?) ORDER BY number"
        return self._attempts(where, run_id)

    def count(self, run_id: str) -> int:
        """Return how many launches a run has."""
        row = self._store.row("SELECT count(*) FROM launches WHERE run_id = ?", run_id)
        return 0 if row is None else int(row[0])

    def _attempts(self, where: str, *args: object) -> list[AttemptRow]:
        query = (
            "SELECT token, run_id, number, cloud, state, candidate, failure, created, ended"
            f" FROM launches {where}"
        )
        return [attempt_row(r) for r in self._store.rows(query, *args)]

    def candidates_since(self, since: Instant, limit: int) -> list[Candidate]:
        """Return what was asked for since an instant, latest first; at most `limit` of them."""
        query = "SELECT candidate FROM launches WHERE created >= ? ORDER BY created DESC LIMIT ?"
        return [candidate_of(r["candidate"]) for r in self._store.rows(query, since, limit)]

    def live_tokens(self) -> set[str]:
        """Return the tokens of launches that may be on the bill.

        A machine of any other launch has no owner, whatever was once concluded of it.
        """
        return {
            r[0]
            for r in self._store.rows(
                "SELECT token FROM launches WHERE state NOT IN ('refused', 'gone', 'absent')"
            )
        }

    def ids_of(self, token: str) -> tuple[str, ...]:
        """Return the ids of the machines that a launch made, as the cloud answered."""
        row = self._store.row("SELECT ids FROM launches WHERE token = ?", token)
        return () if row is None else tuple(json.loads(row["ids"]))

    def live_clouds(self) -> set[str]:
        """Return the clouds with a launch that may be on the bill."""
        # Without DISTINCT, for which SQLite would read the index of all clouds instead.
        query = "SELECT cloud FROM launches WHERE state NOT IN ('refused', 'gone', 'absent')"
        return {r[0] for r in self._store.rows(query)}

    def clouds(self) -> set[str]:
        """Return the clouds that were ever asked for a machine."""
        return {r[0] for r in self._store.rows("SELECT DISTINCT cloud FROM launches")}

    def live_states(self) -> list[tuple[str, str]]:
        """Return the token and the state of each launch that may be on the bill."""
        return [
            (r[0], r[1])
            for r in self._store.rows(
                "SELECT token, state FROM launches WHERE state NOT IN ('refused', 'gone', 'absent')"
            )
        ]

    def tally(self, run_id: str) -> LaunchTally:
        """Return how many launches a run has."""
        rows = self._store.rows(
            "SELECT json_extract(candidate, '$.offer.source') AS source, count(*) AS count,"
            " count(failure) AS failed FROM launches WHERE run_id = ? GROUP BY source",
            run_id,
        )
        return LaunchTally(
            sum(row["count"] for row in rows),
            sum(row["failed"] for row in rows),
            frozenset(row["source"] or "" for row in rows),
        )

    def last(self, run_id: str) -> LastTried:
        """Return what a run asked for last, and the last failure of its launches."""
        query = "SELECT {} FROM launches WHERE run_id = ? {} ORDER BY number DESC LIMIT 1"
        tried = self._store.row(query.format("candidate", ""), run_id)
        failed = self._store.row(query.format("failure", "AND failure IS NOT NULL"), run_id)
        return LastTried(
            None if tried is None else candidate_of(tried["candidate"]),
            None if failed is None else failure_of(failed["failure"]),
        )

    def known(self, tokens: Iterable[str]) -> set[str]:
        """Return those of the tokens that this ledger ever committed."""
        query = "SELECT token FROM launches WHERE token IN (SELECT value FROM json_each(?))"
        return {r[0] for r in self._store.rows(query, json.dumps(list(tokens)))}

    def _begin_attempt(self, db: sqlite3.Connection, token: str) -> None:
        db.execute("INSERT INTO attempts (token, sent) VALUES (?, ?)", (token, self._clock.now()))

    @staticmethod
    def _run_of(db: sqlite3.Connection, token: str) -> str:
        return str(
            db.execute("SELECT run_id FROM launches WHERE token = ?", (token,)).fetchone()[0]
        )

    def _answer(
        self, db: sqlite3.Connection, token: str, outcome: str, failure: Failure | None
    ) -> None:
        db.execute(
            "UPDATE attempts SET answered = ?, outcome = ?, cause = ?, code = ?, message = ?"
            " WHERE id = (SELECT max(id) FROM attempts WHERE token = ?) AND outcome IS NULL",
            (
                self._clock.now(),
                outcome,
                failure.cause.value if failure else None,
                storable(failure.code) if failure else None,
                printable(failure.message) if failure else None,
                token,
            ),
        )
