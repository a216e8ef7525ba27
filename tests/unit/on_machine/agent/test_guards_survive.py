"""The guards over what fails around them: a state file that is of no use, an error in one part."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbprov.on_machine.agent import log
from nbprov.on_machine.agent.agent import Agent
from nbprov.on_machine.agent.guards.guard_clocks import GuardClocks
from nbprov.on_machine.agent.state_files import read_json, write_json, write_unwritten

CONFIG = {
    "poweroff": "true",
    "idle_seconds": 600,
    "max_lifetime_seconds": 3600,
    "budget": {"hourly_micros": 3_600_000_000, "limit_micros": 2_000_000_000},
}
BROKEN = ["", "{", "null", "[]", "{}", '{"age": "old"}', "\0" * 512, "[" * 100_000]


def _saved(folder: Path) -> GuardClocks:
    clocks = GuardClocks(folder, 100.0, 1000.0, "boot")
    clocks.set(CONFIG)
    clocks.tick(1100.0, 2000.0, [])
    clocks.save()
    return clocks


def _age_and_left(clocks: GuardClocks) -> list[float]:
    return [clocks.age, clocks.spent(), *(float(state["left"]) for state in clocks.states())]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("name", ["guards.json", "guards.copy.json"])
def test_one_state_file_that_is_of_no_use_takes_no_guard_away(
    tmp_path: Path, name: str, broken: str
) -> None:
    before = _age_and_left(_saved(tmp_path))
    (tmp_path / name).write_text(broken)
    again = GuardClocks(tmp_path, 1100.0, 2000.0, "boot", is_restart=True)
    assert not again.is_lost
    assert _age_and_left(again) == pytest.approx(before)


@pytest.mark.parametrize(
    "change",
    [
        {"age": None},
        {"now": float("nan")},
        {"config": {"max_lifetime_seconds": "long", "poweroff": "true"}},
        {"config": {"idle_seconds": 5}},
        {"warned": None},
        {"identity": 3},
    ],
)
def test_a_state_with_one_value_that_makes_no_sense_is_not_believed(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    before = _age_and_left(_saved(tmp_path))
    path = tmp_path / "guards.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    again = GuardClocks(tmp_path, 1100.0, 2000.0, "boot", is_restart=True)
    assert _age_and_left(again) == pytest.approx(before)


def test_where_both_are_of_no_use_it_is_known_and_the_age_is_not_too_low(tmp_path: Path) -> None:
    (tmp_path / "agent.lock").touch()
    os.utime(tmp_path / "agent.lock", (500.0, 500.0))
    _saved(tmp_path)
    for name in ("guards.json", "guards.copy.json"):
        (tmp_path / name).write_text("{")
    again = GuardClocks(tmp_path, 1100.0, 2000.0, "boot", is_restart=True)
    assert again.is_lost
    assert again.age == 1500.0
    again.set(CONFIG)
    assert not again.is_lost


@pytest.mark.parametrize("wall", [-1e9, 0.0, 1e12])
def test_a_calendar_that_jumps_changes_no_clock(tmp_path: Path, wall: float) -> None:
    clocks = _saved(tmp_path)
    before = _age_and_left(clocks)
    clocks.tick(1100.0, wall, [])
    assert _age_and_left(clocks) == pytest.approx(before)
    clocks.save()
    again = GuardClocks(tmp_path, 1100.0, 2000.0, "boot", is_restart=True)
    assert _age_and_left(again) == pytest.approx(before)


def test_a_calendar_set_back_over_a_boot_still_counts_what_the_machine_ran(tmp_path: Path) -> None:
    _saved(tmp_path)
    (tmp_path / "boot.id").write_text("x")
    os.utime(tmp_path / "boot.id", (1000.0, 1000.0))
    again = GuardClocks(tmp_path, 60.0, 1060.0, "another boot", is_boot=True)
    assert again.age == 1000.0 + 60.0


def test_an_agent_that_the_machine_brought_back_goes_on_with_its_idle_time(tmp_path: Path) -> None:
    before = _age_and_left(_saved(tmp_path))
    again = GuardClocks(tmp_path, 1100.0, 2000.0, "boot", is_boot=True)
    assert _age_and_left(again) == pytest.approx(before)
    again.tick(1700.0, 2600.0, [])
    assert again.due() is not None, "no time to raise the limit: the machine was not off"


def test_a_guard_that_cannot_be_computed_keeps_no_other_from_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clocks = _saved(tmp_path)
    clocks.config["budget"] = {"hourly_micros": "dear"}
    clocks.config["idle_seconds"] = "long"
    clocks.tick(4000.0, 5000.0, [])
    due = clocks.due()
    assert due is not None
    assert due["guard"] == "lifetime"
    clocks.due()
    assert capsys.readouterr().err.count("Traceback") == 2, "each error is told once"


def test_a_state_that_cannot_be_written_is_kept_and_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("a file in the place of the folder")
    assert not write_json(folder / "state.json", {"a": 1})
    assert read_json(folder / "state.json") == {"a": 1}
    folder.unlink()
    write_unwritten()
    assert json.loads((folder / "state.json").read_text()) == {"a": 1}


def test_printing_to_a_log_that_takes_nothing_does_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", log.SafeLog(full.fileno()))
        print("a line", file=sys.stderr, flush=True)
        try:
            raise ValueError("an error")
        except ValueError:
            log.report_error("something")
    print("a line", file=log.SafeLog(full.fileno() if not full.closed else 999), flush=True)


PARTS = [
    ("activity", "measure"),
    ("watch", "what_is_active"),
    ("boxes", "drop_old"),
    ("gang", "check_silence"),
    ("gang", "send_if_due"),
    ("gang", "last_active"),
    ("activity", "measure_gpus"),
    ("guards", "warnings"),
    ("guards", "pause"),
    ("tasks", "write_unwritten"),
    ("tasks", "event"),
    ("clients", "broadcast"),
]


@pytest.mark.parametrize(("part", "method"), PARTS)
async def test_an_error_in_any_part_keeps_no_machine_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any, part: str, method: str
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = Agent(tmp_path, 0o022)
    config = {**CONFIG, "poweroff": f"touch {tmp_path}/off", "max_lifetime_seconds": 0.5}
    agent.guards.set(config)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    owner: Any = getattr(agent, part) if part != "agent" else SimpleNamespace()
    monkeypatch.setattr(type(owner), method, fail)
    running = asyncio.ensure_future(agent.watch.run())
    await until((tmp_path / "off").exists, "poweroff")
    running.cancel()
