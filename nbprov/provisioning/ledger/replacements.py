"""Replacements: machines that a cluster lost, and the creates that replace them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Failure
from nbprov.model.launches import CreateOperation, Instance, InstanceState, Launch
from nbprov.model.money import Micros

from .file_state.trouble import decoded
from .instances import InstanceTable
from .json_codec import from_plain
from .leases import LeaseTable
from .ledger_file import LedgerFile
from .observations import ObservationTable
from .prices import PriceSegmentTable
from .rows import dump


@dataclass(frozen=True, slots=True)
class ReplacementRow:
    """A row of `replacements`: one create of one machine that replaces a lost one.

    Attributes
    ----------
    number
        `Launch.part`: 1 is the first of its cluster.
    state
        The same states as those of an attempt; `ready` once the machine is in the cluster.
    spent
        The cost of the run when the machine was asked for.
    deadline
        The instant after which the cloud no longer begins the create.
    """

    token: str
    number: int
    run_id: str
    node: int
    state: AttemptState
    launch: Launch
    operation: CreateOperation | None
    instance_id: str
    failure: Failure | None
    spent: Micros
    deadline: Instant
    created: Instant
    ended: Instant | None

    @property
    def is_over(self) -> bool:
        """Whether this create can have no further effect on its own."""
        return self.state is AttemptState.READY or self.state.is_final


@decoded
class ReplacementTable:
    """The machines that were lost, and the creates that replace them."""

    def __init__(
        self,
        file: LedgerFile,
        leases: LeaseTable,
        prices: PriceSegmentTable,
        observations: ObservationTable,
        instances: InstanceTable,
    ) -> None:
        self._store = file.store
        self._clock = file.clock
        self._leases = leases
        self._prices = prices
        self._observations = observations
        self._instances = instances

    def lose_machines(self, token: str, lost: Collection[Instance]) -> bool:
        """Remove machines that are gone from their cluster, and end their prices.

        Parameters
        ----------
        lost
            The machines as they were last known.

        Returns
        -------
        bool
            Whether this call did so: False where another kernel did, or the cluster does not run.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            ids, gone = self._ids(db, token), {i.id for i in lost}
            if not gone & set(ids) or _state_of_cluster(db, token) not in ("running", "unknown"):
                return False
            db.execute(
                "UPDATE launches SET ids = ? WHERE token = ?",
                (json.dumps([i for i in ids if i not in gone]), token),
            )
            for instance in lost:
                data = dump(replace(instance, state=InstanceState.GONE, host="", port=0))
                db.execute(
                    "UPDATE instances SET state = 'gone', data = ?, ended = coalesce(ended, ?)"
                    " WHERE token = ? AND id = ?",
                    (data, now, token, instance.id),
                )
                self._prices.end(db, token, now, instance.id)
            return True

    def intend(self, row: ReplacementRow) -> bool:
        """Commit an intent to create a machine. The create may be sent only after that.

        Returns
        -------
        bool
            False, and nothing is written, where the cluster does not run, lacks no machine, or
            another replacement is open.
        """
        with self._store.transaction() as db:
            self._leases.hold(db, row.run_id)
            is_open = db.execute(
                f"SELECT 1 FROM replacements WHERE token = ? AND {_OPEN}", (row.token,)
            ).fetchone()
            count = from_plain(Launch, json.loads(_launch_of(db, row.token))).count
            if (
                is_open
                or _state_of_cluster(db, row.token) != "running"
                or len(self._ids(db, row.token)) >= count
            ):
                return False
            db.execute(
                "INSERT INTO replacements (token, number, run_id, node, state, launch, spent,"
                " deadline, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(row.token, row.number, row.run_id, row.node, AttemptState.INTENT.value),
                    *(dump(row.launch), row.spent, row.deadline, row.created),
                ),
            )
            return True

    def sent(self, row: ReplacementRow, operation: CreateOperation) -> None:
        """Store the operation before it is followed."""
        with self._store.transaction() as db:
            self._move(db, row, AttemptState.SENT, "operation = ?", dump(operation))

    def reprice(self, row: ReplacementRow, launch: Launch) -> None:
        """Store the price at which the create is sent, or sent again."""
        with self._store.transaction() as db:
            self._leases.hold(db, row.run_id)
            db.execute(
                f"UPDATE replacements SET launch = ? WHERE token = ? AND number = ? AND {_OPEN}",
                (dump(launch), row.token, row.number),
            )

    def made(self, row: ReplacementRow, instance_id: str) -> bool:
        """Store the id of the machine that was made; its price runs from now on.

        Returns False and writes nothing if its cluster has ended.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            if not self._move(db, row, AttemptState.ACCEPTED, "instance_id = ?", instance_id):
                return False  # a price that begins now would never end
            offer = self._booked(db, row).candidate.offer
            self._prices.start(db, row.run_id, row.token, (instance_id,), offer.hourly, now)
            # A listing may have shown it first, when only the price of the launch was known.
            db.execute(
                "UPDATE price_segments SET hourly = ? WHERE token = ? AND instance_id = ?",
                (offer.hourly, row.token, instance_id),
            )
            self._observations.add(
                db, "attempt", replace(row.launch.candidate, count=1), "accepted", now - row.created
            )
            return True

    def end(self, row: ReplacementRow, state: AttemptState, failure: Failure | None = None) -> None:
        """Store that the create brings no machine.

        The state is `ending`, or one of the final states `refused`, `absent` and `gone`.
        """
        now = self._clock.now()
        with self._store.transaction() as db:
            self._move(
                db,
                row,
                state,
                "failure = coalesce(?, failure), ended = CASE WHEN ? THEN ? END",
                *(None if failure is None else dump(failure), state.is_final, now),
            )
            if state.is_final and row.instance_id:
                self._prices.end(db, row.token, now, row.instance_id)
            if state is AttemptState.REFUSED and failure is not None:
                self._observations.add(
                    db,
                    "attempt",
                    replace(row.launch.candidate, count=1),
                    failure.cause.value,
                    now - row.created,
                )

    def ready(self, row: ReplacementRow) -> bool:
        """Make a machine that is up a member of the cluster.

        Returns False and writes nothing if the cluster no longer runs.
        """
        with self._store.transaction() as db:
            self._leases.hold(db, row.run_id)
            if _state_of_cluster(db, row.token) not in ("running", "unknown"):
                return False
            node_of = {i.id: i.node for i in self._instances.of_launch(row.token)}
            ids = sorted(
                {*self._ids(db, row.token), row.instance_id},
                key=lambda one: (node_of.get(one, row.node), one),
            )
            db.execute("UPDATE launches SET ids = ? WHERE token = ?", (json.dumps(ids), row.token))
            self._move(db, row, AttemptState.READY, "ended = ?", self._clock.now())
            return True

    def of_launch(self, token: str) -> list[ReplacementRow]:
        """Return every create that was to replace a machine of a launch, oldest first."""
        return [
            _row(r)
            for r in self._store.rows(
                "SELECT * FROM replacements WHERE token = ? ORDER BY number", token
            )
        ]

    def open_one(self, token: str) -> ReplacementRow | None:
        """Return the create that is or may get on the bill and is not yet part of the cluster."""
        row = self._store.row(f"SELECT * FROM replacements WHERE token = ? AND {_OPEN}", token)
        return None if row is None else _row(row)

    def late_nodes(self, token: str, began: Instant) -> dict[int, tuple[Seconds, Micros]]:
        """Return when each node was replaced and what the run had cost by then.

        Times are seconds after `began`.
        """
        return {
            r.node: (max(0.0, r.created - began), r.spent)
            for r in self.of_launch(token)
            if r.state is AttemptState.READY
        }

    def last_loss(self, token: str) -> Instant:
        """Return when a launch last lost a machine; 0 if it lost none.

        Replacements that did not come up do not count.
        """
        row = self._store.row(
            "SELECT coalesce(max(ended), 0) FROM instances WHERE token = ?"
            " AND id NOT IN (SELECT instance_id FROM replacements WHERE token = ? AND state ="
            " 'gone')",
            token,
            token,
        )
        return 0.0 if row is None else float(row[0])

    def _move(
        self,
        db: sqlite3.Connection,
        row: ReplacementRow,
        state: AttemptState,
        more: str,
        *values: object,
    ) -> bool:
        self._leases.hold(db, row.run_id)
        done = db.execute(
            f"UPDATE replacements SET state = ?, {more} WHERE token = ? AND number = ? AND {_OPEN}",
            (state.value, *values, row.token, row.number),
        )
        return done.rowcount > 0

    @staticmethod
    def _booked(db: sqlite3.Connection, row: ReplacementRow) -> Launch:
        """The launch as it was sent last, which may be dearer than that of the intent."""
        found = db.execute(
            "SELECT launch FROM replacements WHERE token = ? AND number = ?",
            (row.token, row.number),
        ).fetchone()
        return from_plain(Launch, json.loads(found[0]))

    @staticmethod
    def _ids(db: sqlite3.Connection, token: str) -> list[str]:
        return list(
            json.loads(
                db.execute("SELECT ids FROM launches WHERE token = ?", (token,)).fetchone()[0]
            )
        )


_OPEN = "state NOT IN ('ready', 'refused', 'gone', 'absent')"


def _state_of_cluster(db: sqlite3.Connection, token: str) -> str:
    row = db.execute("SELECT state FROM clusters WHERE token = ?", (token,)).fetchone()
    return "" if row is None else str(row[0])


def _launch_of(db: sqlite3.Connection, token: str) -> str:
    return str(db.execute("SELECT launch FROM launches WHERE token = ?", (token,)).fetchone()[0])


def _row(row: sqlite3.Row) -> ReplacementRow:
    return ReplacementRow(
        token=row["token"],
        number=row["number"],
        run_id=row["run_id"],
        node=row["node"],
        state=AttemptState(row["state"]),
        launch=from_plain(Launch, json.loads(row["launch"])),
        operation=None
        if row["operation"] is None
        else from_plain(CreateOperation, json.loads(row["operation"])),
        instance_id=row["instance_id"],
        failure=None if row["failure"] is None else from_plain(Failure, json.loads(row["failure"])),
        spent=row["spent"],
        deadline=row["deadline"],
        created=row["created"],
        ended=row["ended"],
    )
