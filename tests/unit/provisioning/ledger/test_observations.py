"""What the ledger tells the market of what launches met."""

from __future__ import annotations

from manual_clock import ManualClock
from provisioning_samples import candidate, launch_row

from nbprov.market import SuccessModel
from nbprov.market.success_model import FORGOTTEN
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.model.offers import Candidate
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.ledger.observations import OBSERVATIONS_READ


def _attempt(ledger: Ledger, wanted: Candidate, number: int, cause: Cause | None) -> None:
    token = f"t{number}"
    ledger.launches.intend(launch_row(token, wanted, number=number, now=ledger.clock.now()))
    if cause is None:
        ledger.launches.accepted(token, ["i-1"])
    else:
        ledger.launches.failed(token, Failure(cause, "no"), AttemptState.REFUSED)


def _run(ledger: Ledger) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="/home/me", race=1, consent=5, state=RunState.LAUNCHING
    )


def test_a_new_ledger_has_seen_nothing(ledger: Ledger) -> None:
    assert ledger.observations.attempts(0.0) == []


def test_answers_come_back_as_they_were_given(ledger: Ledger, clock: ManualClock) -> None:
    _run(ledger)
    wanted = candidate(count=2)
    _attempt(ledger, wanted, 1, Cause.CAPACITY)
    clock.advance(60.0)
    _attempt(ledger, wanted, 2, None)
    refused, accepted = ledger.observations.attempts(0.0)
    assert (refused.pool, refused.outcome, refused.count) == (wanted.offer.pool, "capacity", 2)
    assert (accepted.outcome, accepted.at - refused.at, accepted.seconds) == ("accepted", 60.0, 0.0)


def test_only_those_since_an_instant_count(ledger: Ledger, clock: ManualClock) -> None:
    _run(ledger)
    _attempt(ledger, candidate(), 1, Cause.CAPACITY)
    clock.advance(FORGOTTEN + 1)
    _attempt(ledger, candidate(), 2, Cause.QUOTA)
    assert [seen.outcome for seen in ledger.observations.attempts(clock.now() - FORGOTTEN)] == [
        "quota"
    ]


def test_of_very_many_the_latest_are_read(ledger: Ledger) -> None:
    _run(ledger)
    wanted = candidate()
    offer = wanted.offer
    with ledger.store.transaction() as db:
        db.executemany(
            "INSERT INTO observations (at, kind, cloud, account, region, zone, instance_type,"
            " market, count, outcome)"
            " VALUES (?, 'attempt', ?, '', ?, ?, ?, 'spot', 1, 'capacity')",
            [
                (float(n), offer.cloud, offer.region, offer.zone, offer.instance_type)
                for n in range(OBSERVATIONS_READ + 10)
            ],
        )
    seen = ledger.observations.attempts(0.0)
    assert len(seen) == OBSERVATIONS_READ
    assert (seen[0].at, seen[-1].at) == (10.0, OBSERVATIONS_READ + 9.0)


def test_what_was_met_makes_a_chance(ledger: Ledger, clock: ManualClock) -> None:
    _run(ledger)
    wanted = candidate()
    _attempt(ledger, wanted, 1, Cause.CAPACITY)
    pool = wanted.offer.pool
    known = SuccessModel(ledger.observations.attempts(0.0), now=clock.now())
    assert known.knows(pool)
    assert known.success(pool) < SuccessModel(now=clock.now()).success(pool)
