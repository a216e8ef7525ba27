"""Side objects: what launches left beside their machines (disks, addresses, groups, keys)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nbprov.model.clock import Instant, Seconds
from nbprov.model.events import EventKind
from nbprov.model.launches import SideObject

from .events import EventTable
from .ledger_file import LedgerFile
from .rows import storable

REMOVED_KEPT: Seconds = 7 * 24 * 3600.0

"""What was removed stays in the table so long, for whoever asks what became of it."""

DOUBT_SECONDS: Seconds = 3600.0

"""A create that was concluded to have made nothing may do so late (a queue behind the cloud's
service, a laptop that slept): so long its cloud is looked at again, and a kernel that loads
meanwhile does so too.
"""


class SideState(StrEnum):
    """How far a side object is on its way out."""

    THERE = "there"
    IN_USE = "in_use"
    REMOVING = "removing"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SideRow:
    """A row of `side_objects`.

    Attributes
    ----------
    since, seen
        When it was first listed, and when last.
    reason
        Why it could not be removed yet; empty where nobody tried or nothing stood in the way.
    """

    object: SideObject
    state: SideState
    since: Instant
    seen: Instant
    reason: str = ""


class SideObjectTable:
    """What the clouds list beside our machines."""

    def __init__(self, file: LedgerFile, events: EventTable) -> None:
        self._store = file.store
        self._clock = file.clock
        self._events = events

    def expect(self, cloud: str, token: str) -> None:
        """Note, with an intent, that its launch may leave something.

        A kernel that is killed before any list shows it must not forget to look.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO side_objects VALUES (?, '', '', ?, ?, 0, 'there', ?, ?, '')",
                (cloud, token, token, now, now),
            )

    def over(self, cloud: str) -> set[str]:
        """Launches that are certainly over and whose side objects were not listed since."""
        query = (
            "SELECT s.token FROM side_objects s JOIN launches l ON l.token = s.token"
            " WHERE s.cloud = ? AND s.kind = '' AND l.state IN ('refused', 'gone', 'absent')"
        )
        return {r[0] for r in self._store.rows(query, cloud)} - self.doubted(cloud)

    def doubted(self, cloud: str) -> set[str]:
        """Launches of which nothing was found after a lost answer, so short a while ago that
        something may yet appear.
        """
        query = "SELECT token FROM launches WHERE cloud = ? AND state = 'absent' AND ended > ?"
        return {r[0] for r in self._store.rows(query, cloud, self._clock.now() - DOUBT_SECONDS)}

    def accounts(self, cloud: str) -> dict[str, str]:
        """The account, by token, of each launch that may have side objects left."""
        query = (
            "SELECT DISTINCT l.token, l.account FROM launches l JOIN side_objects s ON s.token ="
            " l.token"
            " WHERE s.cloud = ? AND s.state <> 'removed'"
        )
        return {r["token"]: r["account"] for r in self._store.rows(query, cloud)}

    def seen(
        self,
        cloud: str,
        listed: Iterable[SideObject],
        over: Collection[str] = (),
        *,
        unseen: Collection[str] = (),
    ) -> None:
        """Store a whole listing of one cloud: what is new, what is there still, and what is there
        no more and so removed.

        Parameters
        ----------
        over
            Launches that were over when it was asked for (`side_over`): all that they left is in
            it.
        unseen
            Launches of which this listing tells nothing: it is of another account than theirs.
        """
        now, rows = self._clock.now(), {_key(o): o for o in listed}
        known = {
            _key(row.object): row
            for row in self._rows("WHERE cloud = ? AND state <> 'removed'", cloud)
        }
        if not rows and not known and not over:
            return
        with self._store.transaction() as db:
            for thing in rows.values():
                # What comes back after it counted as removed begins anew; what is being removed
                # stays so.
                db.execute(
                    "INSERT INTO side_objects (cloud, region, kind, id, token, shared, state,"
                    " seen, since) VALUES (?, ?, ?, ?, ?, ?, 'there', ?, ?)"
                    " ON CONFLICT (cloud, region, kind, id) DO UPDATE SET token ="
                    " excluded.token, shared = excluded.shared, seen = excluded.seen,"
                    " since = CASE WHEN state = 'removed' THEN excluded.since ELSE since END,"
                    " state = CASE WHEN state = 'removed' THEN 'there' ELSE state END",
                    (*_key(thing), thing.token, thing.shared, now, now),
                )
            for key, row in known.items():
                if key not in rows and row.object.token not in unseen:
                    self._set(db, key, SideState.REMOVED, "")
                    self._note_removed(db, row.object)
            db.executemany(
                "DELETE FROM side_objects WHERE cloud = ? AND kind = '' AND token = ?",
                [(cloud, token) for token in over if token not in unseen],
            )
            db.execute(
                "DELETE FROM side_objects WHERE state = 'removed' AND seen < ?",
                (now - REMOVED_KEPT,),
            )

    def tried(self, outcome: Mapping[SideObject, tuple[SideState, str]]) -> None:
        """Store what an attempt to remove side objects came to.

        The state of each, and why it is not gone.
        """
        if outcome:
            with self._store.transaction() as db:
                for thing, (state, reason) in outcome.items():
                    self._set(db, _key(thing), state, reason)

    def listed(self, cloud: str = "", *, all_of_them: bool = False) -> list[SideRow]:
        """Side objects that were not removed yet (of one cloud), oldest first; with `all_of_them`
        those that were, too.
        """
        where = "WHERE (? = '' OR cloud = ?)" + ("" if all_of_them else " AND state <> 'removed'")
        return self._rows(where, cloud, cloud)

    def clouds(self) -> set[str]:
        """Clouds with a side object that serves one launch alone and was not removed yet, or with a
        launch that may have left one.
        """
        return {
            r[0]
            for r in self._store.rows(
                "SELECT DISTINCT cloud FROM side_objects WHERE shared = 0 AND state <> 'removed'"
            )
        }

    def _rows(self, where: str, *args: object) -> list[SideRow]:
        query = (
            f"SELECT * FROM side_objects {where} AND kind <> '' ORDER BY since, cloud,"
            " region, kind, id"
        )
        return [
            SideRow(
                SideObject(
                    r["cloud"], r["region"], r["kind"], r["id"], r["token"], bool(r["shared"])
                ),
                SideState(r["state"]),
                r["since"],
                r["seen"],
                r["reason"],
            )
            for r in self._store.rows(query, *args)
        ]

    @staticmethod
    def _set(
        db: sqlite3.Connection, key: tuple[str, str, str, str], state: SideState, reason: str
    ) -> None:
        db.execute(
            "UPDATE side_objects SET state = ?, reason = ? WHERE cloud = ? AND region = ? AND"
            " kind = ? AND id = ?",
            (state.value, storable(reason), *key),
        )

    def _note_removed(self, db: sqlite3.Connection, thing: SideObject) -> None:
        launch = db.execute(
            "SELECT run_id FROM launches WHERE token = ?", (thing.token,)
        ).fetchone()
        if launch is not None:
            text = f"{thing.kind} {thing.id} is removed"
            self._events.add(launch["run_id"], EventKind.SIDE_OBJECT_REMOVED, text, thing.token)


def _key(thing: SideObject) -> tuple[str, str, str, str]:
    return (thing.cloud, thing.region, thing.kind, thing.id)
