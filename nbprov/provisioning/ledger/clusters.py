"""Clusters: what successful runs produced, and their names."""

from __future__ import annotations

import json
import logging
import sqlite3

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import LedgerError, NotFound
from nbprov.model.events import EventKind
from nbprov.model.offers import Candidate
from nbprov.model.text.plain import printable
from nbprov.runtime.fault_log import log_fault

from .events import EventTable
from .file_state.trouble import decoded
from .leases import LeaseTable
from .ledger_file import LedgerFile
from .prices import PriceSegmentTable
from .rows import ClusterRow, candidate_of, cluster_row, dump
from .runs import NameTaken

log = logging.getLogger("nbprov.ledger")


@decoded
class ClusterTable:
    """The clusters of all runs.

    A unique index on the names of live clusters makes each change of names atomic.
    """

    def __init__(
        self, file: LedgerFile, leases: LeaseTable, prices: PriceSegmentTable, events: EventTable
    ) -> None:
        self._store = file.store
        self._clock = file.clock
        self._leases = leases
        self._prices = prices
        self._events = events

    def hand_over(
        self, cluster_id: str, name: str, run_id: str, token: str, candidate: Candidate
    ) -> None:
        """Make the winner the run's only cluster.

        Raises
        ------
        NameTaken
            If the run has a cluster already, or the name is in use.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            self._leases.hold(db, run_id)
            try:
                db.execute(
                    "INSERT INTO clusters"
                    " (cluster_id, name, run_id, token, state, desired_state, candidate,"
                    " confirmed, started)"
                    " VALUES (?, ?, ?, ?, 'running', 'running', ?, ?, ?)",
                    (cluster_id, name, run_id, token, dump(candidate), now, now),
                )
            except sqlite3.IntegrityError as error:
                raise NameTaken(
                    f"a cluster called {name!r} exists already", hint=f"end it: %nbprov down {name}"
                ) from error
            db.execute("UPDATE launches SET state = 'ready' WHERE token = ?", (token,))
            db.execute(
                "UPDATE runs SET state = 'ready', updated = ? WHERE run_id = ?", (now, run_id)
            )

    def move(
        self,
        cluster_id: str,
        state: ClusterState,
        reason: str = "",
        *,
        desired: DesiredState | None = None,
        was: ClusterState | None = None,
        at: Instant | None = None,
    ) -> bool:
        """Move a cluster to another state.

        `ended` closes its launch, its instances and their prices; `stopped` pauses the compute
        price.

        A cluster that has ended is never revived, and one that is ending can only end. Kernels that
        work on one cluster at the same time may come too late, and then change nothing.

        Parameters
        ----------
        reason
            The reason, for people only; if it is empty, the stored one stays.
        desired
            What is to become of it; by default what the new state itself stands for. One in whose
            place another was put stays that as it ends.
        was
            The state that the change starts from; if the cluster has left it, nothing is changed.
        at
            When it happened, where that is not now.

        Returns
        -------
        bool
            Whether the change was written.
        """
        now = self._clock.now() if at is None else at
        with self._store.transaction() as db:
            row = db.execute(
                "SELECT cluster_id, token, run_id, state, desired_state"
                " FROM clusters WHERE cluster_id = ?",
                (cluster_id,),
            ).fetchone()
            if (
                row is None
                or (was is not None and row["state"] != was.value)
                or not _may_follow(ClusterState(row["state"]), state)
            ):
                return False
            ended = state is ClusterState.ENDED
            self._store_state(db, row, state, reason, desired, now)
            if ended or state is ClusterState.STOPPED:
                self._prices.end(db, row["token"], now)
            if ended:
                _close_run(db, row["run_id"], row["token"], now)
            return True

    @staticmethod
    def _store_state(
        db: sqlite3.Connection,
        row: sqlite3.Row,
        state: ClusterState,
        reason: str,
        desired: DesiredState | None,
        now: Instant,
    ) -> None:
        wanted = desired or DesiredState.of(state)
        was_replaced = row["desired_state"] == DesiredState.REPLACED
        if desired is None and wanted is DesiredState.ENDED and was_replaced:
            wanted = DesiredState.REPLACED  # the reason for its end
        db.execute(
            "UPDATE clusters SET state = ?, desired_state = ?,"
            " reason = CASE WHEN ? <> '' THEN ? ELSE reason END, confirmed = ?,"
            " ended = CASE WHEN ? THEN ? END WHERE cluster_id = ?",
            (
                state.value,
                wanted.value,
                printable(reason),
                printable(reason),
                now,
                state is ClusterState.ENDED,
                now,
                row["cluster_id"],
            ),
        )

    def reprice(self, cluster_id: str, candidate: Candidate) -> None:
        """Store the price at which a stopped cluster starts again.

        Its earlier costs stay unchanged.
        """
        with self._store.transaction() as db:
            db.execute(
                "UPDATE clusters SET candidate = ? WHERE cluster_id = ? AND state <> 'ended'",
                (dump(candidate), cluster_id),
            )

    def resume_prices(self, cluster_id: str) -> None:
        """Restart the compute price of a started cluster.

        The price is the one fixed at launch or at the cluster's last start.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            row = db.execute(
                "SELECT * FROM clusters WHERE cluster_id = ? AND state <> 'ended'", (cluster_id,)
            ).fetchone()
            if row is None:
                return
            launch = db.execute(
                "SELECT ids FROM launches WHERE token = ?", (row["token"],)
            ).fetchone()
            candidate = candidate_of(row["candidate"])
            self._prices.start(
                db,
                row["run_id"],
                row["token"],
                json.loads(launch["ids"]),
                candidate.offer.hourly,
                now,
            )

    def named(self, name: str) -> ClusterRow | None:
        """Return the live cluster of this name, else the last one that had it."""
        row = self._store.row(
            "SELECT * FROM clusters WHERE name = ? ORDER BY (state = 'ended'), started DESC"
            " LIMIT 1",
            name,
        )
        return None if row is None else cluster_row(row)

    def by_id(self, cluster_id: str) -> ClusterRow | None:
        """Return the cluster with this id, whatever its name and state."""
        row = self._store.row("SELECT * FROM clusters WHERE cluster_id = ?", cluster_id)
        return None if row is None else cluster_row(row)

    def of_run(self, run_id: str) -> ClusterRow | None:
        """Return the cluster that a run produced."""
        row = self._store.row("SELECT * FROM clusters WHERE run_id = ?", run_id)
        return None if row is None else cluster_row(row)

    def ready_seconds(self, cloud: str, limit: int) -> list[Seconds]:
        """Return how long a cloud's latest clusters took from the request until they were ready.

        At most `limit` of them are returned.
        """
        query = (
            "SELECT clusters.started - launches.created FROM launches"
            " JOIN clusters USING (token) WHERE launches.cloud = ?"
            " ORDER BY launches.created DESC LIMIT ?"
        )
        return [float(row[0]) for row in self._store.rows(query, cloud, limit)]

    def latest(self, *, live_only: bool = False, limit: int = 100) -> list[ClusterRow]:
        """Return clusters: live ones first, then the newest first."""
        # However many live ones there are, all are looked after.
        where, limit = ("WHERE state <> 'ended'", -1) if live_only else ("", limit)
        found = []
        for row in self._store.rows(
            f"SELECT * FROM clusters {where} ORDER BY (state = 'ended'), started DESC LIMIT ?",
            limit,
        ):
            try:
                found.append(cluster_row(row))
            except (
                LedgerError,
                ValueError,
                KeyError,
                TypeError,
            ) as error:  # the others are looked after all the same
                log_fault(log, error, "the row of cluster %s cannot be read", row["name"])
        return found

    def rename(self, cluster_id: str, name: str) -> None:
        """Give a live cluster another name.

        Tags at its cloud keep the old one: machines are known by their token.

        Raises
        ------
        NameTaken
            If a live cluster or an unfinished launch has the name.
        NotFound
            If the cluster has ended or is being ended.
        """
        with self._store.transaction() as db:
            self._refuse_taken(db, name)
            self._rename(db, _live(db, cluster_id), name)

    def take_place(self, cluster_id: str, old_id: str, aside: str, reason: str) -> None:
        """Give one live cluster the name of another, in one change.

        The other cluster is to end and gets another name.

        Parameters
        ----------
        cluster_id
            The cluster that gets the name.
        old_id
            The cluster that has it now.
        aside
            The other cluster's new name.
        reason
            The reason, stored with the other cluster.

        Raises
        ------
        NameTaken
            If `aside` is in use.
        NotFound
            If one of the two has ended or is being ended.
        """
        with self._store.transaction() as db:
            new, old = _live(db, cluster_id), _live(db, old_id)
            self._refuse_taken(db, aside)
            self._rename(db, old, aside)
            self._rename(db, new, old["name"])
            db.execute(
                "UPDATE clusters SET desired_state = ?, reason = ? WHERE cluster_id = ?",
                (DesiredState.REPLACED.value, printable(reason), old_id),
            )

    def now_called(self, name: str) -> str:
        """Return the present name of a live cluster that once had this name; empty if none."""
        row = self._store.row(
            # The live clusters are few, and CROSS JOIN has them read first.
            "SELECT clusters.name FROM clusters CROSS JOIN events USING (run_id)"
            " WHERE clusters.state <> 'ended' AND events.kind = ?"
            " AND json_extract(events.data, '$.old') = ?"
            " ORDER BY events.id DESC LIMIT 1",
            EventKind.RENAMED.value,
            name,
        )
        return "" if row is None else str(row[0])

    def _rename(self, db: sqlite3.Connection, row: sqlite3.Row, name: str) -> None:
        db.execute("UPDATE clusters SET name = ? WHERE cluster_id = ?", (name, row["cluster_id"]))
        db.execute(
            "UPDATE runs SET name = ?, updated = ? WHERE run_id = ?",
            (name, self._clock.now(), row["run_id"]),
        )
        text = f"{row['name']} is called {name} now"
        self._events.add(
            row["run_id"], EventKind.RENAMED, text, row["token"], old=row["name"], new=name
        )

    @staticmethod
    def _refuse_taken(db: sqlite3.Connection, name: str) -> None:
        busy = db.execute(
            "SELECT state FROM clusters WHERE name = ? AND state <> 'ended'"
            " UNION ALL SELECT state FROM runs WHERE name = ? AND state IN ('launching',"
            " 'waiting', 'cancelling')",
            (name, name),
        ).fetchone()
        if busy is not None:
            raise NameTaken(
                f"a cluster called {name!r} is {busy[0]} already",
                hint="use another name, or end that one first",
            )


