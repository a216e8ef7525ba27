"""Verbs of clusters when things go wrong.

The ledger cannot be written, a listing lacks a machine, a start is refused, another kernel is
quicker.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from engine_world import LEASE_SECONDS, EngineWorld
from hypothesis import given
from hypothesis import strategies as st

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NotFound
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger.clusters import _may_follow
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.cluster_work import ClusterBusy
from nbprov.provisioning.supervision.verbs.transition import CannotStop
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


def _up(world: EngineWorld, nodes: int = 1, **changes: Any) -> tuple[Engine, RunDriver]:
    engine = world.engine(**changes)
    driver = world.launch(engine, world.prepare(engine, nodes=nodes))
    world.finish(driver)
    return engine, driver


def _unwatched(world: EngineWorld, **changes: Any) -> Engine:
    """A kernel that looks at a cluster only when it is told to; its maker is gone."""
    first, _ = _up(world)
    world.abandon(first)
    world.engines.remove(first)
    return world.engine(**changes)


def _state(engine: Engine, name: str = "dev") -> ClusterState:
    row = engine.ledger.clusters.named(name)
    assert row is not None
    return row.state


def _ids(world: EngineWorld) -> list[str]:
    return [str(m["id"]) for m in world.alive()]


def _fails(times: int, error: Exception, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [times]

    def method(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error
        return real(*args, **options)

    return method


# ---------------------------------------------------------------- ending


@pytest.mark.parametrize(
    ("table", "method"), [("clusters", "move"), ("instances", "seen"), ("blocks", "free_quota")]
)
def test_an_end_is_not_given_up_where_the_ledger_cannot_be_written(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, table: str, method: str
) -> None:
    engine, _ = _up(world)
    row = engine.cluster("dev")
    written = getattr(engine.ledger, table)
    fails = _fails(2, sqlite3.OperationalError("database is locked"), getattr(written, method))
    monkeypatch.setattr(written, method, fails)
    world.do(engine, engine.lifecycle.down(row))
    assert world.alive() == []
    assert _state(engine) is ClusterState.ENDED
    run = engine.ledger.runs.get(row.run_id)
    assert run is not None
    assert not run.lease_holder, "the lease is given back"


def test_a_cancelled_wait_does_not_cut_an_end(world: EngineWorld) -> None:
    engine, _ = _up(world)

    async def begin() -> None:
        waiting = asyncio.create_task(engine.lifecycle.down(engine.cluster("dev")))
        await asyncio.sleep(0)
        waiting.cancel()

    world.do(engine, begin())
    world.until(lambda: _state(engine) is ClusterState.ENDED, "it ends all the same")
    assert world.alive() == []


def test_an_end_that_nobody_works_on_is_gone_on_with_by_the_watcher(world: EngineWorld) -> None:
    engine, driver = _up(world)
    engine.ledger.clusters.move(driver.run_id, ClusterState.ENDING, "cut here")
    world.until(lambda: _state(engine) is ClusterState.ENDED, "the watcher ends it")
    assert world.alive() == []


def test_an_end_that_is_another_kernels_is_left_to_it(world: EngineWorld) -> None:
    engine, driver = _up(world)
    other = world.engine()
    assert other.ledger.leases.take(driver.run_id)
    stop = _keeps_taking(other, driver.run_id)
    engine.ledger.clusters.move(driver.run_id, ClusterState.ENDING, "by the other")
    world.do(engine, asyncio.sleep(0))
    for _ in range(2):
        for row in engine.ledger.clusters.latest(live_only=True):
            controller = engine.lifecycle.controller(row)
            world.do(engine, _called(partial(controller.resume, row)))
    assert len(world.alive()) == 1
    assert not engine.lifecycle.controller(engine.cluster("dev")).terminator.is_ending
    stop()


def test_a_cluster_that_is_ending_has_ended_when_the_list_says_so(world: EngineWorld) -> None:
    engine = _unwatched(world)
    row = engine.cluster("dev")
    engine.ledger.clusters.move(row.cluster_id, ClusterState.ENDING, "you ended it")
    engine.cloud("local").adapter.terminate(_ids(world))
    world.until(lambda: not world.alive(), "the machine is gone")
    world.do(engine, engine.lifecycle.observe(engine.cloud("local")))
    ended = engine.ledger.clusters.named("dev")
    assert ended is not None
    assert (ended.state, ended.reason) == (ClusterState.ENDED, "you ended it")


def test_a_gang_that_lost_a_machine_is_ended_as_a_whole(world: EngineWorld) -> None:
    engine, _ = _up(world, nodes=2)
    engine.cloud("local").adapter.terminate(_ids(world)[:1])
    world.until(lambda: _state(engine) is ClusterState.ENDED, "the whole gang ends")
    assert world.alive() == []
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    assert "one of its machines is gone" in row.reason


# ---------------------------------------------------------------- absence


def test_one_list_without_a_machine_ends_no_cluster(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _unwatched(world, settle=3600.0)
    cloud = engine.cloud("local")
    with monkeypatch.context() as patch:
        patch.setattr(cloud.adapter, "list", lambda owner: [])
        for _ in range(3):
            world.do(engine, engine.lifecycle.observe(cloud))
        assert _state(engine) is ClusterState.RUNNING
        assert engine.lifecycle.is_missing(engine.cluster("dev"))
    world.do(engine, engine.lifecycle.observe(cloud))
    assert not engine.lifecycle.is_missing(engine.cluster("dev"))


def test_two_lists_without_it_that_are_far_enough_apart_do(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _unwatched(world, settle=0.0)
    cloud = engine.cloud("local")
    monkeypatch.setattr(cloud.adapter, "list", lambda owner: [])
    world.do(engine, engine.lifecycle.observe(cloud))
    assert _state(engine) is ClusterState.RUNNING
    world.do(engine, engine.lifecycle.observe(cloud))
    assert _state(engine) is ClusterState.ENDED


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=8), st.floats(0, 60))
def test_a_machine_is_gone_only_after_an_unbroken_absence_of_the_clouds_settle(
    lists: list[tuple[float, bool]], settle: float
) -> None:
    absences, now, missing_since = AbsenceTracker(), 0.0, None
    for pause, shown in lists:
        asked, now = now, now + 0.5
        gone, unsure = absences.look(
            "c", {"i"}, {"i"} if shown else set(), asked=asked, answered=now, settle=settle
        )
        assert gone | unsure == (set() if shown else {"i"})
        if gone:
            assert missing_since is not None
            assert asked - missing_since >= settle
        missing_since = None if shown else (now if missing_since is None else missing_since)
        now += pause


# ---------------------------------------------------------------- stop and start


def test_a_refused_start_that_went_through_all_the_same_is_stopped_again(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = _up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    adapter = engine.cloud("local").adapter
    real = adapter.start

    def start(ids: Sequence[str]) -> None:
        real(ids)
        world.until(lambda: [m["state"] for m in world.alive()] == ["running"], "it runs")
        raise CloudError(Failure(Cause.CAPACITY, "none left"))

    monkeypatch.setattr(adapter, "start", start)
    with pytest.raises(CloudError, match="none left"):
        world.do(engine, engine.lifecycle.start(engine.cluster("dev")))
    assert [m["state"] for m in world.alive()] == ["stopped"]
    assert _state(engine) is ClusterState.STOPPED
    assert engine.ledger.prices.hourly_now(engine.cluster("dev").token) == 0


@pytest.mark.parametrize(
    "error", [OSError("no route to host"), sqlite3.OperationalError("disk I/O error")]
)
def test_a_start_without_an_agent_is_stopped_again_whatever_the_fault(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    engine, _ = _up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    monkeypatch.setattr(engine.connections, "open", _fails(100, error, engine.connections.open))
    seen = engine.ledger.instances.seen
    with pytest.raises(type(error)):
        world.do(engine, _with_a_fault_in_the_stop(engine, monkeypatch, seen))
    assert [m["state"] for m in world.alive()] == ["stopped"]
    assert _state(engine) is ClusterState.STOPPED


async def _with_a_fault_in_the_stop(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, seen: Callable[..., Any]
) -> None:
    stopper = engine.lifecycle.controller(engine.cluster("dev")).stopper
    halt = stopper.halt

    async def halting(*args: Any) -> None:
        # The ledger is locked just when the machine is to be stopped again.
        monkeypatch.setattr(stopper, "halt", halt)
        monkeypatch.setattr(
            engine.ledger.instances,
            "seen",
            _fails(1, sqlite3.OperationalError("database is locked"), seen),
        )
        await halt(*args)

    monkeypatch.setattr(stopper, "halt", halting)
    await engine.lifecycle.start(engine.cluster("dev"))


def test_a_cluster_that_was_started_elsewhere_gets_its_guards(world: EngineWorld) -> None:
    engine, driver = _up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    engine.cloud("local").adapter.start(_ids(world))
    live = world.until(lambda: engine.live.get(driver.run_id), "the watcher attaches")
    assert live.head.agent is not None
    assert _state(engine) is ClusterState.RUNNING


@pytest.mark.parametrize("state", [ClusterState.ENDING, ClusterState.ENDED])
def test_what_is_being_ended_is_neither_stopped_nor_started(
    world: EngineWorld, state: ClusterState
) -> None:
    engine = _unwatched(world)
    row = engine.cluster("dev")
    engine.ledger.clusters.move(row.cluster_id, state, "you ended it")
    with pytest.raises(CannotStop, match="ended meanwhile: you ended it"):
        world.do(engine, engine.lifecycle.stop(row))
    with pytest.raises(NotFound, match="ended meanwhile: you ended it"):
        world.do(engine, engine.lifecycle.start(row))
    assert _state(engine) is state
    engine.cloud("local").adapter.terminate(_ids(world))


def test_an_end_overtakes_a_stop(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = _up(world)
    row = engine.cluster("dev")
    refuse = CloudError(Failure(Cause.TRANSIENT, "not now"))
    monkeypatch.setattr(
        engine.cloud("local").adapter, "stop", _fails(10**6, refuse, lambda ids: None)
    )
    stopping = engine.thread.call(engine.lifecycle.stop(row))
    world.until(lambda: _state(engine) is ClusterState.STOPPING, "stopping")
    world.do(engine, engine.lifecycle.down(row))
    with pytest.raises(CannotStop):
        wait_for(stopping, 120)
    assert _state(engine) is ClusterState.ENDED
    assert world.alive() == []


def test_a_living_kernels_work_on_a_cluster_is_not_disturbed(world: EngineWorld) -> None:
    engine, driver = _up(world)
    other = world.engine()
    stop = _keeps_taking(other, driver.run_id)
    with pytest.raises(ClusterBusy, match="another notebook is at work on dev"):
        world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    assert _state(engine) is ClusterState.RUNNING
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert world.alive() == [], "an end needs no lease"
    stop()


def test_a_dead_kernels_lease_is_waited_for(world: EngineWorld) -> None:
    engine, driver = _up(world)
    other = world.engine()
    assert other.ledger.leases.take(driver.run_id)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    assert _state(engine) is ClusterState.STOPPED


def _keeps_taking(engine: Engine, run_id: str) -> Callable[[], Any]:
    """Have a kernel hold a run's lease, as one that is at work on it."""

    async def hold() -> None:
        while True:
            engine.ledger.leases.take(run_id)
            await asyncio.sleep(LEASE_SECONDS / 8)

    taken = engine.thread.call(hold())
    while not engine.ledger.leases.take(run_id):
        pass
    return taken.cancel


