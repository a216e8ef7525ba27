"""Launches and attempts: intents before creates, operations, answers, and the price from acceptance to the end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from nbprov.market import Observation, Pool
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Failure
from nbprov.model.launches import Instance, Launch, Operation
from nbprov.model.money import Micros, cost_of
from nbprov.model.offers import Candidate

from .leases import Leases
from .rows import LaunchRow, candidate_of, dump, launch_row, storable

OBSERVATIONS_READ = 5_000
"""More answers than this tell a plan nothing new, and would slow it down."""


class Launches(Leases):
    """What was asked of a cloud and what it answered."""

    def intend(self, row: LaunchRow) -> None:
        """Commit an intent: the launch, its price, its slot and its lease. Only then may a create be sent."""
        with self.store.transaction() as db:
            self._hold(db, row.run_id)
            db.execute(
                "INSERT INTO launches (token, run_id, number, slot, cloud, account, state, candidate, launch, keys, hourly, deadline, created)"
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
        """Commit that a launch is sent once more (rate limit, passing fault), with the same token and a new `answer_by`."""
        with self.store.transaction() as db:
            self._hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = 'intent', launch = ?, candidate = ?, hourly = ?, deadline = ?, operation = NULL WHERE token = ?",
                (
                    dump(launch),
                    dump(launch.candidate),
                    launch.candidate.hourly,
                    launch.answer_by,
                    token,
                ),
            )
            self._begin_attempt(db, token)

    def prolong(self, token: str, launch: Launch) -> None:
        """Commit that a launch which made fewer machines than asked for is sent once more for the rest, with a new `answer_by`."""
        with self.store.transaction() as db:
            self._hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET launch = ?, deadline = ? WHERE token = ?",
                (dump(launch), launch.answer_by, token),
            )

    def _begin_attempt(self, db: sqlite3.Connection, token: str) -> None:
        db.execute("INSERT INTO attempts (token, sent) VALUES (?, ?)", (token, self.clock.now()))

    @staticmethod
    def _run_of(db: sqlite3.Connection, token: str) -> str:
        return str(
            db.execute("SELECT run_id FROM launches WHERE token = ?", (token,)).fetchone()[0]
        )

    def sent(self, token: str, operation: Operation) -> None:
        """Store the operation before it is followed."""
        with self.store.transaction() as db:
            self._hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = 'sent', operation = ? WHERE token = ?",
                (dump(operation), token),
            )

    def accepted(self, token: str, ids: Sequence[str]) -> None:
        """Store the ids of what was made; from now on the price runs."""
        now = self.clock.now()
        with self.store.transaction() as db:
            run_id = self._run_of(db, token)
            self._hold(db, run_id)
            db.execute(
                "UPDATE launches SET state = 'accepted', ids = ? WHERE token = ?",
                (json.dumps(list(ids)), token),
            )
            self._answer(db, token, "accepted", None)
            row = db.execute("SELECT * FROM launches WHERE token = ?", (token,)).fetchone()
            candidate = candidate_of(row["candidate"])
            self._open_segments(db, run_id, token, ids, candidate.offer.hourly, now)
            self._observe(db, "attempt", candidate, "accepted", now - row["created"])

    @staticmethod
    def _open_segments(
        db: sqlite3.Connection,
        run_id: str,
        token: str,
        ids: Iterable[str],
        hourly: Micros,
        now: Instant,
    ) -> None:
        db.executemany(
            "INSERT OR IGNORE INTO price_segments (run_id, token, instance_id, kind, hourly, started) VALUES (?, ?, ?, 'compute', ?, ?)",
            [(run_id, token, instance_id, hourly, now) for instance_id in ids],
        )

    def _price_listed(self, db: sqlite3.Connection, instance: Instance) -> None:
        """Let the price of a machine run from when its cloud says it began, and that of one which nobody told us of from then on.

        Only its first segment is moved, never to before its launch was written down: clouds name the first start or the last one.
        """
        launch = db.execute(
            "SELECT run_id, state, candidate, created FROM launches WHERE token = ?",
            (instance.token,),
        ).fetchone()
        if launch is None:
            return
        now = self.clock.now()
        began = max(launch["created"], min(instance.launched_at or now, now))
        first = db.execute(
            "SELECT id, started FROM price_segments WHERE token = ? AND instance_id = ? ORDER BY id LIMIT 1",
            (instance.token, instance.id),
        ).fetchone()
        if first is not None:
            if began < first["started"]:
                db.execute(
                    "UPDATE price_segments SET started = ? WHERE id = ?", (began, first["id"])
                )
        elif instance.state.is_billed and not AttemptState(launch["state"]).is_final:
            hourly = candidate_of(launch["candidate"]).offer.hourly
            self._open_segments(db, launch["run_id"], instance.token, (instance.id,), hourly, began)

    def failed(self, token: str, failure: Failure, state: AttemptState) -> None:
        """Store why a launch failed and where that leaves it (refused, absent, unknown, ending)."""
        now = self.clock.now()
        with self.store.transaction() as db:
            self._hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = ?, failure = ?, ended = CASE WHEN ? THEN ? END WHERE token = ?",
                (state.value, dump(failure), state.is_final, now, token),
            )
            if state.is_final:
                self._close_segments(db, token, now)
            outcome = {AttemptState.UNKNOWN: "unknown"}.get(state, "refused")
            self._answer(db, token, outcome, failure)
            row = db.execute(
                "SELECT candidate, created FROM launches WHERE token = ?", (token,)
            ).fetchone()
            self._observe(
                db,
                "attempt",
                candidate_of(row["candidate"]),
                failure.cause.value,
                now - row["created"],
            )

    def _answer(
        self, db: sqlite3.Connection, token: str, outcome: str, failure: Failure | None
    ) -> None:
        db.execute(
            "UPDATE attempts SET answered = ?, outcome = ?, cause = ?, code = ?, message = ?"
            " WHERE id = (SELECT max(id) FROM attempts WHERE token = ?) AND outcome IS NULL",
            (
                self.clock.now(),
                outcome,
                failure.cause.value if failure else None,
                storable(failure.code) if failure else None,
                storable(failure.message) if failure else None,
                token,
            ),
        )

    def set_launch(self, token: str, state: AttemptState) -> None:
        """Move a launch on (booting, ssh, agent, ready, ending, gone, absent). `gone` and `absent` end its price."""
        now = self.clock.now()
        with self.store.transaction() as db:
            self._hold(db, self._run_of(db, token))
            db.execute(
                "UPDATE launches SET state = ?, ended = CASE WHEN ? THEN ? END WHERE token = ?",
                (state.value, state.is_final, now, token),
            )
            if state.is_final:
                self._close_segments(db, token, now)
                self._answer(db, token, "refused", None)

    @staticmethod
    def _close_segments(
        db: sqlite3.Connection, token: str, now: Instant, instance_id: str | None = None
    ) -> None:
        db.execute(
            "UPDATE price_segments SET ended = ? WHERE token = ? AND ended IS NULL AND (? IS NULL OR instance_id = ?)",
            (now, token, instance_id, instance_id),
        )

    def launches(self, run_id: str) -> list[LaunchRow]:
        """All launches of a run, oldest first."""
        return [
            launch_row(r)
            for r in self.store.rows(
                "SELECT * FROM launches WHERE run_id = ? ORDER BY number", run_id
            )
        ]

    def costs(self, run_id: str) -> dict[str, Micros]:
        """What each launch of a run has cost so far, failed attempts included, by token."""
        now, spent = self.clock.now(), dict[str, Micros]()
        for r in self.store.rows(
            "SELECT token, hourly, started, ended FROM price_segments WHERE run_id = ?", run_id
        ):
            seconds = (r["ended"] if r["ended"] is not None else now) - r["started"]
            spent[r["token"]] = spent.get(r["token"], 0) + cost_of(r["hourly"], seconds)
        return spent

    def accept_seconds(self, cloud: str, limit: int) -> list[Seconds]:
        """How long the latest accepted creates of a cloud took from the request to the acceptance, at most `limit` of them."""
        query = (
            "SELECT seconds FROM observations WHERE kind = 'attempt' AND cloud = ? AND outcome = 'accepted' AND seconds IS NOT NULL"
            " ORDER BY id DESC LIMIT ?"
        )
        return [float(r[0]) for r in self.store.rows(query, cloud, limit)]

    def observations(self, since: Instant) -> list[Observation]:
        """What attempts from an instant on were answered, oldest first; of very many the latest."""
        query = "SELECT * FROM (SELECT * FROM observations WHERE kind = 'attempt' AND at >= ? ORDER BY at DESC, id DESC LIMIT ?) ORDER BY at, id"
        return [
            Observation(
                at=r["at"],
                pool=Pool(r["cloud"], r["region"], r["zone"], r["instance_type"], r["market"]),
                outcome=r["outcome"],
                count=r["count"],
                seconds=r["seconds"],
            )
            for r in self.store.rows(query, since, OBSERVATIONS_READ)
        ]

    def live_clouds(self) -> set[str]:
        """Clouds with a launch that may be on the bill."""
        return {
            r[0]
            for r in self.store.rows(
                "SELECT DISTINCT cloud FROM launches WHERE state NOT IN ('refused', 'gone', 'absent')"
            )
        }

    def tokens(self) -> set[str]:
        """Every token this ledger ever committed."""
        return {r[0] for r in self.store.rows("SELECT token FROM launches")}

    def _observe(
        self,
        db: sqlite3.Connection,
        kind: str,
        candidate: Candidate,
        outcome: str,
        seconds: Seconds | None,
    ) -> None:
        offer = candidate.offer
        db.execute(
            "INSERT INTO observations (at, kind, cloud, account, region, zone, instance_type, market, count, outcome, seconds)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.clock.now(),
                kind,
                offer.cloud,
                candidate.account,
                offer.region,
                offer.zone,
                offer.instance_type,
                offer.market.value,
                candidate.count,
                outcome,
                seconds,
            ),
        )
