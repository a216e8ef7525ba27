"""Clusters, their machines as last listed, and what they cost."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable

from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import LedgerError
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.money import Micros, cost_of
from nbprov.model.offers import Candidate

from .json_codec import from_plain
from .launches import Launches
from .rows import ClusterRow, candidate_of, cluster_row, dump, storable
from .runs import NameTaken

log = logging.getLogger("nbprov.ledger")


class Clusters(Launches):
    """What a provision ended in."""

    def hand_over(
        self, cluster_id: str, name: str, run_id: str, token: str, candidate: Candidate
    ) -> None:
        """Make the winner the run's one cluster.

        Raises
        ------
        NameTaken
            If the run has a cluster already, or the name is in use.
        """
        now = self.clock.now()
        with self.store.transaction() as db:
            self._hold(db, run_id)
            try:
                db.execute(
                    "INSERT INTO clusters"
                    " (cluster_id, name, run_id, token, state, desired_state, candidate, confirmed, started)"
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

    def set_cluster(
        self,
        cluster_id: str,
        state: ClusterState,
        reason: str = "",
        *,
        desired: DesiredState | None = None,
        was: ClusterState | None = None,
    ) -> bool:
        """Move a cluster on. `ended` closes its launch, its instances and their prices; `stopped` pauses the compute price.

        What has ended is never revived, and what is ending can only end: kernels that work on one cluster at the same time
        may come too late, and then change nothing.

        Parameters
        ----------
        reason
            Why, for people alone; the stored one stays where this is empty.
        desired
            What is to become of it; by default what the new state itself stands for. One in whose
            place another was put stays that as it ends.
        was
            The state the change starts from; where the cluster has left it, nothing is changed.

        Returns
        -------
        bool
            Whether it was written.
        """
        now = self.clock.now()
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT token, run_id, state, desired_state FROM clusters WHERE cluster_id = ?",
                (cluster_id,),
            ).fetchone()
            if (
                row is None
                or (was is not None and row["state"] != was.value)
                or not _may_follow(ClusterState(row["state"]), state)
            ):
                return False
            ended, wanted = state is ClusterState.ENDED, desired or DesiredState.of(state)
            if (
                desired is None
                and wanted is DesiredState.ENDED
                and row["desired_state"] == DesiredState.REPLACED
            ):
                wanted = DesiredState.REPLACED  # that is why it ends
            db.execute(
                "UPDATE clusters SET state = ?, desired_state = ?, reason = CASE WHEN ? <> '' THEN ? ELSE reason END, confirmed = ?,"
                " ended = CASE WHEN ? THEN ? END WHERE cluster_id = ?",
                (
                    state.value,
                    wanted.value,
                    storable(reason),
                    storable(reason),
                    now,
                    ended,
                    now,
                    cluster_id,
                ),
            )
            if ended or state is ClusterState.STOPPED:
                self._close_segments(db, row["token"], now)
            if ended:
                db.execute(
                    "UPDATE launches SET state = 'gone', ended = ? WHERE token = ?",
                    (now, row["token"]),
                )
                db.execute(
                    "UPDATE instances SET state = 'gone', ended = ? WHERE token = ? AND ended IS NULL",
                    (now, row["token"]),
                )
                db.execute(
                    "UPDATE replacements SET state = 'gone', ended = ? WHERE token = ? AND ended IS NULL",
                    (now, row["token"]),
                )
                db.execute(
                    "UPDATE runs SET state = 'ended', updated = ? WHERE run_id = ?",
                    (now, row["run_id"]),
                )
            return True

    def reprice(self, cluster_id: str, candidate: Candidate) -> None:
        """Store the price at which a stopped cluster is started again; what it cost before stays as it was."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE clusters SET candidate = ? WHERE cluster_id = ? AND state <> 'ended'",
                (dump(candidate), cluster_id),
            )

    def resume_prices(self, cluster_id: str) -> None:
        """Start the compute price of a started cluster again, at the price frozen at launch or at its last start."""
        now = self.clock.now()
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT * FROM clusters WHERE cluster_id = ? AND state <> 'ended'", (cluster_id,)
            ).fetchone()
            if row is None:
                return
            launch = db.execute(
                "SELECT ids FROM launches WHERE token = ?", (row["token"],)
            ).fetchone()
            candidate = candidate_of(row["candidate"])
            self._open_segments(
                db,
                row["run_id"],
                row["token"],
                json.loads(launch["ids"]),
                candidate.offer.hourly,
                now,
            )

    def cluster(self, name: str) -> ClusterRow | None:
        """The live cluster of this name, else the last one that had it."""
        row = self.store.row(
            "SELECT * FROM clusters WHERE name = ? ORDER BY (state = 'ended'), started DESC LIMIT 1",
            name,
        )
        return None if row is None else cluster_row(row)

    def cluster_of_run(self, run_id: str) -> ClusterRow | None:
        """The cluster a run ended in."""
        row = self.store.row("SELECT * FROM clusters WHERE run_id = ?", run_id)
        return None if row is None else cluster_row(row)

    def clusters(self, *, live_only: bool = False, limit: int = 100) -> list[ClusterRow]:
        """Clusters, live ones first, then newest first."""
        # However many live ones there are, all are looked after.
        where, limit = ("WHERE state <> 'ended'", -1) if live_only else ("", limit)
        found = []
        for row in self.store.rows(
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
            ):  # the others are looked after all the same
                log.exception("the row of cluster %s cannot be read", row["name"])
        return found

    def seen(self, instances: Iterable[Instance]) -> bool:
        """Store what a listing said of our machines; a change of state opens or closes prices, an unchanged one is not written.

        Returns
        -------
        bool
            Whether anything was new: a state, or an address alone.
        """
        listed = list(instances)
        known = {
            (r["cloud"], r["id"]): r["data"]
            for instance in listed
            for r in self.store.rows(
                "SELECT cloud, id, data FROM instances WHERE cloud = ? AND id = ?",
                instance.cloud,
                instance.id,
            )
        }
        changed = [i for i in listed if known.get((i.cloud, i.id)) != dump(i)]
        if not changed:
            return False
        now = self.clock.now()
        with self.store.transaction() as db:
            for instance in changed:
                gone = now if instance.state is InstanceState.GONE else None
                db.execute(
                    "INSERT INTO instances (cloud, id, token, data, state, first_seen, last_seen, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (cloud, id) DO UPDATE SET data = excluded.data, state = excluded.state, last_seen = excluded.last_seen,"
                    " ended = coalesce(instances.ended, excluded.ended)",
                    (
                        instance.cloud,
                        instance.id,
                        instance.token,
                        dump(instance),
                        instance.state.value,
                        now,
                        now,
                        gone,
                    ),
                )
                self._price_listed(db, instance)
                if not instance.state.is_billed:
                    self._close_segments(db, instance.token, now, instance.id)
        return True

    def live_tokens(self) -> set[str]:
        """Tokens of launches that may be on the bill. A machine of any other launch is nobody's, whatever was once concluded of it."""
        return {
            r[0]
            for r in self.store.rows(
                "SELECT token FROM launches WHERE state NOT IN ('refused', 'gone', 'absent')"
            )
        }

    def ids_of(self, token: str) -> tuple[str, ...]:
        """Ids of the machines that a launch made, as the cloud answered."""
        row = self.store.row("SELECT ids FROM launches WHERE token = ?", token)
        return () if row is None else tuple(json.loads(row["ids"]))

    def instances(self, token: str) -> list[Instance]:
        """Machines of a launch as last listed, head first."""
        found = [
            from_plain(Instance, json.loads(r["data"]))
            for r in self.store.rows("SELECT data FROM instances WHERE token = ?", token)
        ]
        return sorted(found, key=lambda i: (i.node, i.id))

    def members(self, token: str) -> list[Instance]:
        """Machines that the cluster of a launch has now, as last listed, head first: those that were lost and replaced are none of them."""
        ids = self.ids_of(token)
        return [i for i in self.instances(token) if not ids or i.id in ids]

    def cost(self, run_id: str, token: str | None = None) -> Micros:
        """What a run (or one of its launches) has cost so far, failed attempts included."""
        now = self.clock.now()
        rows = self.store.rows(
            "SELECT hourly, started, ended FROM price_segments WHERE run_id = ? AND (? IS NULL OR token = ?)",
            run_id,
            token,
            token,
        )
        return sum(
            cost_of(r["hourly"], (r["ended"] if r["ended"] is not None else now) - r["started"])
            for r in rows
        )

    def costs_since(self, since: Instant) -> dict[str, Micros]:
        """What each run has cost from an instant on; runs that cost nothing since are left out."""
        now = self.clock.now()
        found: dict[str, Micros] = {}
        query = "SELECT run_id, hourly, started, ended FROM price_segments WHERE ended IS NULL OR ended > ?"
        for r in self.store.rows(query, since):
            seconds = (r["ended"] if r["ended"] is not None else now) - max(since, r["started"])
            found[r["run_id"]] = found.get(r["run_id"], 0) + cost_of(r["hourly"], max(0.0, seconds))
        return found

    def last_prices(self, token: str) -> dict[str, Micros]:
        """What an hour of each machine of a launch costs, or cost last, by its id."""
        return {
            r[0]: int(r[1])
            for r in self.store.rows(
                "SELECT instance_id, hourly FROM price_segments WHERE token = ? ORDER BY id", token
            )
        }

    def hourly_now(self, token: str) -> Micros:
        """The price that runs now for a launch, an hour."""
        row = self.store.row(
            "SELECT coalesce(sum(hourly), 0) FROM price_segments WHERE token = ? AND ended IS NULL",
            token,
        )
        return int(row[0]) if row is not None else 0


def _may_follow(state: ClusterState, to: ClusterState) -> bool:
    if state is ClusterState.ENDING:
        return to in (ClusterState.ENDING, ClusterState.ENDED)
    return state is not ClusterState.ENDED
