"""No program reads a text of the ledger.

Outages, budgets, replacements and runs go as they do with random words in place of all texts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from engine_world import EngineWorld
from outage_world import Silence

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.events import EventKind
from nbprov.provisioning.supervision import cloud_watcher

pytestmark = pytest.mark.usefixtures("texts")

IDLE = 600.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)


@pytest.fixture
def silent(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> Silence:
    return Silence(world, monkeypatch)


def kinds(silent: Silence, *those: EventKind) -> list[EventKind]:
    return [
        e.kind for e in silent.engine.ledger.events.of_run(silent.driver.run_id) if e.kind in those
    ]


def test_a_silence_is_told_of_each_hour_and_is_over_once(silent: Silence) -> None:
    both = (EventKind.MACHINES_UNREACHABLE, EventKind.MACHINES_REACHED)
    silent.was_idle(86400.0)
    silent.break_off()
    silent.wait(3600.0 + 600.0)
    assert kinds(silent, *both) == [EventKind.MACHINES_UNREACHABLE] * 2
    assert len(silent.shown) == 1
    silent.mend()
    silent.world.until(
        lambda: kinds(silent, *both)[-1] is EventKind.MACHINES_REACHED, "it answers again"
    )
    silent.world.until(lambda: silent.shown == (), "nothing is shown of it")
    assert kinds(silent, *both).count(EventKind.MACHINES_REACHED) == 1


def test_what_was_idle_is_ended(silent: Silence) -> None:
    silent.was_idle(IDLE, mode="terminate")
    silent.break_off()
    silent.wait(IDLE + 3600.0 + 1200.0)
    silent.world.until(lambda: silent.state is ClusterState.ENDED, "its end")
    assert silent.row.desired_state is DesiredState.ENDED
    assert Counter(kinds(silent, EventKind.GUARD_ENFORCED, EventKind.CLUSTER_ENDED)) == {
        EventKind.GUARD_ENFORCED: 1,
        EventKind.CLUSTER_ENDED: 1,
    }


def test_a_share_of_the_budget_is_told_of_once(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = silent.engine.ledger
    known: Any = ledger.guards.get(silent.driver.run_id)
    budget = {
        "limit_micros": 10_000_000,
        "mode": "terminate",
        "hourly_micros": 3_600_000,
        "spent_micros": 0,
    }
    ledger.guards.set(
        silent.driver.run_id, 0, known[0] | {"budget": budget, "warn": [0.5, 0.8]}, {}
    )
    monkeypatch.setattr(ledger.prices, "cost", lambda run_id, token=None: 6_000_000)
    silent.round()
    silent.round()
    shares = [
        e.data["share"]
        for e in ledger.events.of_run(silent.driver.run_id)
        if e.kind is EventKind.BUDGET_SHARE_SPENT
    ]
    assert shares == [0.5]
