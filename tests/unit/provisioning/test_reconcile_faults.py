"""Loads that meet silent clouds, bad rows, late machines and other kernels."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from engine_world import LEASE_SECONDS, MARKET, EngineWorld

from nbprov.clouds.base import Cloud
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import NotFound
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import RunRow
from nbprov.provisioning.reconcile import ReconcileReport, end_orphans
from nbprov.provisioning.run.driver import RunDriver

pytestmark = pytest.mark.machine

SLOW_BOOT = MARKET.replace("boot = 0.02", "boot = 0.4")


def _left(world: EngineWorld, state: str = "booting", text: str = "") -> RunDriver:
    """A launch whose kernel is gone as soon as an attempt was in this state."""
    world.market(base=SLOW_BOOT)
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine, text=text))
    world.until(
        lambda: any(a.state.value == state for a in driver.failover.attempts.values()), state
    )
    _gone(world, engine)
    return driver


def _gone(world: EngineWorld, engine: Engine) -> None:
    world.abandon(engine)
    world.engines.remove(engine)


def _cluster_left(
    world: EngineWorld, state: ClusterState | None = None, text: str = ""
) -> RunDriver:
    """A cluster whose kernel is gone, in a state that it wrote last."""
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine, text=text))
    world.finish(driver)
    if state is not None:
        engine.ledger.clusters.move(driver.run_id, state, "cut here")
    _gone(world, engine)
    return driver


def _after_reading(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, act: Callable[[RunRow], None]
) -> None:
    """Have something happen between a load's reading of unfinished runs and taking their leases."""
    real = engine.ledger.runs.unfinished

    def reading() -> list[RunRow]:
        rows = real()
        for row in rows:
            act(row)
        return rows

    monkeypatch.setattr(engine.ledger.runs, "unfinished", reading)


def _run(engine: Engine, run_id: str) -> RunRow:
    row = engine.ledger.runs.get(run_id)
    assert row is not None
    return row


# ---------------------------------------------------------------- changes before the lease


