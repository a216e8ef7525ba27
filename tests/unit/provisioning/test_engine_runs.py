"""Runs of the engine on a real cloud of this computer.

What is bought, what is given back, what the ledger says of it.
"""

from __future__ import annotations

import builtins
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.errors import UsageError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Instance, Launch
from nbprov.model.money import usd
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import NameTaken
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.run.unavailable import Unavailable
from nbprov.remote.errors import SshError
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


def _history(driver: RunDriver) -> list[tuple[str, AttemptState, Cause | None]]:
    return [
        (a.candidate.offer.zone, a.state, a.failure.cause if a.failure else None)
        for a in driver.view().attempts
    ]


def _up(world: EngineWorld, **planned: Any) -> tuple[Engine, RunDriver]:
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine, **planned))
    assert world.finish(driver) is RunState.READY
    return engine, driver


def test_from_launch_to_a_machine_that_runs_code_and_back_to_nothing(world: EngineWorld) -> None:
    engine, driver = _up(world)
    live = wait_for(driver.ready, 60)
    said = world.do(engine, live.head.connection.run("echo hello from $NBPROV_NODE"))
    assert said.stdout.strip() == "hello from 0"
    assert _history(driver) == [("here-a", AttemptState.READY, None)]
    row = engine.cluster("dev")
    assert row.state is ClusterState.RUNNING
    assert [m["token"] for m in world.alive()] == [row.token]
    assert engine.ledger.prices.hourly_now(row.token) == usd("3.6")
    guard = engine.ledger.guards.get(driver.run_id)
    assert guard is not None
    assert guard[0]["idle_seconds"] == 3600
    world.do(engine, engine.lifecycle.down(row))
    assert world.alive() == []
    assert engine.ledger.clusters.latest(live_only=True) == []
    assert engine.ledger.runs.unfinished() == []
    assert engine.ledger.prices.hourly_now(row.token) == 0
    log = driver.runlog.path.read_text(encoding="utf-8")
    assert "asked at $3.60/h" in log
    assert "run ready" in log


def test_failover_goes_past_refusals_and_remembers_them(world: EngineWorld) -> None:
    world.market(
        world.fault(do="refuse", zone="here-a", code="InsufficientCapacity")
        + world.fault(do="refuse_later", zone="here-b", code="QuotaExceeded")
    )
    engine, driver = _up(world)
    assert _history(driver) == [
        ("here-a", AttemptState.REFUSED, Cause.CAPACITY),
        ("here-b", AttemptState.REFUSED, Cause.QUOTA),
        ("there-a", AttemptState.READY, None),
    ]
    assert {b.cause for b in engine.ledger.blocks.standing()} == {Cause.CAPACITY, Cause.QUOTA}
    again = world.prepare(engine, "other")
    world.launch(engine, again)
    world.finish(again)
    assert [zone for zone, _, _ in _history(again)] == ["there-a"], (
        "what is blocked is not tried again"
    )


