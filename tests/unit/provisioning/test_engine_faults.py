"""Faults of our own side (a full disk, a locked ledger, a bug) and of money.

None leaves a run stuck, or costs what nobody agreed to.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from engine_world import EngineWorld
from odd_clouds import EchoingCloud
from provisioning_samples import candidate

from nbprov.clouds.local.provisioner import CAPABILITIES
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.failures import Cause
from nbprov.model.guards import Autostop, Guards
from nbprov.model.launches import OnShutdown
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.provisioning import run_controller
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger.clusters import ClusterTable
from nbprov.provisioning.live_cluster import GuardsOf, LiveCluster
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.run.failover import Failover
from nbprov.provisioning.spec_storage import readable_text
from nbprov.provisioning.supervision.guard_config import guard_config, on_shutdown
from nbprov.remote.agent.config import GuardConfig
from nbprov.runtime.waiting import wait_for
from nbprov.spec import parse

pytestmark = pytest.mark.machine


def _at(engine: Engine, driver: RunDriver, state: str, act: Any) -> threading.Event:
    """Act once, on the engine thread, as soon as an attempt is in this state."""
    seen = threading.Event()

    def look() -> None:
        if not seen.is_set() and any(
            a.state.value == state for a in driver.failover.attempts.values()
        ):
            act()
            seen.set()

    engine.subscribe(look)
    return seen


@contextmanager
def _locked(engine: Engine) -> Iterator[None]:
    """Another process's transaction holds the ledger."""
    other = sqlite3.connect(engine.ledger.store.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def _impatient(engine: Engine) -> Engine:
    engine.ledger.store._connection.execute("PRAGMA busy_timeout = 20")
    return engine


def test_a_log_that_cannot_be_written_stops_nothing(
    world: EngineWorld, caplog: pytest.LogCaptureFixture
) -> None:
    engine = world.engine()
    driver = world.prepare(engine)
    driver.runlog.path.unlink()
    driver.runlog.path.mkdir()
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    assert "the provision log" in caplog.text


@pytest.mark.parametrize("state", ["intent", "sent", "booting", "agent"])
def test_a_locked_ledger_is_waited_for_and_nothing_is_said_that_is_not_written(
    world: EngineWorld, state: str
) -> None:
    engine = _impatient(world.engine())
    driver = world.prepare(engine)
    shown: list[RunState] = []
    with _locked_from(engine, driver, state) as held:
        world.launch(engine, driver)
        assert held.wait(120)
        world.until(lambda: "tried again" in driver.message, "the wait is shown")
        shown.append(driver.state)
        written = {
            row.token: (row.ids, row.operation)
            for row in engine.ledger.launches.of_run(driver.run_id)
        }
        assert {token: (row.ids, row.operation) for token, row in driver.rows.items()} == written, (
            "memory is not ahead of the ledger"
        )
    assert world.finish(driver) is RunState.READY
    assert shown == [RunState.LAUNCHING]
    assert [a.state for a in driver.view().attempts] == [AttemptState.READY]
    assert len(world.alive()) == 1


@contextmanager
def _locked_from(engine: Engine, driver: RunDriver, state: str) -> Iterator[threading.Event]:
    held: list[Any] = []

    def lock() -> None:
        context = _locked(engine)
        context.__enter__()
        held.append(context)

    seen = _at(engine, driver, state, lock)
    try:
        yield seen
    finally:
        for context in held:
            context.__exit__(None, None, None)


@pytest.mark.parametrize("event", ["Submitted", "Polled", "PhaseDone"])
def test_a_bug_in_the_driver_leaves_no_run_stuck(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    monkeypatch.setattr(run_controller, "FAULT_PAUSE", 0.2)
    engine = world.engine()
    driver = world.prepare(engine)
    handle, struck = Failover.handle, list[bool]()

    def broken(self: Failover, what: Any, now: float, elapsed: float) -> Any:
        if type(what).__name__ == event and not struck:
            struck.append(driver.run_id in engine.drivers)
            raise ValueError("a bug")
        return handle(self, what, now, elapsed)

    monkeypatch.setattr(Failover, "handle", broken)
    world.launch(engine, driver)
    world.until(lambda: struck and driver.run_id not in engine.drivers, "the driver let go")
    assert not driver.ready.done()
    assert world.finish(driver) is RunState.READY
    live: Any = wait_for(driver.ready, 60)
    assert world.do(engine, live.head.connection.run("echo up")).stdout.strip() == "up"
    assert "a bug" in driver.runlog.path.read_text(encoding="utf-8")
    assert "taken up again" in driver.runlog.path.read_text(encoding="utf-8")
    assert len(world.alive()) == 1
    assert engine.ledger.runs.unfinished() == []


def test_a_bug_that_stays_ends_what_was_made_and_says_so(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_controller, "FAULT_PAUSE", 0.02)

    def broken(*_: Any) -> None:
        raise ValueError("no hand-over today")

    monkeypatch.setattr(ClusterTable, "hand_over", broken)
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    with pytest.raises(NbprovError, match="no hand-over today"):
        wait_for(driver.ready, 60)
    assert "no hand-over today" in driver.context.progress.error
    assert world.alive() == []
    assert engine.ledger.runs.unfinished() == []


def test_a_cancel_is_carried_out_though_it_cannot_be_written(world: EngineWorld) -> None:
    engine = _impatient(world.engine())
    driver = world.prepare(engine)
    done: list[bool] = []

    def cancel() -> None:
        with _locked(engine):
            driver.cancel()
        done.append(True)

    _at(engine, driver, "booting", cancel)
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.CANCELLED
    assert done == [True]
    row = engine.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.cancelled, "written once the ledger could be"
    assert world.alive() == []


def test_a_view_asks_the_ledger_once(world: EngineWorld) -> None:
    world.market(world.fault(do="refuse", code="InsufficientCapacity"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    asked: list[str] = []
    engine.ledger.store._connection.set_trace_callback(asked.append)
    assert len(driver.view().attempts) == 3
    assert sum("price_segments" in text for text in asked) == 1
    engine.ledger.store._connection.set_trace_callback(None)


def test_a_view_may_be_asked_for_while_the_ledger_is_closed(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    world.finish(driver)
    before = driver.view().cost
    engine.shut_down()
    assert driver.view().cost >= before > 0


def test_the_heart_goes_on_after_any_error(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.market(base=_slow_boot())
    monkeypatch.setattr("nbprov.provisioning.engine.HEARTBEATS_PER_LEASE", 60)
    engine = world.engine()
    renew, beats = engine.ledger.leases.renew, list[str]()

    def stumbling(run_ids: Any) -> set[str]:
        beats.append("beat")
        if len(beats) == 1:
            raise RuntimeError("a stumble")
        return renew(run_ids)

    monkeypatch.setattr(engine.ledger.leases, "renew", stumbling)
    driver = world.launch(engine, world.prepare(engine))
    world.until(lambda: len(beats) > 2 or driver.finished.done(), "it beats on")
    assert len(beats) > 2
    world.do(engine, _on_thread(driver.cancel))
    world.finish(driver)


async def _on_thread(function: Any) -> None:
    function()
    await asyncio.sleep(0)


def _slow_boot() -> str:
    from engine_world import MARKET

    return MARKET.replace("boot = 0.02", "boot = 1.6")


@pytest.mark.parametrize("call", ["terminate", "list"])
def test_an_end_that_the_cloud_refuses_says_why_it_is_not_over(
    world: EngineWorld, call: str
) -> None:
    world.market(base=_slow_boot())
    engine = world.engine()
    driver = world.prepare(engine)
    refusing = world.fault(
        do="refuse", call=call, code="Unauthorized", message="the token has expired"
    )

    def cancel() -> None:
        world.market(refusing, base=_slow_boot())
        driver.cancel()

    _at(engine, driver, "booting", cancel)
    world.launch(engine, driver)

    def said() -> str:
        failure = driver.view().attempts[0].failure if driver.view().attempts else None
        return failure.sentence() if failure is not None and "expired" in failure.sentence() else ""

    sentence = world.until(said, "it says why")
    assert (
        f"{'ending' if call == 'terminate' else 'listing'} its machines fails: credentials"
        " refused: the token has expired" in sentence
    )
    assert "expired" in driver.message
    world.market(base=_slow_boot())
    assert world.finish(driver) is RunState.CANCELLED
    failure = driver.view().attempts[0].failure
    assert failure is not None
    assert "expired" not in failure.sentence(), "it is over"


def test_a_dearer_price_within_what_was_agreed_is_the_one_that_is_counted(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    driver = world.prepare(engine, text="budget: 20\n")
    world.market('[[prices]]\nzone = "here-a"\nhourly = 4.5\n')
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    row = engine.cluster("dev")
    assert row.candidate.offer.zone == "here-a"
    assert row.candidate.offer.hourly == usd("4.5")
    assert engine.ledger.prices.hourly_now(row.token) == usd("4.5")
    assert driver.view().attempts[0].candidate.hourly == usd("4.5")
    assert engine.ledger.launches.of_run(driver.run_id)[0].launch.candidate.hourly == usd("4.5")
    guard = engine.ledger.guards.get(driver.run_id)
    assert guard is not None
    assert guard[0]["budget"]["hourly_micros"] == usd("4.5")
    assert "asked at $4.50/h" in driver.runlog.path.read_text(encoding="utf-8")


def test_a_candidate_of_which_the_budget_buys_next_to_nothing_is_passed_over(
    world: EngineWorld,
) -> None:
    world.market(world.fault(do="refuse", region="here", code="InsufficientCapacity"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine, text="budget: 0.7\n"))
    assert world.finish(driver) is RunState.FAILED
    last = driver.view().attempts[-1]
    assert last.candidate.offer.zone == "there-a"
    assert last.failure is not None
    assert last.failure.cause is Cause.CANCELLED
    assert "a budget of $0.70 buys 8 minutes of small" in last.failure.message
    assert world.alive() == []


def test_a_spec_with_ignored_fields_and_one_built_in_python_are_stored_readable() -> None:
    plain = parse("resources: {cloud: local, instance_type: small}\nsecrets: {TOKEN: hush}\n")
    assert readable_text(plain) == plain.source
    odd = parse(
        "resources: {cloud: local, instance_type: small}\nservice: {replicas: 2}\nbudget: 4\n",
        ignore=frozenset({"service"}),
    )
    assert parse(readable_text(odd)).guards.budget == usd(4)
    built = replace(plain, source="", run="echo hello")
    again = parse(readable_text(built))
    assert again.run == "echo hello"
    assert again.requests[0].instance_type == "small"
    assert "hush" not in readable_text(built)
    changed = replace(plain, run="echo bye")
    assert parse(readable_text(changed)).run == "echo bye"


def test_a_spec_with_variables_outputs_and_a_webhook_is_stored_as_its_own_text() -> None:
    text = (
        "resources: {cloud: $where, instance_type: small}\noutputs: [results]\nwait: {for:"
        " 1h, notify: $hook}\n"
    )
    spec = parse(
        text, first_line=2, variables={"where": "local", "hook": "https://example.org/hush"}
    )
    assert readable_text(spec) == spec.source
    assert "hush" not in spec.source
    assert parse(spec.source).wait.notify


def test_a_spot_machine_is_never_stopped() -> None:
    guards = Guards(autostop=Autostop(600.0, down=False), is_default=False)
    can = replace(CAPABILITIES, stop=True)
    spot, bought = candidate(market=Market.SPOT), candidate()
    assert on_shutdown(guards, can, spot) is OnShutdown.TERMINATE
    assert on_shutdown(guards, can, bought) is OnShutdown.STOP
    assert guard_config(guards, can, spot).mode == "terminate"
    assert guard_config(guards, can, bought).mode == "stop"


def test_an_agent_that_is_started_again_is_told_its_guards_again(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine()
    world.finish(world.launch(engine, world.prepare(engine, text="budget: 20\nmax_lifetime: 5h\n")))
    start, told = LiveCluster.start_agents, list[GuardConfig | None]()

    async def listening(self: LiveCluster, guards: GuardsOf, seconds: float) -> None:
        told.extend(guards(node) for node in self.present)
        await start(self, guards, seconds)

    monkeypatch.setattr(LiveCluster, "start_agents", listening)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    world.do(engine, engine.lifecycle.start(engine.cluster("dev")))
    kept = engine.ledger.guards.get(engine.cluster("dev").run_id)
    assert kept is not None
    assert [guards.to_json() if guards else None for guards in told] == [kept[0]]
    live = world.do(engine, engine.attach("dev"))
    guarded = {g.guard for g in world.do(engine, live.head.agent.status()).guards}
    assert guarded == {"budget", "lifetime"}


def test_nobody_waits_for_a_run_whose_kernel_shuts_down(world: EngineWorld) -> None:
    world.market(base=_slow_boot())
    engine = world.engine()
    driver = world.prepare(engine)
    seen = _at(engine, driver, "booting", lambda: None)
    world.launch(engine, driver)
    assert seen.wait(120)
    engine.shut_down()
    futures: tuple[Any, ...] = (driver.ready, driver.finished)
    for future in futures:
        with pytest.raises(NbprovError, match="this kernel is shutting down"):
            wait_for(future, 60)
    world.engines.remove(engine)
    assert "adopted" in world.take_up(world.engine())


def test_to_wait_on_the_engine_thread_is_refused(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.prepare(engine)

    async def wait() -> None:
        wait_for(driver.finished)

    with pytest.raises(UsageError) as caught:
        wait_for(engine.thread.call(wait()), 60)
    assert caught.value.code == "engine.would-deadlock"


def test_a_failing_display_stops_nothing(world: EngineWorld) -> None:
    engine = world.engine()

    def broken() -> None:
        raise RuntimeError("no browser")

    engine.subscribe(broken)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY


def test_a_refusal_that_comes_later_repeats_no_key(world: EngineWorld) -> None:
    engine = world.engine(EchoingCloud)
    driver = world.prepare(engine)
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.FAILED
    adapter = engine.cloud("local").adapter
    assert isinstance(adapter, EchoingCloud)
    key = driver.context.keys.host_private.splitlines()[1]
    assert key in adapter.told, "the cloud repeats it"
    (failure,) = {attempt.failure for attempt in driver.failover.attempts.values()}
    assert failure is not None
    assert failure.message.startswith("Invalid value for field 'startup-script'")
    shown = repr(failure)
    kept = b"".join(
        path.read_bytes()
        for path in world.home.rglob("*")
        if path.is_file() and "keys" not in path.relative_to(world.home).parts
    )
    assert key not in shown
    assert key.encode() not in kept
