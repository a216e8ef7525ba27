"""Prices: a segment for each time that a machine was on the bill, and what runs cost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.launches import Instance
from nbprov.model.money import Micros, cost_of

from .file_state.trouble import decoded
from .ledger_file import LedgerFile
from .rows import candidate_of

LEARNT_AT_ONCE = 200
"""So many launches are read by one query of what was on the bill."""


@dataclass(frozen=True, slots=True)
class PriceSegment:
    """A time that one machine was on the bill, at one price an hour.

    Attributes
    ----------
    cloud
        Empty where the ledger does not know any more.
    source
        Where the price was read.
    ended
        Now, for what is still on the bill.
    """

    cloud: str
    source: str
    hourly: Micros
    started: Instant
    ended: Instant
    is_open: bool

    def cost(self, since: Instant, until: Instant) -> Micros:
        """What it cost between two instants."""
        seconds = min(self.ended, until) - max(self.started, since)
        return cost_of(self.hourly, seconds) if seconds > 0 else 0


@decoded
class PriceSegmentTable:
    """Price segments: what each machine costs an hour, and from when to when."""

    def __init__(self, file: LedgerFile) -> None:
        self._store = file.store
        self._clock = file.clock
        # Kept, because the rows of launches are wide and what is read of them never changes.
        self._origins: dict[str, tuple[str, str]] = {}

    @staticmethod
    def start(
        db: sqlite3.Connection,
        run_id: str,
        token: str,
        ids: Iterable[str],
        hourly: Micros,
        now: Instant,
    ) -> None:
        db.executemany(
            "INSERT OR IGNORE INTO price_segments (run_id, token, instance_id, kind, hourly,"
            " started) VALUES (?, ?, ?, 'compute', ?, ?)",
            [(run_id, token, instance_id, hourly, now) for instance_id in ids],
        )

    @staticmethod
    def end(
        db: sqlite3.Connection, token: str, now: Instant, instance_id: str | None = None
    ) -> None:
        db.execute(
            "UPDATE price_segments SET ended = ? WHERE token = ? AND ended IS NULL AND (? IS"
            " NULL OR instance_id = ?)",
            (now, token, instance_id, instance_id),
        )

    @staticmethod
    def stopped(db: sqlite3.Connection, instance: Instance, now: Instant) -> None:
        """End the price of a machine at the time that its cloud tells, or now.

        A time from before the segment is that of an earlier stop.
        """
        at = min(instance.stopped_at or now, now)
        db.execute(
            "UPDATE price_segments SET ended = CASE WHEN ? > started THEN ? ELSE ? END"
            " WHERE token = ? AND instance_id = ? AND ended IS NULL",
            (at, at, now, instance.token, instance.id),
        )

    def listed(self, db: sqlite3.Connection, instance: Instance) -> None:
        """Start the price of a machine at the time that its cloud reports.

        The price of a machine that nobody had announced starts then too. Only the first segment is
        moved, and never to before its launch was stored, since some clouds report the first start
        and others the last one.
        """
        launch = db.execute(
            "SELECT run_id, state, candidate, created FROM launches WHERE token = ?",
            (instance.token,),
        ).fetchone()
        if launch is None:
            return
        now = self._clock.now()
        began = max(launch["created"], min(instance.launched_at or now, now))
        first = db.execute(
            "SELECT id, started FROM price_segments WHERE token = ? AND instance_id = ? ORDER BY"
            " id LIMIT 1",
            (instance.token, instance.id),
        ).fetchone()
        if first is not None:
            if began < first["started"]:
                db.execute(
                    "UPDATE price_segments SET started = ? WHERE id = ?", (began, first["id"])
                )
        elif instance.state.is_billed and not AttemptState(launch["state"]).is_final:
            hourly = candidate_of(launch["candidate"]).offer.hourly
            self.start(db, launch["run_id"], instance.token, (instance.id,), hourly, began)

    def differing(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return the billed machines whose cloud tells another price than the one that runs.

        A price of nothing is no statement: a cloud may not have set it yet.
        """
        told = [i for i in instances if i.hourly and i.state.is_billed]
        running = {token: self.running(token) for token in {i.token for i in told}}
        return [i for i in told if running[i.token].get(i.id, i.hourly) != i.hourly]

    def follow(
        self, db: sqlite3.Connection, instance: Instance, now: Instant, told_before: bool
    ) -> None:
        """Book the price that a cloud tells of a machine.

        Parameters
        ----------
        told_before
            Whether an earlier listing told a price: then this one holds from now on, and otherwise
            since the machine is on the bill.
        """
        running = db.execute(
            "SELECT id, run_id FROM price_segments WHERE token = ? AND instance_id = ? AND ended"
            " IS NULL",
            (instance.token, instance.id),
        ).fetchone()
        if told_before:
            self.end(db, instance.token, now, instance.id)
            hourly = instance.hourly or 0
            self.start(db, running["run_id"], instance.token, (instance.id,), hourly, now)
        else:
            db.execute(
                "UPDATE price_segments SET hourly = ? WHERE id = ?",
                (instance.hourly, running["id"]),
            )

    def cost(self, run_id: str, token: str | None = None) -> Micros:
        """Return the cost so far of a run or one of its launches, including failed attempts."""
        now = self._clock.now()
        rows = self._store.rows(
            "SELECT hourly, started, ended FROM price_segments WHERE run_id = ? AND (? IS NULL"
            " OR token = ?)",
            run_id,
            token,
            token,
        )
        return sum(
            cost_of(r["hourly"], (r["ended"] if r["ended"] is not None else now) - r["started"])
            for r in rows
        )

    def uptime(self, token: str) -> Seconds:
        """Return how long the machines of a launch were on the bill, stops left out."""
        now, total, until = self._clock.now(), 0.0, 0.0
        for r in self._store.rows(
            "SELECT started, ended FROM price_segments WHERE token = ? ORDER BY started", token
        ):
            # Nodes run at the same time, and time counts once.
            ended = r["ended"] if r["ended"] is not None else now
            total += max(0.0, ended - max(r["started"], until))
            until = max(until, ended)
        return total

    def by_launch(self, run_id: str) -> dict[str, Micros]:
        """Return the cost of each launch of a run so far, by token, including failed attempts."""
        now, spent = self._clock.now(), dict[str, Micros]()
        for r in self._store.rows(
            "SELECT token, hourly, started, ended FROM price_segments WHERE run_id = ?", run_id
        ):
            seconds = (r["ended"] if r["ended"] is not None else now) - r["started"]
            spent[r["token"]] = spent.get(r["token"], 0) + cost_of(r["hourly"], seconds)
        return spent

    def segments(self, since: Instant | None = None) -> list[PriceSegment]:
        """Return all that was on the bill, at any time or after an instant.

        What still is on it ends now.
        """
        if since is None:
            return self._segments("")
        return self._segments("WHERE segment.ended > ? OR segment.ended IS NULL", since)

    def segments_before(self, until: Instant) -> list[PriceSegment]:
        """Return all that was on the bill and no longer is since an instant."""
        return self._segments("WHERE segment.ended <= ?", until)

    def count_before(self, until: Instant) -> int:
        """Return the number of segments that `segments_before` returns."""
        row = self._store.row("SELECT count(*) FROM price_segments WHERE ended <= ?", until)
        return 0 if row is None else int(row[0])

    def _segments(self, where: str, *args: object) -> list[PriceSegment]:
        now = self._clock.now()
        query = f"SELECT token, hourly, started, ended FROM price_segments AS segment {where}"
        rows = self._store.rows(query, *args)
        self._learn({r["token"] for r in rows} - self._origins.keys())
        return [
            PriceSegment(
                *self._origins.get(r["token"], ("", "")),
                int(r["hourly"]),
                r["started"],
                r["ended"] if r["ended"] is not None else now,
                r["ended"] is None,
            )
            for r in rows
        ]

    def _learn(self, tokens: Collection[str]) -> None:
        """Read the clouds of launches and the sources of their prices."""
        query = (
            "SELECT token, cloud, json_extract(candidate, '$.offer.source') AS source"
            " FROM launches WHERE token IN (SELECT value FROM json_each(?))"
        )
        left = list(tokens)
        while left:
            # A few at a time, since all other threads wait for the ledger meanwhile.
            some, left = left[:LEARNT_AT_ONCE], left[LEARNT_AT_ONCE:]
            for r in self._store.rows(query, json.dumps(some)):
                self._origins[r["token"]] = r["cloud"], r["source"] or ""

    def last(self, token: str) -> dict[str, Micros]:
        """Return the present or last hourly price of each machine of a launch, by its id."""
        return {
            r[0]: int(r[1])
            for r in self._store.rows(
                "SELECT instance_id, hourly FROM price_segments WHERE token = ? ORDER BY id", token
            )
        }

    def running(self, token: str) -> dict[str, Micros]:
        """Return the present hourly price of each machine of a launch on the bill, by its id."""
        return {
            r[0]: int(r[1])
            for r in self._store.rows(
                "SELECT instance_id, hourly FROM price_segments WHERE token = ? AND ended IS NULL",
                token,
            )
        }

    def hourly_now(self, token: str) -> Micros:
        """Return the present hourly price of a launch."""
        row = self._store.row(
            "SELECT coalesce(sum(hourly), 0) FROM price_segments WHERE token = ? AND ended IS NULL",
            token,
        )
        return int(row[0]) if row is not None else 0
