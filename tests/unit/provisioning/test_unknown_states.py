"""States that nobody knows, and machines that a list lacks.

Nothing is ended or handed over for them, and the price runs on.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from odd_clouds import MistyCloud

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult, Instance, InstanceState
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.provisioning.supervision.verbs.terminator import CannotForget
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)


def _misty(world: EngineWorld, **changes: Any) -> tuple[Engine, MistyCloud]:
    engine = world.engine(MistyCloud, **changes)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, MistyCloud)
    return engine, cloud


def _first(driver: RunDriver) -> AttemptState | None:
    return driver.view().attempts[0].state if driver.view().attempts else None


def _state(engine: Engine) -> ClusterState:
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    return row.state


def test_a_new_machine_in_an_unknown_state_is_waited_for(world: EngineWorld) -> None:
    engine, cloud = _misty(world)
    cloud.is_misty = True
    driver = world.launch(engine, world.prepare(engine))
    world.until(
        lambda: driver.rows and engine.ledger.instances.of_launch(driver.view().attempts[0].token),
        "it is listed",
    )
    assert engine.ledger.prices.hourly_now(driver.view().attempts[0].token) > 0, "it is billed"
    assert _first(driver) is AttemptState.BOOTING
    assert not driver.ready.done()
    cloud.is_misty = False
    assert world.finish(driver) is RunState.READY
    assert len(driver.view().attempts) == 1


def test_but_not_beyond_its_time(world: EngineWorld) -> None:
    engine, cloud = _misty(world, boot_deadline=0.4)
    cloud.is_misty = True
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: _first(driver) is AttemptState.ENDING, "its time is over")
    failure = driver.view().attempts[0].failure
    assert failure is not None
    assert failure.cause is Cause.TIMEOUT
    engine.thread.soon(driver.cancel)
    cloud.is_misty = False
    assert world.finish(driver) is RunState.CANCELLED
    assert world.alive() == []


def test_a_cluster_in_an_unknown_state_lives_on_with_its_connections_and_its_price(
    world: EngineWorld,
) -> None:
    engine, cloud = _misty(world)
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    live, token = wait_for(driver.ready, 60), driver.view().attempts[0].token
    cloud.is_misty = True
    world.until(lambda: _state(engine) is ClusterState.UNKNOWN, "it is shown as what it is")
    assert engine.ledger.prices.hourly_now(token) > 0
    assert engine.live[driver.run_id] is live
    assert live.head.connection is not None
    assert live.head.connection.is_open
    cloud.is_misty = False
    world.until(lambda: _state(engine) is ClusterState.RUNNING, "it is seen again")
    assert engine.live[driver.run_id] is live
    assert len(world.alive()) == 1
    with engine.ledger.together() as db:
        assert (
            db.execute("SELECT count(*) FROM price_segments WHERE token = ?", (token,)).fetchone()[
                0
            ]
            == 1
        ), "one unbroken price"


def test_what_was_unknown_and_is_stopped_has_no_connections(world: EngineWorld) -> None:
    engine, cloud = _misty(world)
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    cloud.is_misty = True
    world.until(lambda: _state(engine) is ClusterState.UNKNOWN, "nobody knows")
    cloud.stop(engine.ledger.launches.ids_of(driver.view().attempts[0].token))
    world.until(lambda: [m["state"] for m in world.alive()] == ["stopped"], "somebody stopped it")
    cloud.is_misty = False
    world.until(lambda: _state(engine) is ClusterState.STOPPED, "it is seen")
    world.until(lambda: driver.run_id not in engine.live, "its connections are closed")


def test_a_load_ends_nothing_for_an_unknown_state(world: EngineWorld) -> None:
    engine, cloud = _misty(world)
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    world.abandon(engine)
    world.engines.remove(engine)
    cloud.is_misty = True
    second = world.engine(lambda _: cloud)
    told = world.take_up(second)
    assert "unknown" in told
    assert _state(second) is ClusterState.UNKNOWN
    assert [m["state"] for m in world.alive()] == ["running"]


def test_a_launch_that_is_taken_up_in_an_unknown_state_is_waited_for(world: EngineWorld) -> None:
    engine, cloud = _misty(world)
    cloud.is_misty = True
    driver = world.launch(engine, world.prepare(engine))
    world.until(
        lambda: driver.rows and engine.ledger.instances.of_launch(driver.view().attempts[0].token),
        "it is listed",
    )
    world.abandon(engine)
    second = world.engine(lambda _: cloud)
    taking = second.thread.call(_take_up(second))
    resumed = world.until(lambda: second.drivers.get(driver.run_id), "it is taken up")
    assert _first(resumed) is AttemptState.BOOTING
    cloud.is_misty = False
    assert world.finish(resumed) is RunState.READY
    wait_for(taking, 120)


async def _take_up(engine: Engine) -> None:
    from nbprov.provisioning.reconcile import ReconcileReport, reconcile

    await reconcile(engine, ReconcileReport())


def test_an_accepted_machine_that_no_list_shows_is_given_up_before_its_time_to_boot_is_over(
    world: EngineWorld,
) -> None:
    engine, cloud = _misty(world, settle=0.5, boot_deadline=600.0)
    world.market("\n", base=_slow_boot())
    driver = world.launch(engine, world.prepare(engine))
    world.until(
        lambda: (
            driver.view().attempts
            and engine.ledger.instances.of_launch(driver.view().attempts[0].token)
        ),
        "it is listed",
    )
    token = driver.view().attempts[0].token
    cloud.hidden = engine.ledger.launches.ids_of(token)
    world.until(lambda: driver.view().attempts[0].failure, "it is missed")
    failure = driver.view().attempts[0].failure
    assert failure is not None
    assert failure.cause is Cause.UNHEALTHY
    assert "is not in its cloud's list any more" in failure.message
    cloud.hidden = ()
    world.until(
        lambda: driver.view().attempts[0].state is AttemptState.GONE,
        "it is ended all the same, since it is back",
    )
    engine.thread.soon(driver.cancel)
    world.finish(driver)
    assert world.alive() == []


class _LateCloud(LocalCloud):
    """Accepts a create and finds out then that it has no stock in the first zone."""

    def __init__(self, folder: Path, failure: Failure | None) -> None:
        super().__init__(folder)
        self.failure = failure

    def list(self, owner: str) -> builtins.list[Instance]:
        return [self._late(i) for i in super().list(owner)]

    def _late(self, instance: Instance) -> Instance:
        if instance.place.zone != "here-a" or instance.state is InstanceState.GONE:
            return instance
        self.terminate([instance.id])
        return replace(
            instance,
            state=InstanceState.ENDING,
            reason="Server.InsufficientInstanceCapacity: none left",
            failure=self.failure,
        )


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (None, Cause.UNHEALTHY),
        (
            Failure(Cause.CAPACITY, "none left", "Server.InsufficientInstanceCapacity"),
            Cause.CAPACITY,
        ),
    ],
)
def test_a_late_failure_has_the_clouds_own_cause_and_words(
    world: EngineWorld, failure: Failure | None, cause: Cause
) -> None:
    cloud = _LateCloud(world.folder, failure)
    engine = world.engine(lambda _: cloud)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY, "the next place serves"
    met = driver.view().attempts[0].failure
    assert met is not None
    assert met.cause is cause
    assert "is ending: Server.InsufficientInstanceCapacity: none left" in met.message
    assert [b.cause for b in engine.ledger.blocks.standing()] == [cause]


def _slow_boot() -> str:
    from engine_world import MARKET

    return MARKET.replace("boot = 0.02", "boot = 3")


# ---------------------------------------------------------------- credentials of another account


class OtherAccount(LocalCloud):
    """A cloud whose credentials may be exchanged for another account's, which has nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_other = False

    def check(self) -> CheckResult:
        told = super().check()
        return replace(told, account="other") if self.is_other else told

    def list(self, owner: str) -> builtins.list[Instance]:
        return [] if self.is_other else super().list(owner)


