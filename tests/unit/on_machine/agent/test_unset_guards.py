"""A machine whose agent has no guards: they were lost, or a kernel died before it told them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nbprov.model.guards import DEFAULT_IDLE_SECONDS
from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.guards import guard_clocks
from nbprov.on_machine.agent.guards.guard_clocks import (
    RETURN_SECONDS,
    UNSET_SECONDS,
    WARNING_SECONDS,
    GuardClocks,
)
from nbprov.on_machine.agent.guards.poweroff_file import USUAL, read_poweroff

STATES = ("guards.json", "guards.copy.json")
CONFIG = {"poweroff": "off {mode} {reason}", "idle_seconds": 600, "mode": "stop"}
BUSY = ["job train"]


def _damage(folder: Path) -> None:
    for name in STATES:
        (folder / name).write_text('{"age": ')


def _lost(folder: Path, now: float = 100.0) -> GuardClocks:
    GuardClocks(folder, 100.0, 1000.0, "boot").set(CONFIG)
    _damage(folder)
    return GuardClocks(folder, now, 900.0 + now, "boot", is_restart=True)


def _state(clocks: GuardClocks) -> dict[str, Any]:
    (state,) = clocks.states()
    return state


def test_a_machine_without_guards_has_the_time_of_the_default_idle_guard() -> None:
    assert UNSET_SECONDS == DEFAULT_IDLE_SECONDS


def test_lost_guards_end_the_machine_in_their_own_way_whatever_it_does(tmp_path: Path) -> None:
    clocks = _lost(tmp_path)
    assert clocks.is_lost
    clocks.tick(100.0 + UNSET_SECONDS - WARNING_SECONDS - 1, 0.0, BUSY)
    assert clocks.warnings() == []
    clocks.tick(100.0 + UNSET_SECONDS - 1, 0.0, BUSY)
    assert clocks.due() is None
    assert [near["guard"] for near in clocks.warnings()] == ["unset"]
    assert clocks.warnings() == [], "warned once"
    clocks.tick(100.0 + UNSET_SECONDS, 0.0, BUSY)
    due = clocks.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("unset", "stop")
    assert due["reason"] == "unset: no kernel set its guards for 3600 s"
    assert clocks.poweroff() == CONFIG["poweroff"]


def test_a_kernel_that_sets_guards_again_ends_the_count(tmp_path: Path) -> None:
    clocks = _lost(tmp_path)
    clocks.tick(100.0 + UNSET_SECONDS - 1, 0.0, BUSY)
    clocks.set(CONFIG)
    clocks.tick(100.0 + 2 * UNSET_SECONDS, 0.0, BUSY)
    assert clocks.due() is None
    assert [state["guard"] for state in clocks.states()] == ["idle"]


def test_neither_a_restart_nor_a_boot_begins_the_count_anew(tmp_path: Path) -> None:
    clocks = _lost(tmp_path)
    clocks.tick(100.0 + 2000.0, 0.0, [])
    clocks.save()
    again = GuardClocks(tmp_path, 2200.0, 0.0, "boot", is_restart=True)
    assert not again.is_lost
    assert _state(again)["left"] == pytest.approx(UNSET_SECONDS - 2100.0)
    again.tick(2200.0 + 1000.0, 1e6, [])
    again.save()
    booted = GuardClocks(tmp_path, 5.0, 2e6, "another boot", is_boot=True)
    assert _state(booted)["left"] == pytest.approx(UNSET_SECONDS - 3100.0), "off is not on the bill"


def test_a_machine_that_was_stopped_so_leaves_its_starter_time_to_set_guards(
    tmp_path: Path,
) -> None:
    clocks = _lost(tmp_path)
    clocks.tick(100.0 + UNSET_SECONDS, 0.0, [])
    clocks.save()
    booted = GuardClocks(tmp_path, 5.0, 1e6, "another boot", is_boot=True)
    booted.tick(5.0 + RETURN_SECONDS - 1, 1e6, [])
    assert booted.due() is None
    booted.tick(5.0 + RETURN_SECONDS, 1e6, [])
    assert booted.due() is not None


def test_guards_that_no_kernel_ever_told_are_as_good_as_lost(tmp_path: Path) -> None:
    (tmp_path / "poweroff.json").write_text('{"poweroff": "off {mode}", "mode": "terminate"}')
    clocks = GuardClocks(tmp_path, 100.0, 1000.0, "boot")
    assert not clocks.is_lost
    clocks.tick(100.0 + UNSET_SECONDS, 0.0, BUSY)
    due = clocks.due()
    assert due is not None
    assert due["mode"] == "terminate"
    assert clocks.poweroff() == "off {mode}"


def test_a_spec_that_wants_no_guard_has_a_configuration_and_is_left_alone(tmp_path: Path) -> None:
    clocks = GuardClocks(tmp_path, 100.0, 1000.0, "boot")
    clocks.set({"poweroff": "off", "mode": "terminate"})
    clocks.tick(1e6, 0.0, [])
    assert clocks.states() == []


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({"idle_seconds": 60, "mode": "stop"}, "stop"),
        ({"idle_seconds": 60}, "terminate"),
        ({"mode": "stop", "max_lifetime_seconds": 60}, "terminate"),
        ({"budget": {"hourly_micros": 1, "limit_micros": 1, "mode": "stop"}}, "stop"),
        (
            {
                "idle_seconds": 60,
                "budget": {"hourly_micros": 1, "limit_micros": 1, "mode": "stop"},
            },
            "terminate",
        ),
    ],
)
def test_a_disk_that_the_guards_would_keep_is_kept(
    tmp_path: Path, config: dict[str, Any], mode: str
) -> None:
    GuardClocks(tmp_path, 100.0, 1000.0, "boot").set({"poweroff": "off", **config})
    assert read_poweroff(tmp_path) == {"poweroff": "off", "mode": mode}


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"poweroff": 3}', '{"poweroff": "off", "mode": "pause"}', "\0" * 64]
)
def test_where_that_file_is_lost_too_a_machine_of_our_start_script_is_powered_off_as_usual(
    tmp_path: Path, broken: str
) -> None:
    clocks = _lost(tmp_path)
    (tmp_path / "poweroff.json").write_text(broken)
    assert clocks.states() == [], "nobody's computer is powered off by a guess"
    (tmp_path / "boot.id").write_text("x")
    assert _state(clocks)["mode"] == "terminate"
    assert clocks.poweroff() == USUAL["poweroff"]


async def test_the_agent_warns_and_ends_a_machine_that_lost_its_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    off = f"echo {{mode}} {{reason}} >{tmp_path}/off.new; mv {tmp_path}/off.new {tmp_path}/off"
    Agent(tmp_path, 0o022).guards.set({**CONFIG, "poweroff": off})
    _damage(tmp_path)
    monkeypatch.setattr(guard_clocks, "UNSET_SECONDS", 0.5)
    agent = Agent(tmp_path, 0o022, is_restart=True)
    running = asyncio.ensure_future(agent.run(lambda trouble: None))
    await until((tmp_path / "off").exists, "poweroff")
    running.cancel()
    assert (tmp_path / "off").read_text() == "stop unset: no kernel set its guards for 0 s\n"
    assert json.loads((tmp_path / "ended.json").read_text())["guard"] == "unset"
    told = (tmp_path / "tasks" / "agent" / "out.000000000001").read_text()
    at = [told.index(f'"what":"{what}"') for what in ("guards_lost", "warning", "guard")]
    assert at == sorted(at)


async def test_nothing_new_of_guards_ends_the_machine_once_a_kernel_set_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(guard_clocks, "UNSET_SECONDS", 0.5)
    agent = Agent(tmp_path, 0o022)
    agent.guards.set({**CONFIG, "poweroff": f"touch {tmp_path}/off"})
    looks: list[float] = []
    agent.watch.on_look = lambda: looks.append(agent.guards.age)
    running = asyncio.ensure_future(agent.watch.run())

    def is_long_over() -> bool:
        agent.watch.wake()
        return bool(looks) and looks[-1] - looks[0] > 1.0

    await until(is_long_over, "twice the time")
    running.cancel()
    assert not (tmp_path / "off").exists()
    assert agent.shutdown.due is None
