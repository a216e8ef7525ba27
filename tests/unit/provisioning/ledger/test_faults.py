"""A ledger that cannot be used says so in its own words; what is billed is counted from when it
began; values of the caller are not kept.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from manual_clock import ManualClock
from provisioning_samples import TWO_DOLLARS, candidate, instance, launch_row

from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import InstanceState
from nbprov.model.money import usd
from nbprov.provisioning.ledger import Ledger


def _opened(ledger: Ledger) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate(), now=ledger.clock.now()))


def _note_and_fail(ledger: Ledger) -> None:
    with ledger.together():
        ledger.events.add("run-1", EventKind.ATTEMPT_CHANGED, "taken back")
        ledger.launches.intend(launch_row("t1", candidate()))


def test_whatever_sqlite_says_comes_out_as_a_ledger_error(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.store.rows("SELECT * FROM nothing")
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.store.row("SELECT * FROM nothing")
    with pytest.raises(LedgerError, match="cannot be written"), ledger.together() as db:
        db.execute("INSERT INTO nothing VALUES (1)")
    _opened(ledger)
    with pytest.raises(LedgerError, match="cannot be written"):
        _note_and_fail(ledger)
    assert ledger.events.of_run("run-1") == []
    ledger.store.close()
    with pytest.raises(LedgerError):
        ledger.runs.latest()
    with pytest.raises(LedgerError):
        ledger.runs.request_cancel("run-1")


def test_a_price_runs_from_when_the_cloud_says_the_machine_began(
    ledger: Ledger, clock: ManualClock
) -> None:
    _opened(ledger)
    created = clock.now()
    clock.advance(3600)
    ledger.launches.accepted("t1", ("i-1",))
    assert ledger.prices.cost("run-1") == 0
    ledger.instances.seen([replace(instance("t1"), launched_at=created + 1800)])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS / 2
    ledger.instances.seen([replace(instance("t1"), launched_at=created - 7200)])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS, "never from before it was asked for"
    assert ledger.prices.by_launch("run-1") == {"t1": TWO_DOLLARS}


def test_a_price_ends_when_the_cloud_says_the_machine_stopped(
    ledger: Ledger, clock: ManualClock
) -> None:
    _opened(ledger)
    ledger.launches.accepted("t1", ("i-1",))
    stopped_at = clock.now() + 3600
    clock.advance(36000)
    stopped = replace(instance("t1", state=InstanceState.STOPPED), stopped_at=stopped_at)
    ledger.instances.seen([stopped])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS, "though nobody looked for ten hours"
    assert ledger.prices.uptime("t1") == 3600


@pytest.mark.parametrize("stopped_at", [-3600.0, 7200.0])
def test_a_stop_of_another_time_ends_no_price_then(
    ledger: Ledger, clock: ManualClock, stopped_at: float
) -> None:
    _opened(ledger)
    ledger.launches.accepted("t1", ("i-1",))
    stopped_at += clock.now()
    clock.advance(3600)
    stopped = replace(instance("t1", state=InstanceState.STOPPED), stopped_at=stopped_at)
    ledger.instances.seen([stopped])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS


def test_a_later_start_moves_no_price(ledger: Ledger, clock: ManualClock) -> None:
    _opened(ledger)
    created = clock.now()
    ledger.launches.accepted("t1", ("i-1",))
    ledger.clusters.hand_over("run-1", "dev", "run-1", "t1", candidate())
    clock.advance(1800)
    ledger.instances.seen([instance("t1", state=InstanceState.STOPPED)])
    clock.advance(36000)
    ledger.clusters.resume_prices("run-1")
    ledger.instances.seen([replace(instance("t1"), launched_at=created)])
    clock.advance(1800)
    assert ledger.prices.cost("run-1") == TWO_DOLLARS


def test_a_machine_found_only_while_ending_costs_too(ledger: Ledger, clock: ManualClock) -> None:
    _opened(ledger)
    ledger.launches.failed(
        "t1", Failure(Cause.TIMEOUT, "not accepted in time"), AttemptState.ENDING
    )
    began = clock.now() + 60
    clock.advance(3660)
    ledger.instances.seen([replace(instance("t1"), launched_at=began)])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS
    ledger.launches.move("t1", AttemptState.GONE)
    clock.advance(3600)
    assert ledger.prices.cost("run-1") == TWO_DOLLARS
    ledger.instances.seen([replace(instance("t1", "i-2"), launched_at=began)])
    assert ledger.prices.cost("run-1") == TWO_DOLLARS, (
        "a stale listing of an ended launch opens nothing"
    )


def test_a_create_sent_again_is_counted_at_its_new_price(ledger: Ledger) -> None:
    _opened(ledger)
    dearer = candidate(hourly=usd(3))
    row = ledger.launches.of_run("run-1")[0]
    ledger.launches.intend_again(
        "t1", replace(row.launch, candidate=dearer, answer_by=row.deadline + 30)
    )
    again = ledger.launches.of_run("run-1")[0]
    assert again.candidate == again.launch.candidate == dearer
    assert again.deadline == row.deadline + 30


def test_values_of_the_caller_are_not_kept(ledger: Ledger) -> None:
    _opened(ledger)
    with sqlite3.connect(ledger.store.path) as db:
        assert "envs" not in {row[1] for row in db.execute("PRAGMA table_info(runs)")}