def test_a_run_without_stock_says_what_was_tried_and_why(world: EngineWorld) -> None:
    world.market(world.fault(do="refuse", code="InsufficientCapacity"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    with pytest.raises(Unavailable) as caught:
        wait_for(driver.ready, 60)
    assert len(caught.value.attempts) == 3
    assert "no machine in 3 attempts: out of stock (3)" in str(caught.value)
    row = engine.ledger.runs.get(driver.run_id)
    assert row is not None
    assert row.state is RunState.FAILED
    assert "here-a" in row.error
    world.launch(engine, world.prepare(engine, "dev"))


def test_a_request_that_is_refused_as_invalid_stops_the_run(world: EngineWorld) -> None:
    world.market(world.fault(do="refuse", code="InvalidParameter", message="no such disk"))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.FAILED
    assert len(driver.view().attempts) == 1
    with pytest.raises(Unavailable, match="no such disk"):
        wait_for(driver.ready, 60)


def test_a_rate_limit_is_met_with_the_same_token_later(world: EngineWorld) -> None:
    world.market(world.fault(do="refuse", code="RateExceeded", first=1, retry_after=0.05))
    engine, driver = _up(world)
    assert _history(driver) == [("here-a", AttemptState.READY, None)]
    token = driver.view().attempts[0].token
    assert len(engine.ledger.store.rows("SELECT * FROM attempts WHERE token = ?", token)) == 2
    assert len(world.alive()) == 1


@pytest.mark.parametrize("replayable", [True, False])
def test_a_lost_answer_is_found_out_and_nothing_is_made_twice(
    world: EngineWorld, replayable: bool
) -> None:
    world.market(world.fault(do="lose_answer", first=1))
    engine = world.engine(replayable=replayable)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [("here-a", AttemptState.READY, None)]
    assert len(world.alive()) == 1


class TwiceMade(LocalCloud):
    """Calls the first create refused for now, and carries it out all the same.

    Its list shows two machines of one launch.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown_as: dict[str, str] = {}

    def submit(self, launch: Launch) -> CreateOperation:
        if not self.shown_as:
            twin = "f" * 32
            super().submit(replace(launch, token=twin))
            self.shown_as[twin] = launch.token
            raise CloudError(Failure(Cause.TRANSIENT, "503, and made", retry_after=0.01))
        return super().submit(launch)

    def list(self, owner: str) -> builtins.list[Instance]:
        return [replace(i, token=self.shown_as.get(i.token, i.token)) for i in super().list(owner)]


def test_two_machines_of_one_launch_are_both_ended_and_the_next_place_tried(
    world: EngineWorld,
) -> None:
    engine = world.engine(TwiceMade)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [
        ("here-a", AttemptState.GONE, Cause.TRANSIENT),
        ("here-b", AttemptState.READY, None),
    ]
    assert [m["token"] for m in world.alive()] == [engine.cluster("dev").token]


def test_a_lost_answer_that_made_nothing_is_told_by_the_list_and_the_next_place_tried(
    world: EngineWorld,
) -> None:
    world.market(world.fault(do="lose_answer", first=1) + world.fault(do="refuse_later", first=1))
    engine = world.engine(replayable=False, submit_seconds=4.0)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [
        ("here-a", AttemptState.ABSENT, Cause.UNKNOWN_OUTCOME),
        ("here-b", AttemptState.READY, None),
    ]


@pytest.mark.parametrize(("fault", "cause"), [("die", Cause.UNHEALTHY), ("no_ssh", Cause.TIMEOUT)])
def test_a_half_made_machine_is_ended_and_confirmed_and_the_next_place_tried(
    world: EngineWorld, fault: str, cause: Cause
) -> None:
    world.market(world.fault(do=fault, first=1))
    engine = world.engine(ssh_deadline=0.8)
    driver = world.launch(engine, world.prepare(engine))
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [
        ("here-a", AttemptState.GONE, cause),
        ("here-b", AttemptState.READY, None),
    ]
    assert len(world.alive()) == 1
    events = [event.text for event in engine.ledger.events.of_run(driver.run_id)]
    gone = next(i for i, text in enumerate(events) if "ended, confirmed" in text)
    asked = next(
        i for i, text in enumerate(events) if text.startswith("attempt 2") and "asked" in text
    )
    assert gone < asked, "the slot is not used again before its machine is confirmed gone"
    first = driver.view().attempts[0]
    assert 0 < first.cost < usd("0.1"), "a failed attempt costs too"


@pytest.mark.parametrize("state", ["intent", "sent", "booting", "ssh"])
def test_a_cancel_at_any_time_leaves_nothing(world: EngineWorld, state: str) -> None:
    engine = world.engine()
    driver = world.prepare(engine)
    pressed: list[str] = []

    def look() -> None:
        if not pressed and any(a.state.value == state for a in driver.failover.attempts.values()):
            pressed.append(state)
            engine.thread.soon(driver.cancel)

    engine.subscribe(look)
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.CANCELLED
    assert pressed == [state]
    assert world.alive() == []
    assert len(driver.view().attempts) == 1
    with pytest.raises(Unavailable, match="cancelled; nothing is left on the bill"):
        wait_for(driver.ready, 60)
    assert engine.ledger.runs.unfinished() == []


def test_nothing_is_created_any_more_once_it_was_cancelled(world: EngineWorld) -> None:
    world.market(world.fault(do="slow_start", call="quote", seconds=0.3))
    engine = world.engine()
    driver = world.launch(engine, world.prepare(engine))
    engine.thread.soon(driver.cancel)
    assert world.finish(driver) is RunState.CANCELLED
    assert engine.ledger.store.rows("SELECT token FROM launches") == []


def test_a_race_keeps_one_and_ends_the_other(world: EngineWorld) -> None:
    engine, driver = _up(world, race=2)
    states = sorted(a.state for a in driver.view().attempts)
    assert states[-1] is AttemptState.READY
    assert len(states) == 2
    assert [m["token"] for m in world.alive()] == [driver.failover.winner]
    assert len(engine.ledger.clusters.latest(live_only=True)) == 1


def test_a_hedge_races_a_machine_that_was_accepted_and_boots_slowly(world: EngineWorld) -> None:
    world.market(world.fault(do="slow_boot", zone="here-a", seconds=60.0))
    _engine, driver = _up(world, race=2, hedge=0.1)
    winner = driver.failover.attempts[driver.failover.winner or ""]
    assert winner.candidate.offer.zone == "here-b"
    assert len(world.alive()) == 1


def test_a_gang_comes_whole_or_not_at_all(world: EngineWorld) -> None:
    world.market('[[stock]]\nzone = "here-a"\nleft = 2\n')
    engine, driver = _up(world, nodes=3)
    assert _history(driver) == [
        ("here-a", AttemptState.REFUSED, Cause.CAPACITY),
        ("here-b", AttemptState.READY, None),
    ]
    live = wait_for(driver.ready, 60)
    assert [node.instance.node for node in live.nodes] == [0, 1, 2]
    assert len(world.alive()) == 3
    assert engine.ledger.prices.hourly_now(driver.view().attempts[1].token) == 3 * usd("3.6")


def test_a_gang_with_one_broken_machine_is_ended_whole(world: EngineWorld) -> None:
    world.market(world.fault(do="die", first=1))
    engine, driver = _up(world, nodes=2)
    assert _history(driver) == [
        ("here-a", AttemptState.GONE, Cause.UNHEALTHY),
        ("here-b", AttemptState.READY, None),
    ]
    assert len(world.alive()) == 2
    assert engine.ledger.runs.unfinished() == []


def test_a_budget_that_buys_next_to_nothing_is_refused(world: EngineWorld) -> None:
    engine = world.engine()
    with pytest.raises(UsageError, match="buys 8 minutes of small"):
        world.prepare(engine, text="budget: 0.5\n")


def test_a_price_that_rose_beyond_what_was_agreed_is_not_paid(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.prepare(engine)
    world.market('[[prices]]\nzone = "here-a"\nhourly = 5.5\n')
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.READY
    assert _history(driver) == [
        ("here-a", AttemptState.REFUSED, Cause.CANCELLED),
        ("here-b", AttemptState.READY, None),
    ]
    assert len(engine.ledger.store.rows("SELECT token FROM launches")) == 1, (
        "no intent was written for what was never sent"
    )


def test_a_cap_holds_for_every_attempt(world: EngineWorld) -> None:
    engine = world.engine()
    driver = world.prepare(engine, max_hourly=usd(4))
    world.market("[[prices]]\nhourly = 4.01\n")
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.FAILED
    assert {cause for _, _, cause in _history(driver)} == {Cause.CANCELLED}
    assert world.alive() == []


def test_stop_start_and_down(world: EngineWorld) -> None:
    engine, driver = _up(world)
    world.do(engine, engine.lifecycle.stop(engine.cluster("dev")))
    assert engine.cluster("dev").state is ClusterState.STOPPED
    assert [m["state"] for m in world.alive()] == ["stopped"]
    paused = engine.ledger.prices.cost(driver.run_id)
    assert engine.ledger.prices.hourly_now(engine.cluster("dev").token) == 0
    assert engine.ledger.prices.cost(driver.run_id) == paused
    world.do(engine, engine.lifecycle.start(engine.cluster("dev")))
    assert engine.cluster("dev").state is ClusterState.RUNNING
    assert engine.ledger.prices.hourly_now(engine.cluster("dev").token) == usd("3.6")
    live = world.do(engine, engine.attach("dev"))
    assert world.do(engine, live.head.connection.run("echo back")).stdout.strip() == "back"
    world.do(engine, engine.lifecycle.down(engine.cluster("dev")))
    assert world.alive() == []


def test_a_cluster_that_powered_itself_off_has_ended_with_its_reason(world: EngineWorld) -> None:
    engine, driver = _up(world)
    live = wait_for(driver.ready, 60)
    # The machine may end before it has told how the command ended.
    with contextlib.suppress(SshError):
        world.do(engine, live.head.connection.run("nbprov-poweroff terminate idle for 60 minutes"))
    row = world.until(
        lambda: (r := engine.ledger.clusters.named("dev")) and r.state is ClusterState.ENDED and r,
        "the watcher sees it",
    )
    assert "idle for 60 minutes" in row.reason
    assert engine.ledger.prices.hourly_now(row.token) == 0
    assert world.alive() == []


def test_a_name_is_used_once(world: EngineWorld) -> None:
    engine, _ = _up(world)
    with pytest.raises(NameTaken):
        world.launch(engine, world.prepare(engine))


def test_a_refused_attempt_costs_three_fsyncs_at_most(world: EngineWorld) -> None:
    world.market(world.fault(do="refuse_later", code="InsufficientCapacity"))
    engine = world.engine()
    driver = world.prepare(engine)
    commits: list[str] = [""]

    def trace(statement: str) -> None:
        commits[-1] += statement
        if statement == "COMMIT":
            commits.append("")

    engine.ledger.store._connection.set_trace_callback(trace)
    world.launch(engine, driver)
    assert world.finish(driver) is RunState.FAILED
    engine.ledger.store._connection.set_trace_callback(None)
    of_attempts = [text for text in commits if "INTO launches" in text or "UPDATE launches" in text]
    assert len(of_attempts) == 3 * 3, (
        "each of the three attempts: its intent, its operation, its answer"
    )