def _other(world: EngineWorld) -> tuple[Engine, OtherAccount]:
    engine = world.engine(OtherAccount, settle=0.1)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, OtherAccount)
    return engine, cloud


def test_the_list_of_another_account_ends_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.async_cloud.ACCOUNT_KEPT", 0.0)
    engine, cloud = _other(world)
    assert world.finish(world.launch(engine, world.prepare(engine))) is RunState.READY
    cloud.is_other = True
    for _ in range(3):
        world.do(engine, engine.lifecycle.observe(engine.cloud("local")))
        world.do(engine, asyncio.sleep(0.15))
    assert _state(engine) is ClusterState.RUNNING
    down = engine.thread.call(engine.lifecycle.down(engine.cluster("dev")))
    world.do(engine, asyncio.sleep(0.5))
    assert (_state(engine), down.done()) == (ClusterState.ENDING, False)
    cloud.is_other = False
    wait_for(down, 120)
    assert (_state(engine), world.alive()) == (ClusterState.ENDED, [])


def test_a_launch_is_not_given_up_for_the_list_of_another_account(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.async_cloud.ACCOUNT_KEPT", 0.0)
    engine, cloud = _other(world)
    cloud.is_other = True
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: driver.context.progress.troubles, "it is said")
    assert "put them back" in driver.message
    engine.thread.soon(driver.cancel)
    world.do(engine, asyncio.sleep(0.5))
    assert not driver.finished.done()
    cloud.is_other = False
    assert world.finish(driver) is RunState.CANCELLED
    assert world.alive() == []


