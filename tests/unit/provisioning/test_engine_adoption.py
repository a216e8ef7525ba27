"""What a kernel does with the runs of a dead one, and how two living ones do not collide."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from engine_world import LEASE_SECONDS, EngineWorld

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import CreateOperation, InstanceState, Launch
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import LeaseLost
from nbprov.provisioning.reconcile import ORPHAN_SECONDS, ReconcileReport, end_orphans
from nbprov.provisioning.run.driver import RunDriver
from nbprov.runtime.clocks import SystemClock
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine
HOUR = 3600.0


class LaterClock(SystemClock):
    """The clock of a kernel that was opened hours later."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return super().now() + self.seconds

    def elapsed(self) -> float:
        return super().elapsed() + self.seconds


def _in_state(driver: RunDriver, state: str) -> bool:
    return any(a.state.value == state for a in driver.failover.attempts.values())


def _abandoned(world: EngineWorld, state: str, **planned: object) -> tuple[Engine, RunDriver]:
    """A launch whose kernel is gone as soon as an attempt was in this state."""
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine, **planned))  # type: ignore[arg-type]
    world.until(lambda: _in_state(driver, state), state)
    world.abandon(engine)
    world.engines.remove(engine)
    return engine, driver


def test_a_launch_that_was_accepted_is_adopted_and_usable(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    _, driver = _abandoned(world, "booting")
    engine = world.engine()
    assert "adopted, it runs in local/here/here-a" in world.take_up(engine)
    row = engine.cluster("dev")
    assert [m["token"] for m in world.alive()] == [row.token] == list(driver.failover.attempts)
    live = world.do(engine, engine.attach("dev"))
    assert world.do(engine, live.head.connection.run("echo here")).stdout.strip() == "here"
    assert engine.ledger.runs.unfinished() == []


def test_a_machine_that_boots_while_the_computer_sleeps_is_kept(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    clock = LaterClock(0.0)
    engine = world.engine(clock=clock)
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: _in_state(driver, "booting"), "booting")
    clock.seconds = 2 * HOUR
    assert world.finish(driver) is RunState.READY
    assert len(driver.failover.attempts) == 1


@pytest.mark.parametrize(
    ("how", "state"), [("stop", InstanceState.STOPPED), ("terminate", InstanceState.GONE)]
)
def test_a_machine_that_ended_itself_at_night_costs_until_then(
    world: EngineWorld, how: str, state: InstanceState
) -> None:
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.finish(driver)
    live = wait_for(driver.ready, 60)
    world.do(first, live.head.connection.run(f"nbprov-poweroff {how} idle: for 1800 s"))
    world.abandon(first)
    world.engines.remove(first)
    morning = world.engine(clock=LaterClock(10 * HOUR))
    cloud = LocalCloud(world.folder)
    world.until(lambda: {i.state for i in cloud.list(morning.ledger.owner)} == {state}, "its end")
    world.take_up(morning)
    row = morning.ledger.clusters.latest()[0]
    assert row.state is (ClusterState.STOPPED if how == "stop" else ClusterState.ENDED)
    assert morning.ledger.prices.uptime(row.token) < HOUR


def test_a_launch_that_was_cancelled_is_ended(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    first, driver = _abandoned(world, "booting")
    del first
    engine = world.engine()
    engine.ledger.runs.request_cancel(driver.run_id)
    assert "nothing is left on the bill" in world.take_up(engine)
    assert world.alive() == []
    run = engine.ledger.runs.get(driver.run_id)
    assert run is not None
    assert run.state is RunState.CANCELLED


def test_a_launch_whose_keys_are_gone_is_ended(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    _, driver = _abandoned(world, "booting")
    shutil.rmtree(driver.context.keys_folder)
    engine = world.engine()
    assert "nothing is left on the bill" in world.take_up(engine)
    assert world.alive() == []


def test_a_race_that_was_cut_keeps_one(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    _abandoned(world, "booting", race=2)
    engine = world.engine()
    world.take_up(engine)
    world.until(lambda: len(world.alive()) == 1, "one machine")
    assert [m["token"] for m in world.alive()] == [engine.cluster("dev").token]
    assert engine.ledger.runs.unfinished() == []


def test_a_running_cluster_is_found_again_and_an_end_that_was_cut_goes_on(
    world: EngineWorld,
) -> None:
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.finish(driver)
    first.ledger.clusters.move(driver.run_id, ClusterState.ENDING, "you ended it")
    world.abandon(first)
    world.engines.remove(first)
    engine = world.engine()
    assert "ended, confirmed by the cloud's list" in world.take_up(engine)
    assert world.alive() == []
    assert engine.ledger.clusters.latest(live_only=True) == []


def test_a_cluster_that_ended_while_no_kernel_was_there_is_told_with_its_reason(
    world: EngineWorld,
) -> None:
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.finish(driver)
    live = wait_for(driver.ready, 60)
    world.do(first, live.head.connection.run("nbprov-poweroff terminate budget used up"))
    world.abandon(first)
    world.engines.remove(first)
    engine = world.engine()
    cloud = LocalCloud(world.folder)
    world.until(
        lambda: all(i.state is InstanceState.GONE for i in cloud.list(engine.ledger.owner)),
        "the machine is gone",
    )
    assert "ended while no kernel was there" in world.take_up(engine)
    assert engine.ledger.clusters.latest(live_only=True) == []


def test_a_stop_that_was_cut_is_told_by_the_list(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    engine.ledger.clusters.move(driver.run_id, ClusterState.STOPPING, "cut here")
    engine.cloud("local").adapter.stop([m["id"] for m in world.alive()])
    world.until(lambda: engine.cluster("dev").state is ClusterState.STOPPED, "stopped")
    assert engine.ledger.prices.hourly_now(engine.cluster("dev").token) == 0


@pytest.mark.parametrize("came_up", [True, False])
def test_a_start_that_was_cut_is_gone_through_again_so_that_no_machine_is_unguarded(
    world: EngineWorld, came_up: bool
) -> None:
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.finish(driver)
    world.do(first, first.lifecycle.stop(first.cluster("dev")))
    first.ledger.clusters.move(driver.run_id, ClusterState.STARTING, "cut here")
    if came_up:
        first.cloud("local").adapter.start([m["id"] for m in world.alive()])
    world.abandon(first)
    world.engines.remove(first)
    engine = world.engine()
    assert "was being started when its kernel stopped; it runs" in world.take_up(engine)
    assert engine.cluster("dev").state is ClusterState.RUNNING
    live = engine.live[driver.run_id]
    assert live.head.agent is not None, "the agent watches it"


def test_a_living_kernel_keeps_its_launch(world: EngineWorld) -> None:
    world.market(base=_slow_boot(1.2))
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.until(lambda: _in_state(driver, "booting"), "booting")
    second = world.engine()
    assert "another notebook is at work on it" in world.take_up(second)
    assert world.finish(driver) is RunState.READY
    assert len(world.alive()) == 1


def test_a_kernel_that_slept_through_its_lease_touches_nothing_any_more(world: EngineWorld) -> None:
    world.market(base=_slow_boot(2.0))
    first = world.engine()
    driver = world.launch(first, world.prepare(first))
    world.until(lambda: _in_state(driver, "booting"), "booting")
    second = world.engine()
    first._heart.cancel()
    world.set_ahead(second, 2 * LEASE_SECONDS)
    assert second.ledger.leases.take(driver.run_id)
    with pytest.raises(LeaseLost):
        wait_for(driver.ready, 120)
    assert len(world.alive()) == 1, "it did not end what is another's now"
    world.take_up(second)
    assert second.cluster("dev").state is ClusterState.RUNNING


def test_a_machine_that_stands_in_no_row_is_ended_once_it_is_old(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nbprov.provisioning.orphans.ORPHAN_SECONDS", 0.0
    )  # only what is slept for; its age counts as ever
    monkeypatch.setattr("nbprov.provisioning.orphans.YOUNG_GRACE", 0.3)
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    stray = replace(driver.rows[engine.cluster("dev").token].launch, token="f" * 32, answer_by=0.0)
    adapter = engine.cloud("local").adapter
    adapter.submit(stray)
    world.until(lambda: len(world.alive()) == 2, "the stray")
    report = ReconcileReport()
    assert [i.token for i in world.do(engine, end_orphans(engine, "local", report))] == ["f" * 32]
    assert "left alone until it is 10 minutes old" in str(report)
    world.set_ahead(engine, ORPHAN_SECONDS + 60.0)  # and this kernel looks again by itself
    world.until(lambda: len(world.alive()) == 1, "the stray is gone")
    assert world.alive()[0]["token"] == engine.cluster("dev").token


class _Careless(LocalCloud):
    """An adapter whose `submit` raises an exception of its own after the create went through."""

    def submit(self, launch: Launch) -> CreateOperation:
        super().submit(launch)
        raise ConnectionResetError("the line broke")


def test_a_fault_that_an_adapter_let_out_of_a_create_is_an_unknown_outcome(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    launch = replace(driver.rows[engine.cluster("dev").token].launch, token="e" * 32, answer_by=0.0)
    with pytest.raises(CloudError) as caught:
        world.do(engine, AsyncCloud(_Careless(world.folder)).submit(launch))
    assert caught.value.failure.cause is Cause.UNKNOWN_OUTCOME


def _slow_boot(seconds: float = 0.4) -> str:
    from engine_world import MARKET

    return MARKET.replace("boot = 0.02", f"boot = {seconds}")


class _Ahead:
    """A clock that runs ahead, as that of a kernel which woke up later."""

    def __init__(self, seconds: float) -> None:
        from nbprov.runtime.clocks import SystemClock

        self._clock, self.seconds = SystemClock(), seconds

    def now(self) -> float:
        return self._clock.now() + self.seconds

    def elapsed(self) -> float:
        return self._clock.elapsed()
