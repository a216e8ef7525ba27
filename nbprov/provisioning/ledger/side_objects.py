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
from .file_state.trouble import decoded
from .ledger_file import LedgerFile
from .rows import storable

REMOVED_KEPT: Seconds = 7 * 24 * 3600.0

"""How long removed objects stay in the table, so that their fate can be looked up."""

DOUBT_SECONDS: Seconds = 3600.0

"""How long a cloud is checked for late machines of a create that seemed to make nothing.

A queue behind the cloud's service, or a laptop that slept, may delay a create. A kernel that loads
meanwhile checks too.
"""


class SideState(StrEnum):
    """How far the removal of a side object has come."""

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
        The instants when it was first and last listed.
    reason
        Why it could not be removed yet; empty where nobody tried or nothing stood in the way.
    """

    object: SideObject
    state: SideState
    since: Instant
    seen: Instant
    reason: str = ""


@decoded
class SideObjectTable:
    """The objects that clouds list beside our machines."""

    def __init__(self, file: LedgerFile, events: EventTable) -> None:
        self._store = file.store
        self._clock = file.clock
        self._events = events

    def expect(self, cloud: str, token: str) -> None:
        """Store, with an intent, that its launch may leave something.

        Even if the kernel is killed before a list shows the objects, they are then searched for.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO side_objects VALUES (?, '', '', ?, ?, 0, 'there', ?, ?, '')",
                (cloud, token, token, now, now),
            )

    def over(self, cloud: str) -> set[str]:
        """Return launches that are certainly over and whose side objects were not listed since."""
        query = (
            "SELECT s.token FROM side_objects s JOIN launches l ON l.token = s.token"
            " WHERE s.cloud = ? AND s.kind = '' AND l.state IN ('refused', 'gone', 'absent')"
        )
        return {r[0] for r in self._store.rows(query, cloud)} - self.doubted(cloud)

    def doubted(self, cloud: str) -> set[str]:
        """Return recent launches of which nothing was found after a lost answer.

        Something of them may still appear.
        """
        query = "SELECT token FROM launches WHERE cloud = ? AND state = 'absent' AND ended > ?"
        return {r[0] for r in self._store.rows(query, cloud, self._clock.now() - DOUBT_SECONDS)}

    def accounts(self, cloud: str) -> dict[str, str]:
        """Return the account of each launch that may have side objects left, by token."""
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
        """Store a whole listing of one cloud: new objects, present ones, and removed ones.

        An object that is no longer listed counts as removed.

        Parameters
        ----------
        over
            Launches that were over when the listing was requested (`SideObjectTable.over`): it
            has all that they left.
        unseen
            Launches of which this listing tells nothing, since it is of another account.
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
                # An object that comes back after it counted as removed starts anew; one that is
                # being removed stays so.
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
        """Store the results of an attempt to remove side objects.

        Each has a state and the reason why it is not gone.
        """
        if outcome:
            with self._store.transaction() as db:
                for thing, (state, reason) in outcome.items():
                    self._set(db, _key(thing), state, reason)

    def listed(self, cloud: str = "", *, all_of_them: bool = False) -> list[SideRow]:
        """Return side objects that were not removed yet, oldest first, perhaps of one cloud only.

        With `all_of_them`, removed ones are included.
        """
        where = "WHERE (? = '' OR cloud = ?)" + ("" if all_of_them else " AND state <> 'removed'")
        return self._rows(where, cloud, cloud)

    def clouds(self) -> set[str]:
        """Return the clouds that may still have side objects.

        They have an object that serves one launch only and was not removed yet, or a launch that
        may have left one.
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