def test_a_cancel_that_comes_while_the_lease_is_waited_for_counts(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _left(world)
    engine = world.engine()
    _after_reading(engine, monkeypatch, lambda row: engine.ledger.runs.request_cancel(row.run_id))
    assert "nothing is left on the bill" in world.take_up(engine)
    assert world.alive() == []
    assert _run(engine, driver.run_id).state is RunState.CANCELLED


def test_a_run_that_another_kernel_settled_meanwhile_keeps_what_that_wrote(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.engine()
    driver = world.prepare(first)
    world.launch(first, driver)
    world.finish(driver)
    with closing(sqlite3.connect(first.ledger.store.path)) as db, db:
        db.execute("DELETE FROM clusters")
        db.execute("UPDATE launches SET state = 'gone'")
        db.execute("UPDATE runs SET state = 'launching'")
    engine, other = world.engine(), world.engine()

    def settle(row: RunRow) -> None:
        assert other.ledger.leases.take(row.run_id)
        other.ledger.runs.move(row.run_id, RunState.CANCELLED, "settled by the other")
        other.ledger.leases.release(row.run_id)

    _after_reading(engine, monkeypatch, settle)
    world.take_up(engine)
    row = _run(engine, driver.run_id)
    assert (row.state, row.message, row.lease_holder) == (
        RunState.CANCELLED,
        "settled by the other",
        "",
    )


# ---------------------------------------------------------------- half-way


def test_a_stop_that_was_cut_before_the_cloud_was_asked_is_gone_through(world: EngineWorld) -> None:
    driver = _cluster_left(world, ClusterState.STOPPING)
    engine = world.engine()
    assert "was being stopped when its kernel stopped; it is" in world.take_up(engine)
    assert [m["state"] for m in world.alive()] == ["stopped"]
    assert engine.cluster("dev").state is ClusterState.STOPPED
    assert not _run(engine, driver.run_id).lease_holder


@pytest.mark.parametrize("state", [ClusterState.STOPPING, ClusterState.STARTING])
def test_what_a_living_kernel_is_at_is_not_repeated(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, state: ClusterState
) -> None:
    driver = _cluster_left(world, state)
    other, engine = world.engine(), world.engine()
    assert other.ledger.leases.take(driver.run_id)
    over = threading.Event()

    def hold() -> None:
        while not over.wait(LEASE_SECONDS / 8):
            other.ledger.leases.take(driver.run_id)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        asked: list[str] = []
        for verb in ("stop", "start"):
            monkeypatch.setattr(
                engine.cloud("local").adapter, verb, lambda ids, verb=verb: asked.append(verb)
            )
        assert "another notebook is at work on it" in world.take_up(engine)
        assert asked == []
        assert engine.cluster("dev").state is state
    finally:
        over.set()
        holder.join()


# ---------------------------------------------------------------- machines in no row


def test_a_machine_whose_launch_was_concluded_is_ended_whatever_its_age(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster_left(world)
    engine = world.engine()
    engine.ledger.clusters.move(
        engine.cluster("dev").cluster_id, ClusterState.ENDED, "it was missing from the list"
    )
    said: list[str] = []
    report = ReconcileReport()
    report.on_change = lambda: said.append(str(report).rpartition("but ")[2])
    found = world.do(engine, end_orphans(engine, "local", report))
    assert len(found) == 1
    assert world.alive() == [], "confirmed before it returns"
    assert said == [
        "its launch counts as over: being ended",
        "its launch counts as over: ended, confirmed by the cloud's list",
    ]


def test_an_orphan_that_cannot_be_ended_is_said_and_tried_again(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.provisioning.orphans.REFUSED_AGAIN", 0.0)
    monkeypatch.setattr("nbprov.provisioning.orphans.YOUNG_GRACE", 0.3)
    _cluster_left(world)
    engine = world.engine()
    engine.ledger.clusters.move(engine.cluster("dev").cluster_id, ClusterState.ENDED)

    def refuse(ids: object) -> None:
        raise CloudError(Failure(Cause.PERMISSION, "you may not"))

    with monkeypatch.context() as patch:
        patch.setattr(engine.cloud("local").adapter, "terminate", refuse)
        report = ReconcileReport()
        world.do(engine, end_orphans(engine, "local", report))
    assert "could not be ended" in str(report)
    assert "you may not" in str(report)
    assert len(world.alive()) == 1
    world.until(lambda: world.alive() == [], "the same kernel ends it once that is allowed")


def test_a_launch_that_is_concluded_while_the_list_is_made_is_no_orphan(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster_left(world)
    engine = world.engine()
    row, adapter = engine.cluster("dev"), engine.cloud("local").adapter
    real = adapter.list

    def listing(owner: str) -> Any:
        found = real(owner)
        engine.ledger.clusters.move(row.cluster_id, ClusterState.ENDED, "just now")
        return found

    monkeypatch.setattr(adapter, "list", listing)
    assert world.do(engine, end_orphans(engine, "local", ReconcileReport())) == []


# ---------------------------------------------------------------- robustness


def test_one_bad_row_does_not_keep_the_others_from_being_settled(world: EngineWorld) -> None:
    _left(world)
    first = world.engine()
    other = world.launch(first, world.prepare(first, "other"))
    world.until(
        lambda: any(a.state.value == "booting" for a in other.failover.attempts.values()), "booting"
    )
    _gone(world, first)
    engine = world.engine()
    with closing(sqlite3.connect(engine.ledger.store.path)) as db, db:
        db.execute("UPDATE launches SET launch = '{' WHERE run_id = ?", (other.run_id,))
    said = world.take_up(engine)
    assert "dev: adopted" in said
    assert "run other" in said
    assert "not settled, left for the next load" in said
    assert _run(engine, other.run_id).lease_holder != engine.ledger.holder


def test_a_cluster_row_that_cannot_be_read_hides_no_other(world: EngineWorld) -> None:
    _cluster_left(world)
    _cluster_left_named(world, "other")
    engine = world.engine()
    with closing(sqlite3.connect(engine.ledger.store.path)) as db, db:
        db.execute("UPDATE clusters SET candidate = '{' WHERE name = 'dev'")
    assert "other (small in local/here/here-a): still running" in world.take_up(engine)
    assert len(world.alive()) == 2


def test_a_cloud_that_cannot_be_listed_is_left_for_the_next_load(world: EngineWorld) -> None:
    driver = _left(world)
    world.market(
        world.fault(do="refuse", call="list", code="Unavailable", message="on strike"),
        base=SLOW_BOOT,
    )
    engine = world.engine()
    said = world.take_up(engine)
    assert "local: cannot be listed now" in said
    assert "taken up at the next load" in said
    assert _run(engine, driver.run_id).state is RunState.LAUNCHING
    world.market(base=SLOW_BOOT)
    assert "dev: adopted" in world.take_up(engine)


def test_an_adapter_that_is_not_installed_is_named(world: EngineWorld) -> None:
    _left(world)
    _cluster_left_named(world, "other")

    def none(name: str) -> Cloud:
        raise NotFound(f"no cloud is called {name!r}", code="cloud.unknown")

    engine = Engine(world.home, clouds=none, lease_seconds=LEASE_SECONDS)
    world.engines.append(engine)
    said = world.take_up(engine)
    assert "local: its adapter is not installed here" in said
    assert "other" in said
    world.engines.remove(engine)
    engine.shut_down()
    world.take_up(world.engine())
    for row in world.engines[0].ledger.clusters.latest(live_only=True):
        world.do(world.engines[0], world.engines[0].lifecycle.down(row))


def _cluster_left_named(world: EngineWorld, name: str) -> None:
    engine = world.engine()
    world.finish(world.launch(engine, world.prepare(engine, name)))
    _gone(world, engine)


def test_a_fault_while_orphans_are_ended_is_reported(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _left(world)
    engine = world.engine()

    def broken() -> set[str]:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(engine.ledger.launches, "live_tokens", broken)
    said = world.take_up(engine)
    assert "machines at local: not settled, left for the next load: disk I/O error" in said
    assert "dev: adopted" in said


# ---------------------------------------------------------------- what is said


def test_what_was_not_settled_is_not_called_settled(world: EngineWorld) -> None:
    driver = _left(world)
    world.market(base=MARKET.replace("end = 0.02", "end = 5.0"))
    engine = world.engine()
    engine.ledger.runs.request_cancel(driver.run_id)

    def look() -> None:
        # Another kernel takes it over while its machine is still being ended.
        if (taken := engine.drivers.get(driver.run_id)) is not None and not taken.failover.finished:
            engine.thread.soon(taken.lose)

    engine.subscribe(look)
    said = world.take_up(engine)
    assert "dev: not settled yet: attempt 1 is ending in local/here/here-a" in said
    assert "nothing is left on the bill" not in said


def test_an_adoption_says_that_setup_and_run_were_not_run(world: EngineWorld) -> None:
    _left(world, text="setup: echo a\nrun: echo b\n")
    said = world.take_up(world.engine())
    assert "; its setup and run were not run: run the %%provision cell again to do so" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run: echo b\n", "; its run was not run: run"),
        ("workdir: .\n", "; its files were not copied: run"),
        ("", "goes on with it"),
    ],
)
def test_a_cluster_that_nobody_set_up_is_found_with_what_it_lacks(
    world: EngineWorld, text: str, words: str
) -> None:
    driver = _cluster_left(world, text=text)
    engine = world.engine()
    assert words in world.take_up(engine)
    engine.ledger.jobs.set(driver.run_id, "run", "run", "echo b", "running")
    assert "not run" not in world.take_up(engine)
