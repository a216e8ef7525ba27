"""Outages of machines and clouds with the real engine: reports in the ledger, and idle guards."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import EngineWorld
from outage_world import GUARD, SILENCE, Silence

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, Failure
from nbprov.provisioning.supervision import cloud_watcher, outages
from nbprov.provisioning.supervision.condition_notes import (
    FOREIGN,
    UNASKED,
    UNREACHED,
    ConditionNotes,
)
from nbprov.runtime.waiting import wait_for

pytestmark = pytest.mark.machine


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)
    monkeypatch.setattr("nbprov.provisioning.async_cloud.ACCOUNT_KEPT", 0.0)


@pytest.fixture
def silent(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> Silence:
    return Silence(world, monkeypatch)


# ---------------------------------------------------------------- machines


def test_a_machine_out_of_reach_is_told_of_each_hour_and_when_it_answers(silent: Silence) -> None:
    changes: list[int] = []
    silent.engine.subscribe(lambda: changes.append(1))
    silent.break_off()
    silent.wait(240.0)
    assert silent.said(*GUARD) == []
    silent.wait(60.0)
    (text,) = silent.said(*GUARD)
    assert text.startswith(f"{UNREACHED.begins} 20")
    for part in (
        "(no route to host)",
        "its idle time cannot be known",
        "$3.60/h",
        "%nbprov down dev",
    ):
        assert part in text
    assert changes
    assert silent.shown == (text,)
    silent.wait(3500.0)
    assert len(silent.said(*GUARD)) == 1
    silent.wait(100.0)
    assert len(silent.said(*GUARD)) == 2
    silent.mend()
    silent.world.until(lambda: silent.said(*GUARD)[-1] == UNREACHED.over, "it answers again")
    assert silent.shown == ()
    assert silent.state is ClusterState.RUNNING


@pytest.mark.parametrize(
    ("mode", "state"), [("terminate", ClusterState.ENDED), ("stop", ClusterState.STOPPED)]
)
def test_whatwas_idle_is_ended_after_its_time_and_the_grace(
    silent: Silence, mode: str, state: ClusterState
) -> None:
    silent.was_idle(1200.0, mode=mode)
    silent.break_off()
    silent.wait(
        1000.0 + outages.UNREACHED_GRACE
    )  # the agent's own clock goes on, by the seconds that this test takes
    assert silent.state is ClusterState.RUNNING
    silent.wait(200.0)
    silent.world.until(lambda: silent.state is state, "its idle guard is carried out")
    assert silent.row.reason.startswith("idle: not reached for 1 h")
    assert silent.row.reason.endswith("and idle before")
    assert [m["state"] for m in silent.world.alive()] == (
        [] if state is ClusterState.ENDED else ["stopped"]
    )
    assert any("by this kernel: idle: not reached" in text for text in silent.said(*GUARD))


def test_what_never_answered_has_a_day_more(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "UNREACHED_MOST", 4800.0)
    silent.told(idle_seconds=1200.0)
    silent.break_off()
    silent.enforcer.outage = None  # as in a kernel that loads now
    silent.attempt()
    silent.wait(5900.0)
    assert silent.state is ClusterState.RUNNING
    silent.wait(200.0)
    silent.world.until(lambda: silent.state is ClusterState.ENDED, "ended")
    assert silent.row.reason.endswith("not known to be idle before")


def test_a_job_that_began_since_the_last_answer_is_no_idleness(silent: Silence) -> None:
    silent.was_idle(600.0)
    silent.break_off()
    silent.ahead += 1.0
    silent.engine.ledger.jobs.set(silent.driver.run_id, "run", "run", "train", "running")
    silent.wait(outages.UNREACHED_GRACE + 1200.0)
    assert silent.state is ClusterState.RUNNING


def test_without_an_idle_guard_nothing_is_ended(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNREACHED_GRACE", "UNREACHED_MOST"):
        monkeypatch.setattr(outages, name, 600.0)
    silent.told(max_lifetime_seconds=1e6)
    silent.break_off()
    silent.wait(3000.0)
    assert silent.state is ClusterState.RUNNING
    (text,) = silent.said(*GUARD)
    assert "idle" not in text


def test_a_sleep_and_a_cloud_that_cannot_be_asked_begin_it_anew(silent: Silence) -> None:
    silent.was_idle(600.0)
    silent.break_off()
    silent.wait(3000.0)
    silent.cloud.failure = Failure(Cause.TRANSIENT, "no network")
    silent.round()
    silent.wait(3000.0)
    assert silent.state is ClusterState.RUNNING, "it is this computer that is offline"
    silent.cloud.failure = None
    silent.round()
    silent.attempt()
    silent.wait(3000.0)
    assert silent.state is ClusterState.RUNNING
    silent.ahead += 8 * 3600.0
    silent.attempt()
    silent.wait(3000.0)
    assert silent.state is ClusterState.RUNNING, "this computer slept"
    silent.wait(1300.0)
    silent.world.until(lambda: silent.state is ClusterState.ENDED, "but now")


def test_an_agent_that_another_release_uses_is_told_of_and_not_ended(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "UNREACHED_MOST", 600.0)
    silent.was_idle(600.0)
    silent.break_off(
        NbprovError("the agent is of another release and in use", code="agent.other-release")
    )
    silent.wait(outages.UNREACHED_GRACE + 1200.0)
    assert silent.state is ClusterState.RUNNING
    assert len(silent.said(*GUARD)) == 2
    assert not any("ended by this kernel" in text for text in silent.said(*GUARD))


def test_what_another_kernel_reaches_is_not_ended(silent: Silence) -> None:
    silent.was_idle(600.0)
    silent.break_off()
    silent.wait(3600.0)
    other = ConditionNotes(silent.engine.ledger, silent.engine.clock, lambda: None)
    other.over(silent.row, UNREACHED)
    silent.wait(1200.0)
    assert silent.state is ClusterState.RUNNING


def test_a_gang_is_not_idle_while_one_of_its_machines_is_at_work(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "UNREACHED_MOST", 600.0)
    silent = Silence(world, monkeypatch, nodes=2)
    silent.told(idle_seconds=600.0)
    head, other = wait_for(silent.driver.ready, 60).nodes
    assert head.agent is not None
    assert other.agent is not None
    world.do(silent.engine, head.agent.run_job("sleep 600"))

    async def lost() -> Any:
        silent.attempts += 1
        raise OSError("no route to host")

    monkeypatch.setattr(other.agent, "status", lost)
    silent.attempt()
    silent.wait(3000.0)
    assert silent.state is ClusterState.RUNNING
    assert len(silent.said(*GUARD)) == 1


# ---------------------------------------------------------------- clouds


def test_revoked_credentials_are_told_of_in_the_second_round(silent: Silence) -> None:
    silent.cloud.failure = Failure(Cause.CREDENTIALS, "the key was revoked")
    silent.world.until(lambda: silent.said(*SILENCE), "it is told")
    (text,) = silent.said(*SILENCE)
    for part in (
        UNASKED.begins,
        "credentials refused: the key was revoked",
        "$3.60/h",
        "then run %nbprov check",
    ):
        assert part in text
    assert silent.shown == (text,)
    for _ in range(3):
        silent.round()
    assert len(silent.said(*SILENCE)) == 1
    silent.cloud.failure = None
    silent.world.until(lambda: silent.said(*SILENCE)[-1] == UNASKED.over, "it can be asked again")
    silent.round()
    assert len(silent.said(*SILENCE)) == 2
    assert silent.shown == ()


def test_being_offline_is_told_of_after_a_while_and_again_after_hours(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_watcher, "OUTAGE_AGAIN", 3600.0)
    silent.cloud.failure = Failure(Cause.TRANSIENT, "no network")
    silent.round()
    silent.wait(540.0, silent.round)
    assert silent.said(*SILENCE) == []
    silent.wait(60.0, silent.round)
    assert len(silent.said(*SILENCE)) == 1
    silent.wait(3540.0, silent.round)
    assert len(silent.said(*SILENCE)) == 1
    silent.wait(60.0, silent.round)
    assert len(silent.said(*SILENCE)) == 2
    assert silent.state is ClusterState.RUNNING


def test_a_fault_of_an_adapter_is_a_silence_too(
    silent: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(cloud: Any) -> None:
        raise KeyError("state")

    monkeypatch.setattr(silent.engine.lifecycle.watcher, "observe", broken)
    silent.round()
    silent.wait(600.0, silent.round)
    (text,) = silent.said(*SILENCE)
    assert "state" in text


def test_credentials_of_another_account_are_told_of_once(silent: Silence) -> None:
    silent.cloud.is_other = True
    silent.world.until(lambda: silent.said(*SILENCE), "it is told")
    for _ in range(3):
        silent.round()
    (text,) = silent.said(*SILENCE)
    for part in (
        FOREIGN.begins,
        "use the credentials of test again",
        "%nbprov down dev --forget",
        "$3.60/h",
    ):
        assert part in text
    assert silent.state is ClusterState.RUNNING
    silent.was_idle(600.0)
    silent.break_off()
    silent.wait(outages.UNREACHED_GRACE + 1800.0)
    assert silent.state is ClusterState.RUNNING, (
        "nothing can be done about it with these credentials"
    )
    silent.cloud.is_other = False
    silent.world.until(lambda: silent.said(*SILENCE)[-1] == FOREIGN.over, "they are back")
    assert silent.shown == ()


def test_what_has_ended_leaves_no_silence(silent: Silence) -> None:
    silent.break_off()
    lifecycle, engine = silent.engine.lifecycle, silent.engine
    silent.world.until(lambda: silent.outage, "it is counted")
    silent.world.do(engine, lifecycle.down(silent.row))
    silent.world.do(engine, lifecycle.watcher.round({"local"}))
    assert lifecycle.controllers == {}
    assert len(lifecycle._context.outages) == 0