def _close_run(db: sqlite3.Connection, run_id: str, token: str, now: Instant) -> None:
    """Close the launch, the machines and the run of a cluster that has ended."""
    for table in ("instances", "replacements"):
        db.execute(
            f"UPDATE {table} SET state = 'gone', ended = ? WHERE token = ? AND ended IS NULL",
            (now, token),
        )
    db.execute("UPDATE launches SET state = 'gone', ended = ? WHERE token = ?", (now, token))
    db.execute("UPDATE runs SET state = 'ended', updated = ? WHERE run_id = ?", (now, run_id))


def _may_follow(state: ClusterState, to: ClusterState) -> bool:
    if state is ClusterState.ENDING:
        return to in (ClusterState.ENDING, ClusterState.ENDED)
    return state is not ClusterState.ENDED


def _live(db: sqlite3.Connection, cluster_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM clusters WHERE cluster_id = ?", (cluster_id,)
    ).fetchone()
    if row is None or row["state"] in (ClusterState.ENDING.value, ClusterState.ENDED.value):
        became = (
            "is gone"
            if row is None
            else f"has ended: {row['reason']}"
            if row["state"] == "ended"
            else f"is being ended: {row['reason']}"
        )
        name = cluster_id if row is None else row["name"]
        raise NotFound(
            f"{name} {became}".rstrip(": "),
            hint="%clusters lists those there are",
            code="cluster.not-found",
        )
    return row
