"""A computer whose clock is set back, as after a journey or a wrong battery, loses nothing."""

from __future__ import annotations

import pytest
from engine_world import EngineWorld

from nbprov.model.clusters import ClusterState, RunState
from nbprov.provisioning.engine import Engine

pytestmark = pytest.mark.machine
HOUR = 3600.0


def set_back(engine: Engine, seconds: float) -> None:
    """Set the clock of an engine; what has elapsed goes on."""
    clock, now = engine.clock, engine.clock.now
    vars(clock)["now"] = lambda: now() - seconds


def test_a_machine_is_ended_and_another_one_made(world: EngineWorld) -> None:
    engine = world.engine(poll_every=0.05)
    assert world.finish(world.launch(engine, world.prepare(engine, "first"))) is RunState.READY
    set_back(engine, HOUR)
    world.do(engine, engine.lifecycle.down(engine.cluster("first")))
    assert world.alive() == []
    assert world.finish(world.launch(engine, world.prepare(engine, "second"))) is RunState.READY
    assert [one["name"] for one in world.alive()] == ["second-0"]
    world.do(engine, engine.lifecycle.down(engine.cluster("second")))
    assert world.alive() == []
    runs = [row.run_id for row in engine.ledger.runs.latest()]
    assert len(runs) == 2
    assert all(engine.ledger.prices.cost(run_id) >= 0 for run_id in runs)


def test_the_next_kernel_takes_over_from_the_future(world: EngineWorld) -> None:
    """Its ledger has times that have not come yet."""
    first = world.engine(poll_every=0.05)
    assert world.finish(world.launch(first, world.prepare(first, "dev"))) is RunState.READY
    world.abandon(first)
    second = world.engine(poll_every=0.05)
    set_back(second, HOUR)
    world.take_up(second)
    world.do(second, second.lifecycle.down(second.cluster("dev")))
    assert second.ledger.clusters.latest()[0].state is ClusterState.ENDED
    assert world.alive() == []