async def _called(function: Callable[[], Any]) -> None:
    function()


# ---------------------------------------------------------------- the watcher and the ledger


def test_the_watcher_outlives_any_fault(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, driver = _up(world)
    monkeypatch.setattr(
        engine.ledger.clusters,
        "latest",
        _fails(1, sqlite3.OperationalError("locked"), engine.ledger.clusters.latest),
    )
    monkeypatch.setattr(
        engine.ledger.launches,
        "known",
        _fails(1, RuntimeError("a fault of ours"), engine.ledger.launches.known),
    )
    live = wait_for(driver.ready, 60)
    command = "nbprov-poweroff terminate idle for 60 minutes"
    world.do(engine, live.head.connection.run(command))  # type: ignore[union-attr]
    world.until(lambda: _state(engine) is ClusterState.ENDED, "the watcher sees it")


@given(st.lists(st.sampled_from(ClusterState)))
def test_what_ends_never_comes_back(states: list[ClusterState]) -> None:
    current = ClusterState.RUNNING
    for state in states:
        if _may_follow(current, state):
            assert current is not ClusterState.ENDED
            assert current is not ClusterState.ENDING or state in (
                ClusterState.ENDING,
                ClusterState.ENDED,
            )
            current = state


def test_a_change_is_written_only_over_the_state_it_starts_from(world: EngineWorld) -> None:
    engine = _unwatched(world)
    row = engine.cluster("dev")
    ledger = engine.ledger
    assert not ledger.clusters.move(row.cluster_id, ClusterState.STOPPED, was=ClusterState.STOPPING)
    assert ledger.clusters.move(row.cluster_id, ClusterState.ENDED, "over")
    assert not ledger.clusters.move(row.cluster_id, ClusterState.RUNNING)
    ledger.clusters.resume_prices(row.cluster_id)
    assert ledger.prices.hourly_now(row.token) == 0
    assert not ledger.clusters.move("nobody", ClusterState.RUNNING)
    engine.cloud("local").adapter.terminate(_ids(world))
