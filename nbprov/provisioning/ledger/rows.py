"""The ledger's rows as values, and the conversion of values to columns."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, ClusterState, DesiredState, RunState
from nbprov.model.failures import Failure
from nbprov.model.launches import CreateOperation, Launch
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate

from .json_codec import from_plain, to_plain


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of `runs`.

    `lease_renewed` is another number after each renewal of the lease.
    """

    run_id: str
    name: str
    state: RunState
    spec: str
    folder: str
    outputs_to: str
    race: int
    consent: Micros
    message: str
    error: str
    cancelled: bool
    lease_holder: str
    lease_expires: Instant
    lease_renewed: Seconds
    created: Instant
    updated: Instant
    wait_deadline: Instant = 0.0


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """A row of `launches`: a launch and its progress."""

    token: str
    run_id: str
    number: int
    slot: int
    cloud: str
    state: AttemptState
    candidate: Candidate
    launch: Launch
    keys: str
    operation: CreateOperation | None
    ids: tuple[str, ...]
    failure: Failure | None
    deadline: Instant
    created: Instant
    ended: Instant | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A row of `launches` without its request, which takes longest to decode.

    It is what displays and reports tell of a launch. A run that waits for stock has thousands.
    """

    token: str
    run_id: str
    number: int
    cloud: str
    state: AttemptState
    candidate: Candidate
    failure: Failure | None
    created: Instant
    ended: Instant | None


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A row of `clusters`.

    Attributes
    ----------
    desired_state
        The state that the cluster is to reach.
    reason
        The reason, for people only.
    """

    cluster_id: str
    name: str
    run_id: str
    token: str
    state: ClusterState
    desired_state: DesiredState
    candidate: Candidate
    reason: str
    confirmed: Instant | None
    started: Instant
    ended: Instant | None

    @property
    def pending(self) -> DesiredState | None:
        """The end or stop that was asked for and has not begun; None if there is none."""
        if self.state in (ClusterState.ENDING, ClusterState.ENDED):
            return None
        is_up = self.state in (ClusterState.RUNNING, ClusterState.UNKNOWN)
        if self.desired_state.is_end or (self.desired_state is DesiredState.STOPPED and is_up):
            return self.desired_state
        return None


def dump(value: Any) -> str:
    """Return a model value as JSON.

    The text is ASCII, so that half a surrogate pair in a raw message is kept.
    """
    return json.dumps(to_plain(value), separators=(",", ":"))


def storable(value: str) -> str:
    """Return text that SQLite can store: half a surrogate pair becomes a question mark."""
    return value.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=512)
def candidate_of(text: str) -> Candidate:
    """Return the candidate of a row.

    Candidates are cached, since views read the same few again and again and nobody changes one.
    """
    return from_plain(Candidate, json.loads(text))


@lru_cache(maxsize=512)
def failure_of(text: str | None) -> Failure | None:
    """Return the failure of a row; None where there is none.

    Failures are cached as candidates are: a cloud says the same of a place again and again.
    """
    return None if text is None else from_plain(Failure, json.loads(text))


def run_row(row: sqlite3.Row) -> RunRow:
    """Return a row of `runs` as a value."""
    return RunRow(
        run_id=row["run_id"],
        name=row["name"],
        state=RunState(row["state"]),
        spec=row["spec"],
        folder=row["folder"],
        outputs_to=row["outputs_to"],
        race=row["race"],
        consent=row["consent"],
        message=row["message"],
        error=row["error"],
        cancelled=bool(row["cancelled"]),
        lease_holder=row["lease_holder"] or "",
        lease_expires=row["lease_expires"] or 0.0,
        lease_renewed=row["lease_renewed"] or 0.0,
        created=row["created"],
        updated=row["updated"],
        wait_deadline=row["wait_deadline"] or 0.0,
    )


def launch_row(row: sqlite3.Row) -> LaunchRow:
    """Return a row of `launches` as a value."""
    return LaunchRow(
        token=row["token"],
        run_id=row["run_id"],
        number=row["number"],
        slot=row["slot"],
        cloud=row["cloud"],
        state=AttemptState(row["state"]),
        candidate=candidate_of(row["candidate"]),
        launch=from_plain(Launch, json.loads(row["launch"])),
        keys=row["keys"],
        operation=None
        if row["operation"] is None
        else from_plain(CreateOperation, json.loads(row["operation"])),
        ids=tuple(json.loads(row["ids"])),
        failure=failure_of(row["failure"]),
        deadline=row["deadline"] or 0.0,
        created=row["created"],
        ended=row["ended"],
    )


def attempt_row(row: sqlite3.Row) -> AttemptRow:
    """Return a row of `launches` as a value without its request."""
    return AttemptRow(
        token=row["token"],
        run_id=row["run_id"],
        number=row["number"],
        cloud=row["cloud"],
        state=AttemptState(row["state"]),
        candidate=candidate_of(row["candidate"]),
        failure=failure_of(row["failure"]),
        created=row["created"],
        ended=row["ended"],
    )


def cluster_row(row: sqlite3.Row) -> ClusterRow:
    """Return a row of `clusters` as a value."""
    return ClusterRow(
        cluster_id=row["cluster_id"],
        name=row["name"],
        run_id=row["run_id"],
        token=row["token"],
        state=ClusterState(row["state"]),
        desired_state=DesiredState(row["desired_state"]),
        candidate=candidate_of(row["candidate"]),
        reason=row["reason"],
        confirmed=row["confirmed"],
        started=row["started"],
        ended=row["ended"],
    )
