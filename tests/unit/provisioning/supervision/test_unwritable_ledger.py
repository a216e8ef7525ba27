"""A ledger that cannot be written: what was asked to end ends, and nothing is created."""

from __future__ import annotations

import errno
import logging
import os
import time
from typing import Any

import pytest
from engine_world import MARKET, EngineWorld

from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import EndUnrecorded, LedgerError
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.run import driver as run_driver
from nbprov.provisioning.run import events
from nbprov.provisioning.run.actions import held_actions
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.provisioning.supervision.verbs import terminator
from nbprov.provisioning.supervision.verbs.stopper import StopUnrecorded
from nbprov.remote.ssh.keys import KeyMaterialError
from nbprov.runtime import fault_log
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.05)
    monkeypatch.setattr(terminator, "UNWRITTEN_SECONDS", 0.2)
    monkeypatch.setattr(run_driver, "UNWRITTEN_SECONDS", 0.2)
    monkeypatch.setattr(held_actions, "MOST_PAUSE", 0.2)
    monkeypatch.setattr(fault_log, "_logged", {})


def _up(world: EngineWorld, **changes: Any) -> tuple[Engine, RunDriver]:
    engine = world.engine(**changes)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    return engine, driver


def _state(engine: Engine) -> ClusterState:
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    return row.state


def _run_state(engine: Engine, driver: RunDriver) -> RunState:
    row = engine.ledger.runs.get(driver.run_id)
    assert row is not None
    return row.state


def test_an_end_is_carried_out_and_said(
    world: EngineWorld, caplog: pytest.LogCaptureFixture
) -> None:
    engine, _ = _up(world)
    world.fill(engine)
    with caplog.at_level(logging.WARNING, "nbprov"):
        with pytest.raises(EndUnrecorded, match=r"dev has ended, confirmed.*could not be written"):
            world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
        assert world.alive() == []
        time.sleep(1.0)  # many rounds of the watcher and the heart
    assert not [r for r in caplog.records if r.exc_info or r.exc_text], "no tracebacks"
    assert len(caplog.records) < 15, caplog.text
    assert _state(engine) is ClusterState.RUNNING, "nothing was written"
    world.fill(engine, is_full=False)
    world.until(lambda: _state(engine) is ClusterState.ENDED, "it is written once it can be")


def test_an_end_is_asked_for_where_the_ledger_cannot_be_read(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = _up(world)
    row = engine.cluster("dev")

    def damaged(*args: object) -> None:
        raise LedgerError("database disk image is malformed")

    with monkeypatch.context() as patch:
        patch.setattr(engine.ledger.store, "rows", damaged)
        patch.setattr(engine.ledger.store, "row", damaged)
        with pytest.raises(EndUnrecorded, match="malformed"):
            world.do(engine, engine.lifecycle.down(row))
        world.until(lambda: not world.alive(), "its machine ends")


def test_a_stop_is_carried_out_and_said(world: EngineWorld) -> None:
    engine, _ = _up(world)
    world.fill(engine)
    with pytest.raises(StopUnrecorded, match=r"dev is stopped.*could not be written"):
        world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    assert [m["state"] for m in world.alive()] == ["stopped"]
    world.fill(engine, is_full=False)
    world.until(lambda: _state(engine) is ClusterState.STOPPED, "the cloud's list is written down")


def test_a_start_is_refused_before_the_cloud_is_asked(world: EngineWorld) -> None:
    engine, _ = _up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    world.fill(engine)
    with pytest.raises(LedgerError, match="cannot be written"):
        world.do(engine, engine.lifecycle.start(engine.cluster("dev"), agreed=True))
    assert [m["state"] for m in world.alive()] == ["stopped"]


def test_a_guard_of_a_kernel_ends_the_machine(world: EngineWorld) -> None:
    engine = world.engine(poweroff_ends_bill=False, own_timer=False)
    driver = world.launch(engine, world.prepare(engine, text="max_lifetime: 2h"))
    assert world.finish(driver) is RunState.READY
    world.fill(engine)
    world.set_ahead(engine, 3 * 3600.0)
    world.until(lambda: not world.alive(), "its lifetime is over")
    world.fill(engine, is_full=False)
    world.until(lambda: _state(engine) is ClusterState.ENDED, "it is written once it can be")


@pytest.mark.parametrize("timing", ["accept", "boot"])
def test_a_cancelled_launch_is_ended_and_said(world: EngineWorld, timing: str) -> None:
    world.market(base=MARKET.replace(f"{timing} = 0.02", f"{timing} = 0.5"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: world.alive(), "the create was sent")
    world.fill(engine)
    engine.thread.soon(driver.cancel)
    with pytest.raises(EndUnrecorded, match="nothing of dev is left on the bill"):
        wait_for(driver.finished, 60)
    assert world.alive() == []
    world.fill(engine, is_full=False)
    world.until(lambda: _run_state(engine, driver) is RunState.CANCELLED, "it is written at last")


def test_a_launch_whose_hand_over_cannot_be_written_is_ended_when_it_is_cancelled(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine()
    hand_over = engine.ledger.clusters.hand_over

    def full(*args: Any) -> None:
        world.fill(engine)
        hand_over(*args)

    monkeypatch.setattr(engine.ledger.clusters, "hand_over", full)
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: driver.failover.winner, "it is up")
    world.until(lambda: "cannot be written" in driver.message, "its hand-over waits")
    engine.thread.soon(driver.cancel)
    world.until(lambda: not world.alive(), "its machine ends")


def test_the_loser_of_a_race_ends(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = world.engine()
    driver = world.prepare(engine, race=2)
    write = driver._journal.write

    def full(before: Any, actions: list[events.Action]) -> None:
        if any(isinstance(action, events.HandOver) for action in actions):
            world.fill(engine)
        write(before, actions)

    with monkeypatch.context() as patch:
        patch.setattr(driver._journal, "write", full)
        world.launch(engine, driver)
        world.until(lambda: driver.failover.winner, "one is up")
        world.until(lambda: len(world.alive()) == 1, "the other one ends")
        assert not driver.ready.done(), "the hand-over waits"
    world.fill(engine, is_full=False)
    assert world.finish(driver) is RunState.READY
    assert len(world.alive()) == 1


def test_nothing_is_created_and_a_cancel_is_heard(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.prepare(engine)
    real = engine.ledger.launches.intend

    def full(row: Any) -> None:
        world.fill(engine)
        real(row)

    engine.ledger.launches.intend = full  # type: ignore[method-assign]
    world.launch(engine, driver)
    world.until(lambda: "cannot be written" in driver.message, "its intent waits")
    engine.thread.soon(driver.cancel)
    with pytest.raises(EndUnrecorded, match="nothing of dev is left"):
        wait_for(driver.finished, 60)
    assert world.alive() == []


def test_a_launch_whose_keys_cannot_be_written_leaves_nothing(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    engine = world.engine()
    driver = world.prepare(engine)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(KeyMaterialError, match="No space left on device"):
            world.launch(engine, driver)
    assert not list((engine.home / "keys").iterdir())
    assert engine.ledger.runs.get(driver.run_id) is None
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY


def test_a_run_whose_ledger_is_full_for_a_while_goes_on(world: EngineWorld) -> None:
    world.market(base=MARKET.replace("accept = 0.02", "accept = 0.5"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: world.alive(), "the create was sent")
    world.fill(engine)
    world.until(lambda: "cannot be written" in driver.message, "a write has failed")
    world.fill(engine, is_full=False)
    assert world.finish(driver) is RunState.READY
    assert len(world.alive()) == 1
