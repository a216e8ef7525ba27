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


def costs(ledger: Ledger) -> list[Cost]:
    """What each run has cost, newest first."""
    found = []
    latest = ledger.runs.latest()
    # However many came after it, a run that may be on the bill is among them.
    listed = {run.run_id for run in latest}
    live = {row.run_id for row in ledger.clusters.latest(live_only=True)}
    older = [
        run for run in (ledger.runs.get(run_id) for run_id in live - listed) if run is not None
    ]
    older += [r for r in ledger.runs.unfinished() if r.run_id not in listed | live]
    for run in [*latest, *sorted(older, key=lambda run: -run.created)]:
        launches = ledger.launches.of_run(run.run_id)
        simulated = bool(launches) and all(x.candidate.offer.is_simulated for x in launches)
        found.append(
            Cost(
                run.name,
                run.run_id,
                run.created,
                run.state,
                ledger.prices.cost(run.run_id),
                len(launches),
                simulated,
            )
        )
    return found


def attempts(ledger: Ledger, name: str = "") -> list[AttemptRecord]:
    """The attempts of the latest run (of this name), in the order in which they were begun."""
    run = next((r for r in ledger.runs.latest() if not name or r.name == name), None)
    if run is None:
        return []
    return [
        AttemptRecord(
            x.number, x.state, x.candidate, x.failure.sentence() if x.failure else "", x.token
        )
        for x in ledger.launches.of_run(run.run_id)
    ]
