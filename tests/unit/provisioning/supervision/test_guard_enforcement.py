"""Guards on clouds whose machines cannot end their own bill.

A kernel carries them out, with or without a word from the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from engine_world import EngineWorld
from odd_clouds import MistyCloud

from nbprov.clouds.base import Capabilities
from nbprov.clouds.local.provisioner import CAPABILITIES, LocalCloud
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.events import EventKind
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision import agent_poll, cloud_watcher, guard_enforcement
from nbprov.provisioning.supervision.guard_config import NOTHING, guard_config
from nbprov.provisioning.supervision.guard_enforcement import GuardEnforcer, needs_kernel
from nbprov.remote.agent.config import GuardConfig
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine

BILLED = {"poweroff_ends_bill": False, "own_timer": False}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)


def _up(world: EngineWorld, engine: Engine, **planned: Any) -> RunDriver:
    driver = world.launch(engine, world.prepare(engine, **planned))
    assert world.finish(driver) is RunState.READY
    return driver


def _state(engine: Engine) -> tuple[ClusterState, str]:
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    return row.state, row.reason


def _told(engine: Engine, driver: RunDriver, **changes: Any) -> None:
    """Change what the ledger keeps of the guards, and leave the agent as it is."""
    known = engine.ledger.guards.get(driver.run_id)
    assert known is not None
    live = engine.live.get(driver.run_id)
    for node in live.nodes if live is not None else ():
        node.told = GuardConfig.from_json({**known[0], **changes})
    engine.ledger.guards.set(driver.run_id, 0, {**known[0], **changes}, {})


async def _trip(driver: RunDriver, config: GuardConfig) -> None:
    live = wait_for(driver.ready, 60)
    assert live.head.agent is not None
    await live.head.agent.set_guards(config)


@pytest.mark.parametrize(
    ("mode", "state"), [("terminate", ClusterState.ENDED), ("stop", ClusterState.STOPPED)]
)
def test_what_the_agent_finds_due_is_carried_out_through_the_cloud(
    world: EngineWorld, mode: str, state: ClusterState
) -> None:
    engine = world.engine(**BILLED)
    driver = _up(world, engine)
    world.do(
        engine, _trip(driver, GuardConfig(NOTHING, idle_seconds=0.2, wait_for="none", mode=mode))
    )
    world.until(lambda: _state(engine)[0] is state, "the kernel carried it out")
    assert _state(engine)[1].startswith("idle: nothing was done for")
    assert [m["state"] for m in world.alive()] == (
        [] if state is ClusterState.ENDED else ["stopped"]
    )
    assert "by this kernel: idle" in " ".join(
        e.text
        for e in engine.ledger.events.of_run(driver.run_id)
        if e.kind is EventKind.GUARD_ENFORCED
    )


class _Looking(LocalCloud):
    """Notes at each request to end a machine whether the hook of its guard had run to its end."""

    hook_was_over: list[bool]

    def terminate(self, ids: Sequence[str]) -> None:
        self.hook_was_over.append(any(self.folder.rglob("hook.over")))
        super().terminate(ids)


def test_a_hook_is_run_to_its_end_first(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_poll, "EVENTS_SECONDS", 0.2)
    engine = world.engine(_Looking, **BILLED)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, _Looking)
    cloud.hook_was_over = []
    driver = _up(world, engine)
    hook = "for i in 1 2 3 4 5 6; do sleep 0.2; done; touch ~/hook.over"
    config = GuardConfig(NOTHING, idle_seconds=0.2, wait_for="none", hook=hook)
    _told(engine, driver, **config.to_json())
    world.do(engine, _trip(driver, config))
    world.until(lambda: _state(engine)[0] is ClusterState.ENDED, "ended")
    assert cloud.hook_was_over[0]


def test_a_hook_that_goes_on_for_longer_than_it_may_is_cut_off(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_poll, "EVENTS_SECONDS", 0.2)
    monkeypatch.setattr(guard_enforcement, "HOOK_GRACE", 0.2)
    engine = world.engine(_Looking, **BILLED)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, _Looking)
    cloud.hook_was_over = []
    driver = _up(world, engine)
    config = GuardConfig(
        NOTHING, idle_seconds=0.2, wait_for="none", hook="sleep 3600", hook_timeout=0.5
    )
    _told(engine, driver, **config.to_json())
    # The agent would wait for an hour: its answer on time is not relied on.
    world.do(engine, _trip(driver, replace(config, hook_timeout=3600.0)))
    world.until(lambda: _state(engine)[0] is ClusterState.ENDED, "ended")
    assert cloud.hook_was_over == [False]


def test_the_ledger_alone_leaves_a_hook_its_time(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine()
    driver = _up(world, engine)
    hooked: dict[str, Any] = {"idle_seconds": 3600.0, "hook": "save"}
    row = engine.cluster("dev")
    now = engine.clock.now()
    _told(engine, driver, max_lifetime_seconds=60.0, **hooked)
    due = []
    for later in (
        61.0,
        60.0 + guard_enforcement.LIFETIME_HOOK_SECONDS + guard_enforcement.HOOK_GRACE + 1.0,
    ):
        monkeypatch.setattr(engine.clock, "now", lambda later=later: now + later)
        due.append(engine.lifecycle.controller(row).guard_enforcer.due_by_ledger(row))
    assert due[0] is None
    assert due[1] == ("terminate", "lifetime: 1 min are over")
    _told(engine, driver, hook="")
    monkeypatch.setattr(engine.clock, "now", lambda: now + 61.0)
    enforcer = engine.lifecycle.controller(row).guard_enforcer
    assert enforcer.due_by_ledger(row) is not None, "without a hook at once"


def test_an_agent_that_is_asked_again_and_again_is_not_kept_awake(world: EngineWorld) -> None:
    engine = world.engine(**BILLED)
    driver = _up(world, engine)
    world.do(engine, _trip(driver, GuardConfig(NOTHING, idle_seconds=1.5)))
    world.until(
        lambda: _state(engine)[0] is ClusterState.ENDED, "our own questions are no activity"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_lifetime_seconds": 0.1}, "lifetime: "),
        ({"budget": {"hourly_micros": 1, "limit_micros": 1, "spent_micros": 0}}, "budget: "),
    ],
)
def test_lifetime_and_budget_need_no_word_from_the_machine(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    engine = world.engine(**BILLED)
    driver = _up(world, engine)

    async def unreachable(name: str) -> Any:
        raise OSError("no route to host")

    monkeypatch.setattr(engine, "attach", unreachable)
    _told(engine, driver, **changes)
    world.until(lambda: _state(engine)[0] is ClusterState.ENDED, "ended by the ledger alone")
    assert _state(engine)[1].startswith(reason)
    assert world.alive() == []


def test_a_kernel_that_loads_later_carries_out_what_came_due_meanwhile(world: EngineWorld) -> None:
    engine = world.engine(**BILLED)
    driver = _up(world, engine)
    _told(engine, driver, max_lifetime_seconds=0.1)
    world.abandon(engine)
    world.engines.remove(engine)
    second = world.engine(**BILLED)
    world.take_up(second)
    world.until(lambda: _state(second)[0] is ClusterState.ENDED, "ended at load")
    assert world.alive() == []


def test_a_later_kernel_asks_the_agents_too(world: EngineWorld) -> None:
    engine = world.engine(**BILLED)
    driver = _up(world, engine)
    world.abandon(engine)
    world.engines.remove(engine)
    second = world.engine(**BILLED)
    world.take_up(second)
    live = world.until(lambda: second.live.get(driver.run_id), "it attaches by itself")

    async def trip() -> None:
        await live.head.agent.set_guards(GuardConfig(NOTHING, idle_seconds=0.2, wait_for="none"))

    world.do(second, trip())
    world.until(lambda: _state(second)[0] is ClusterState.ENDED, "ended")


def test_a_guard_that_was_due_while_no_kernel_was_there_is_carried_out_at_load(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine(**BILLED)
    with monkeypatch.context() as patch:
        patch.setattr(GuardEnforcer, "reconcile", lambda self, row: None)
        driver = _up(world, engine)
        world.do(engine, _trip(driver, GuardConfig(NOTHING, idle_seconds=0.2, wait_for="none")))

        async def status() -> Any:
            agent = wait_for(driver.ready, 60).head.agent
            assert agent is not None
            return await agent.status()

        world.until(lambda: world.do(engine, status()).ending, "the agent finds it due")
        world.abandon(engine)
    world.engines.remove(engine)
    second = world.engine(**BILLED)
    world.take_up(second)
    world.until(lambda: _state(second)[0] is ClusterState.ENDED, "ended")
    assert _state(second)[1].startswith("idle: ")


def test_where_a_machine_ends_its_own_bill_the_kernel_keeps_out(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.engine(poll_every=0.005)  # else a late test waits for slow rounds
    driver = _up(world, engine)
    _told(engine, driver, max_lifetime_seconds=0.1)
    rounds: list[int] = []
    real = GuardEnforcer.reconcile

    def counted(enforcer: GuardEnforcer, row: ClusterRow) -> None:
        real(enforcer, row)
        rounds.append(1)

    monkeypatch.setattr(GuardEnforcer, "reconcile", counted)
    world.until(lambda: len(rounds) >= 2, "two rounds")
    assert _state(engine)[0] is ClusterState.RUNNING


def test_an_unknown_state_is_billed_and_so_guarded(world: EngineWorld) -> None:
    engine = world.engine(MistyCloud, **BILLED)
    driver = _up(world, engine)
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, MistyCloud)
    cloud.is_misty = True
    world.until(lambda: _state(engine)[0] is ClusterState.UNKNOWN, "nobody knows")
    _told(engine, driver, max_lifetime_seconds=0.1)
    world.until(lambda: _state(engine)[0] is ClusterState.ENDING, "it is asked to end")
    cloud.is_misty = False
    world.until(lambda: _state(engine)[0] is ClusterState.ENDED, "and the list confirms it")


def test_what_is_said_before_launch(world: EngineWorld) -> None:
    engine = world.engine(**BILLED)
    said = [note for note in world.prepare(engine).notes if "nothing ends the machine" in note]
    assert len(said) == 1
    assert said[0].startswith(
        "on local nothing ends the machine while no notebook runs: idle time, lifetime and budget"
    )
    assert not any(
        "nothing ends the machine" in note for note in world.prepare(world.engine()).notes
    )
    assert "idle time and budget" in needs_kernel(
        "x", Capabilities(poweroff_ends_bill=False, own_timer=True)
    )


def test_the_agent_is_told_to_power_nothing_off_where_that_would_end_no_bill(
    world: EngineWorld,
) -> None:
    engine = world.engine()
    spec, plan = world.plan(engine, "budget: 20\n")
    assert plan.chosen is not None
    told = guard_config(spec.guards, replace(CAPABILITIES, poweroff_ends_bill=False), plan.chosen)
    assert told.poweroff == NOTHING
    assert guard_config(spec.guards, CAPABILITIES, plan.chosen).poweroff == CAPABILITIES.poweroff
