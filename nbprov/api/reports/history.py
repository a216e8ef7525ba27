"""The history of launches: what each was, when, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.money import MICROS_PER_USD, Micros

if TYPE_CHECKING:
    from nbprov.model.failures import Failure
    from nbprov.model.offers import Candidate
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.provisioning.ledger.rows import RunRow


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch.

    Attributes
    ----------
    state
        How far the launch came; `ended` once its cluster has ended.
    cluster
        The state of its cluster; None where there never was one.
    ready
        When its cluster was handed over; None where there never was one.
    ended
        When the launch or its cluster ended; None while it goes on.
    attempts, refused
        How many places were tried, and how many of them failed.
    candidate
        The place of its cluster, or the last one that was tried; None where none was.
    reason
        Why it ended, or what the ledger says of it now.
    simulated
        Whether nobody pays it.
    """

    name: str
    run_id: str
    state: RunState
    cluster: ClusterState | None
    started: Instant
    ready: Instant | None
    ended: Instant | None
    cost: Micros
    attempts: int
    refused: int
    candidate: Candidate | None
    reason: str
    simulated: bool

    def seconds(self, now: Instant) -> Seconds:
        """How many seconds it lasted so far."""
        return (now if self.ended is None else self.ended) - self.started


class History(Sequence[LaunchRecord]):
    """Launches, newest first.

    Attributes
    ----------
    total
        How many the ledger has (of that name).
    """

    def __init__(self, rows: Sequence[LaunchRecord], total: int, now: Instant) -> None:
        self._rows, self.total, self.now = tuple(rows), total, now

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<History: {len(self)} of {self.total} launches>"

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[LaunchRecord]:
        return iter(self._rows)

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row a launch; money in US dollars, times in UTC."""
        import pandas as pd

        frame = pd.DataFrame(
            [_frame_row(row, self.now) for row in self._rows], columns=list(_COLUMNS)
        )
        for column in ("started", "ready", "ended"):
            frame[column] = pd.to_datetime(frame[column], unit="s", utc=True)
        return frame


_COLUMNS = (
    "name",
    "state",
    "cluster",
    "started",
    "ready",
    "ended",
    "seconds",
    "cost",
    "simulated",
    "attempts",
    "refused",
    "cloud",
    "region",
    "zone",
    "instance_type",
    "gpus",
    "market",
    "nodes",
    "hourly",
    "reason",
    "run_id",
)


def _frame_row(row: LaunchRecord, now: Instant) -> dict[str, Any]:
    offer = row.candidate.offer if row.candidate is not None else None
    return {
        "name": row.name,
        "state": row.state.value,
        "cluster": row.cluster.value if row.cluster is not None else "",
        "started": row.started,
        "ready": row.ready,
        "ended": row.ended,
        "seconds": round(row.seconds(now), 1),
        "cost": row.cost / MICROS_PER_USD,
        "simulated": row.simulated,
        "attempts": row.attempts,
        "refused": row.refused,
        "cloud": offer.cloud if offer else "",
        "region": offer.region if offer else "",
        "zone": offer.zone if offer else "",
        "instance_type": offer.instance_type if offer else "",
        "gpus": offer.gpus if offer else "",
        "market": offer.market.value if offer else "",
        "nodes": row.candidate.count if row.candidate is not None else 0,
        "hourly": row.candidate.hourly / MICROS_PER_USD if row.candidate is not None else 0.0,
        "reason": row.reason,
        "run_id": row.run_id,
    }


def history(ledger: Ledger, now: Instant, name: str = "", limit: int | None = None) -> History:
    """The launches of a ledger, newest first: of a name, or all; at most `limit`."""
    runs = ledger.runs.latest(-1 if limit is None else limit, name)
    return History([_record_of(ledger, run) for run in runs], ledger.runs.count(name), now)


def ended_since(ledger: Ledger, since: Instant, limit: int) -> History:
    """The launches that ended since an instant, or whose cluster did, latest first."""
    runs = ledger.runs.ended_since(since)
    rows = [_record_of(ledger, run) for run in runs[:limit]]
    return History(rows, len(runs), ledger.clock.now())


def _record_of(ledger: Ledger, run: RunRow) -> LaunchRecord:
    cluster = ledger.clusters.of_run(run.run_id)
    # A launch that waited for stock has thousands of attempts: they are counted, not read.
    tally, last = ledger.launches.tally(run.run_id), ledger.launches.last(run.run_id)
    return LaunchRecord(
        name=run.name,
        run_id=run.run_id,
        state=run.state,
        cluster=cluster.state if cluster is not None else None,
        started=run.created,
        ready=cluster.started if cluster is not None else None,
        ended=_ended(run, cluster),
        cost=ledger.prices.cost(run.run_id),
        attempts=tally.count,
        refused=tally.failed,
        candidate=cluster.candidate if cluster is not None else last.candidate,
        reason=_reason(run, cluster, last.failure),
        simulated=tally.is_simulated,
    )


def _ended(run: RunRow, cluster: ClusterRow | None) -> Instant | None:
    if cluster is not None:
        return cluster.ended
    return (
        run.updated if run.state in (RunState.FAILED, RunState.CANCELLED, RunState.ENDED) else None
    )


def _reason(run: RunRow, cluster: ClusterRow | None, failure: Failure | None) -> str:
    if cluster is not None:
        from nbprov.provisioning.supervision.desired_state import reason_words

        return reason_words(cluster)
    said = next((line for line in (run.message or run.error).splitlines() if line.strip()), "")
    last = failure.sentence() if failure is not None else ""
    return "; last: ".join(part for part in (said, last) if part)