def test_what_is_being_ended_out_of_reach_can_be_forgotten(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.async_cloud.ACCOUNT_KEPT", 0.0)
    engine, cloud = _other(world)
    assert world.finish(world.launch(engine, world.prepare(engine))) is RunState.READY
    row = engine.cluster("dev")
    with pytest.raises(CannotForget, match="not"):
        world.do(engine, engine.lifecycle.forget(row))
    cloud.is_other = True
    down = engine.thread.call(engine.lifecycle.down(row))
    world.until(lambda: _state(engine) is ClusterState.ENDING, "its end was asked for")
    said = world.do(engine, engine.lifecycle.forget(row))
    wait_for(down, 120)
    (machine,) = engine.ledger.launches.ids_of(row.token)
    assert machine in said
    assert _state(engine) is ClusterState.ENDED
    assert any(
        "not seen to end" in e.text and machine in e.text
        for e in engine.ledger.events.of_run(row.run_id)
    )


def test_what_its_cloud_lists_is_not_forgotten(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cloud = _other(world)
    assert world.finish(world.launch(engine, world.prepare(engine))) is RunState.READY
    row = engine.cluster("dev")
    monkeypatch.setattr(
        cloud,
        "terminate",
        lambda ids: (_ for _ in ()).throw(CloudError(Failure(Cause.PERMISSION, "no"))),
    )
    down = engine.thread.call(engine.lifecycle.down(row))
    world.until(lambda: _state(engine) is ClusterState.ENDING, "its end was asked for")
    with pytest.raises(CannotForget, match="lists"):
        world.do(engine, engine.lifecycle.forget(row))
    monkeypatch.undo()
    wait_for(down, 120)
    assert world.alive() == []


class Lingering(LocalCloud):
    """A cloud that calls a machine ending which is not: its end was lost."""

    was_asked = False
    is_lost = False

    def list(self, owner: str) -> builtins.list[Instance]:
        listed = super().list(owner)
        is_lost = self.is_lost
        return [
            replace(i, state=InstanceState.ENDING)
            if is_lost and i.state is InstanceState.RUNNING
            else i
            for i in listed
        ]

    def terminate(self, ids: Sequence[str]) -> None:
        self.was_asked = True
        super().terminate(ids)


def test_what_has_been_ending_for_long_is_asked_to_end_again(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.supervision.verbs.terminator.ASK_AGAIN", 0.5)
    engine = world.engine(Lingering)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, Lingering)
    assert world.finish(world.launch(engine, world.prepare(engine))) is RunState.READY
    cloud.is_lost = True
    wait_for(engine.thread.call(engine.lifecycle.down(engine.cluster("dev"))), 60)
    assert cloud.was_asked
    assert world.alive() == []
