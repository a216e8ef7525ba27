"""Reports from the ledger: costs and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run has cost so far, failed attempts included.

    Attributes
    ----------
    started
        When it was launched.
    cost
        What all its machines have cost.
    attempts
        How many places were tried.
    simulated
        Whether nobody pays it.
    """

    name: str
    run_id: str
    started: Instant
    state: RunState
    cost: Micros
    attempts: int
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt of a run.

    Attributes
    ----------
    number
        1 is the first attempt of the run.
    candidate
        What was asked for, and where.
    token
        The idempotency key of the request, which a tag or the name of the machine bears.
    reason
        Why it failed; empty where it did not.
    """

    number: int
    state: AttemptState
    candidate: Candidate
    reason: str
    token: str


def costs(ledger: Ledger, limit: int = -1) -> list[Cost]:
    """What each run has cost, newest first: at most `limit`, and older ones on the bill."""
    latest = ledger.runs.latest(limit)
    # However many came after it, a run that may be on the bill is among them.
    listed = {run.run_id for run in latest}
    live = {row.run_id for row in ledger.clusters.latest(live_only=True)}
    live |= {run.run_id for run in ledger.runs.unfinished()}
    older = [run for run in map(ledger.runs.get, live - listed) if run is not None]
    found = []
    for run in [*latest, *sorted(older, key=lambda run: -run.created)]:
        tally = ledger.launches.tally(run.run_id)
        found.append(
            Cost(
                run.name,
                run.run_id,
                run.created,
                run.state,
                ledger.prices.cost(run.run_id),
                tally.count,
                tally.is_simulated,
            )
        )
    return found


def cost_of_last(ledger: Ledger, name: str) -> tuple[Micros, bool] | None:
    """What the latest run of a name has cost, and whether nobody pays it; None if there is none."""
    run = ledger.runs.last(name)
    if run is None:
        return None
    return ledger.prices.cost(run.run_id), ledger.launches.tally(run.run_id).is_simulated


def attempts(ledger: Ledger, name: str = "") -> list[AttemptRecord]:
    """The attempts of the latest run (of this name), in the order in which they were begun."""
    run = ledger.runs.last(name)
    if run is None:
        return []
    return [
        AttemptRecord(
            x.number, x.state, x.candidate, x.failure.sentence() if x.failure else "", x.token
        )
        for x in ledger.launches.attempts(run.run_id)
    ]
