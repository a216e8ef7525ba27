"""The names of clusters: given anew, and handed from one cluster to another."""

from __future__ import annotations

import sqlite3

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NotFound
from nbprov.model.events import EventKind

from .clusters import Clusters
from .history import History
from .rows import ClusterRow, cluster_row, storable
from .runs import NameTaken


class Names(Clusters, History):
    """Changes of names. The unique index on live names makes each of them atomic among all kernels."""

    def cluster_by_id(self, cluster_id: str) -> ClusterRow | None:
        """The cluster with this id, whatever it is called and whatever became of it."""
        row = self.store.row("SELECT * FROM clusters WHERE cluster_id = ?", cluster_id)
        return None if row is None else cluster_row(row)

    def rename(self, cluster_id: str, name: str) -> None:
        """Give a live cluster another name. Tags at its cloud keep the old one: machines are known by their token.

        Raises
        ------
        NameTaken
            If a live cluster or an unfinished launch has the name.
        NotFound
            If the cluster has ended or is being ended.
        """
        with self.store.transaction() as db:
            self._refuse_taken(db, name)
            self._rename(db, _live(db, cluster_id), name)

    def take_place(self, cluster_id: str, old_id: str, aside: str, reason: str) -> None:
        """Give one live cluster the name of another, which is to end and gets a name of its own, in one change.

        Parameters
        ----------
        cluster_id
            Gets the name.
        old_id
            Has it now.
        aside
            What the other one is called from then on.
        reason
            Why, kept as the other one's reason.

        Raises
        ------
        NameTaken
            If `aside` is in use.
        NotFound
            If one of the two has ended or is being ended.
        """
        with self.store.transaction() as db:
            new, old = _live(db, cluster_id), _live(db, old_id)
            self._refuse_taken(db, aside)
            self._rename(db, old, aside)
            self._rename(db, new, old["name"])
            db.execute(
                "UPDATE clusters SET desired_state = ?, reason = ? WHERE cluster_id = ?",
                (DesiredState.REPLACED.value, storable(reason), old_id),
            )

    def now_called(self, name: str) -> str:
        """What a live cluster is called now that once had this name; empty where there is none."""
        row = self.store.row(
            "SELECT clusters.name FROM events JOIN clusters ON clusters.run_id = events.run_id"
            " WHERE events.kind = ? AND json_extract(events.data, '$.old') = ? AND clusters.state <> 'ended'"
            " ORDER BY events.id DESC LIMIT 1",
            EventKind.RENAMED.value,
            name,
        )
        return "" if row is None else str(row[0])

    def data_version(self) -> int:
        """A number that changes when another connection has written to the ledger."""
        row = self.store.row("PRAGMA data_version")
        return int(row[0]) if row is not None else 0

    def _rename(self, db: sqlite3.Connection, row: sqlite3.Row, name: str) -> None:
        db.execute("UPDATE clusters SET name = ? WHERE cluster_id = ?", (name, row["cluster_id"]))
        db.execute(
            "UPDATE runs SET name = ?, updated = ? WHERE run_id = ?",
            (name, self.clock.now(), row["run_id"]),
        )
        text = f"{row['name']} is called {name} now"
        self.note(row["run_id"], EventKind.RENAMED, text, row["token"], old=row["name"], new=name)

    @staticmethod
    def _refuse_taken(db: sqlite3.Connection, name: str) -> None:
        busy = db.execute(
            "SELECT state FROM clusters WHERE name = ? AND state <> 'ended'"
            " UNION ALL SELECT state FROM runs WHERE name = ? AND state IN ('launching', 'waiting', 'cancelling')",
            (name, name),
        ).fetchone()
        if busy is not None:
            raise NameTaken(
                f"a cluster called {name!r} is {busy[0]} already",
                hint="use another name, or end that one first",
            )


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
