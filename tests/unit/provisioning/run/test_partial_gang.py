"""A create that makes some of its machines: they are held until all are there, or let go."""

from __future__ import annotations

import pytest
from engine_world import EngineWorld

from nbprov.clouds.local.client import DaemonClient
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause
from nbprov.provisioning.run.actions import partial_gang
from nbprov.provisioning.run.driver import RunDriver

pytestmark = pytest.mark.machine

SENDING = 4.0
"""How long a create may still begin; only after that is it certain that it made nothing."""

SHORT = '[[stock]]\nzone = "here-a"\nleft = 2\n'
PART = {"do": "partial", "zone": "here-a"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_gang, "HOLD_SECONDS", 1.5)


def _history(driver: RunDriver) -> list[tuple[str, AttemptState]]:
    return [(a.candidate.offer.zone, a.state) for a in driver.view().attempts]


def _held(world: EngineWorld, engine: object, nodes: int = 3) -> RunDriver:
    world.market(SHORT + world.fault(**PART))
    driver = world.launch(engine, world.prepare(engine, nodes=nodes))  # type: ignore[arg-type]
    world.until(lambda: len(world.alive()) == 2, "part of the gang")
    return driver


def test_part_of_a_gang_becomes_whole_when_the_rest_comes(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_gang, "HOLD_SECONDS", 60.0)
    monkeypatch.setattr(partial_gang, "ASK_EVERY", 0.2)
    engine = world.engine(submit_seconds=SENDING)
    driver = _held(world, engine)
    world.until(
        lambda: any("they are held" in e.text for e in engine.ledger.events.of_run(driver.run_id)),
        "the word of it",
    )
    assert {a.state for a in driver.view().attempts} == {AttemptState.SENT}
    world.market()  # somebody gave one back
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [("here-a", AttemptState.READY)]
    assert sorted(m["node"] for m in world.alive()) == [0, 1, 2]
    assert len({m["token"] for m in world.alive()}) == 1


def test_part_of_a_gang_is_let_go_after_a_while_and_its_cost_is_said(world: EngineWorld) -> None:
    engine = world.engine(submit_seconds=SENDING)
    driver = _held(world, engine)
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [("here-a", AttemptState.GONE), ("here-b", AttemptState.READY)]
    assert {m["zone"] for m in world.alive()} == {"here-b"}
    first = driver.view().attempts[0]
    assert first.failure is not None
    assert first.failure.cause is Cause.CAPACITY
    assert first.failure.message.startswith("2 of 3 machines were made, and held for ")
    assert "($0.00" in first.failure.message
    assert first.cost > 0
    events = [event.text for event in engine.ledger.events.of_run(driver.run_id)]
    assert any("2 of 3 machines were made; they are held for" in text for text in events)


def test_a_cancel_while_part_of_a_gang_is_held_leaves_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_gang, "HOLD_SECONDS", 60.0)
    engine = world.engine(submit_seconds=SENDING)
    driver = _held(world, engine)
    engine.thread.soon(driver.cancel)
    assert world.finish(driver) is RunState.CANCELLED
    assert world.alive() == []


def test_a_kernel_that_dies_while_it_holds_part_of_a_gang_leaves_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_gang, "HOLD_SECONDS", 60.0)
    first = world.engine(submit_seconds=SENDING)
    _held(world, first)
    world.abandon(first)
    second = world.engine()

    def taken() -> bool:
        world.take_up(second)
        return not second.ledger.runs.unfinished()

    world.until(taken, "the dead kernel's run to be over")
    assert world.alive() == []


def test_nothing_is_added_to_a_gang_that_is_being_let_go(world: EngineWorld) -> None:
    engine = world.engine(submit_seconds=SENDING)
    driver = _held(world, engine)
    token = driver.view().attempts[0].token
    client = DaemonClient(world.folder)
    client.call(
        "terminate", {"ids": [m["id"] for m in world.alive() if m["token"] == token]}, timeout=60
    )
    world.market()
    assert world.finish(driver) is RunState.READY
    assert {m["token"] for m in world.alive()} == {driver.view().attempts[-1].token}
    assert len(world.alive()) == 3
