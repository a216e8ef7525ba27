"""The clocks of the guards, with time handed in."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.model.guards import Autostop
from nbprov.model.guards import Guards as SpecGuards
from nbprov.model.money import usd
from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.guards.config import check_guards
from nbprov.on_machine.agent.guards.guard_clocks import GuardClocks
from nbprov.remote.agent.config import GuardConfig

HOUR = 3600.0


def _config(**more: object) -> dict[str, object]:
    return check_guards({"poweroff": "true", **more})


def _left(guards: GuardClocks, name: str) -> float:
    return next(float(state["left"]) for state in guards.states() if state["guard"] == name)


def test_idle_comes_due_only_after_the_whole_time_without_activity(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 100.0, 0.0, "boot")
    guards.set(_config(idle_seconds=60, mode="stop"))
    guards.tick(150.0, 0.0, ["job train"])
    guards.tick(209.0, 0.0, [])
    assert guards.due() is None
    guards.tick(210.0, 0.0, [])
    due = guards.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("idle", "stop")


def test_lifetime_counts_from_the_first_start_over_a_stop_and_a_start(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 10.0, 1000.0, "first boot")
    guards.set(_config(max_lifetime_seconds=HOUR))
    guards.tick(610.0, 1600.0, [])
    guards.save()
    again = GuardClocks(tmp_path, 5.0, 1600.0 + 1200.0, "second boot")
    assert again.config["max_lifetime_seconds"] == HOUR
    assert again.age == pytest.approx(600 + 1200)
    again.tick(5.0 + 1800.0, 4600.0, ["cell main"])
    due = again.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("lifetime", "terminate")


def test_the_agents_own_absence_counts_as_time_of_the_machine(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 100.0, 0.0, "boot")
    guards.set(
        _config(
            max_lifetime_seconds=HOUR,
            idle_seconds=600,
            budget={"hourly_micros": usd(1), "limit_micros": usd(10)},
        )
    )
    guards.tick(200.0, 0.0, [])
    guards.save()
    again = GuardClocks(tmp_path, 500.0, 0.0, "boot", is_restart=True)
    assert again.age == pytest.approx(400)
    assert again.running == pytest.approx(400)
    assert _left(again, "idle") == pytest.approx(200)


def test_a_person_who_starts_the_agent_starts_the_idle_clock_anew(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 100.0, 0.0, "boot")
    guards.set(_config(idle_seconds=600))
    guards.save()
    assert _left(GuardClocks(tmp_path, 5000.0, 0.0, "boot"), "idle") == pytest.approx(600)


def test_time_before_the_agent_came_is_counted_where_the_start_script_told(tmp_path: Path) -> None:
    (tmp_path / "boot.id").write_text("x")
    os.utime(tmp_path / "boot.id", (1000.0, 1000.0))
    guards = GuardClocks(tmp_path, 9000.0, 1090.0, "boot")
    guards.set(_config(max_lifetime_seconds=HOUR))
    assert _left(guards, "lifetime") == pytest.approx(HOUR - 90)


def test_budget_ends_while_it_still_pays_for_the_ending(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(
        _config(
            budget={
                "hourly_micros": usd(6),
                "limit_micros": usd(3),
                "spent_micros": usd(1),
                "reserve_seconds": 180,
            }
        )
    )
    assert _left(guards, "budget") == pytest.approx(1200 - 180)
    guards.tick(1021.0, 0.0, ["job train"])
    due = guards.due()
    assert due is not None
    assert (due["guard"], due["mode"]) == ("budget", "terminate")


def test_the_same_budget_sent_again_does_not_start_its_count_anew(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    config = _config(budget={"hourly_micros": usd(6), "limit_micros": usd(3)})
    guards.set(config)
    guards.tick(900.0, 0.0, [])
    guards.set(dict(config))
    assert _left(guards, "budget") == pytest.approx(900)
    guards.set(
        _config(
            budget={"hourly_micros": usd(6), "limit_micros": usd(3), "spent_micros": usd("1.5")}
        )
    )
    assert _left(guards, "budget") == pytest.approx(900)


def _priced(hourly: int, spent: int = 0, limit: int = usd(6)) -> dict[str, object]:
    return _config(
        budget={
            "hourly_micros": hourly,
            "limit_micros": limit,
            "spent_micros": spent,
            "reserve_seconds": 0,
        }
    )


def _spent(guards: GuardClocks) -> float:
    return next(
        state["spent_micros"] / 1e6 for state in guards.states() if state["guard"] == "budget"
    )


def test_what_was_spent_at_the_old_price_stays_counted_when_the_price_changes(
    tmp_path: Path,
) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(_priced(usd(2)))
    guards.tick(HOUR, HOUR, [])
    guards.set(_priced(usd(4)))
    assert _spent(guards) == pytest.approx(2)
    guards.tick(1.5 * HOUR, 1.5 * HOUR, [])
    assert _spent(guards) == pytest.approx(4)
    assert _left(guards, "budget") == pytest.approx(HOUR / 2)
    guards.set(_priced(usd(1)))
    guards.tick(2.5 * HOUR, 2.5 * HOUR, [])
    assert _spent(guards) == pytest.approx(5)


def test_who_is_told_of_a_price_late_counts_what_it_is_told_and_forgets_nothing_of_its_own(
    tmp_path: Path,
) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(_priced(usd(2)))
    guards.tick(HOUR, HOUR, [])
    guards.set(_priced(usd(4), spent=usd(3)))
    assert _spent(guards) == pytest.approx(3)
    guards.tick(1.25 * HOUR, 1.25 * HOUR, [])
    guards.set(_priced(usd(4), spent=usd(1)))
    assert _spent(guards) == pytest.approx(4), "a word from long ago takes nothing back"
    guards.set(_priced(usd(4), spent=usd(1), limit=usd(9)))
    assert _spent(guards) == pytest.approx(1), "another limit begins from what the person was shown"


def test_what_was_carried_over_outlives_the_agent_and_a_stop_and_start(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(_priced(usd(2)))
    guards.tick(HOUR, HOUR, [])
    guards.set(_priced(usd(4)))
    guards.tick(1.25 * HOUR, 1.25 * HOUR, [])
    guards.save()
    agent = GuardClocks(tmp_path, 1.5 * HOUR, 1.5 * HOUR, "boot", is_restart=True)
    assert _spent(agent) == pytest.approx(4)
    agent.save()
    started = GuardClocks(tmp_path, 10.0, 100 * HOUR, "second boot")
    assert _spent(started) == pytest.approx(4)
    started.set(_priced(usd(4)))
    started.tick(10.0 + HOUR / 4, 100 * HOUR, [])
    assert _spent(started) == pytest.approx(5)


def test_free_machines_have_a_budget_that_never_ends(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(_config(budget={"hourly_micros": 0, "limit_micros": usd(1)}))
    guards.tick(1e7, 0.0, [])
    assert guards.due() is None


def test_warnings_come_once_and_only_for_what_ends_running_work(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(_config(max_lifetime_seconds=HOUR, idle_seconds=60))
    assert guards.warnings() == []
    guards.tick(HOUR - 500, 0.0, ["x"])
    assert [state["guard"] for state in guards.warnings()] == ["lifetime"]
    assert guards.warnings() == []


steps = st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=60)


@settings(max_examples=60)
@given(steps, st.floats(1, 100))
def test_activity_within_the_time_always_keeps_the_machine(
    walk: list[tuple[float, bool]], idle: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        guards = GuardClocks(Path(folder), 0.0, 0.0, "boot")
        guards.set(_config(idle_seconds=idle))
        now, last = 0.0, 0.0
        for seconds, is_active in walk:
            now += seconds
            last = now if is_active else last
            guards.tick(now, now, ["cell main"] if is_active else [])
            assert (guards.due() is not None) == (idle - (now - last) <= 0)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0, 400), max_size=40), st.integers(1, 10_000_000), st.integers(1, 50_000_000)
)
def test_a_budget_is_never_passed_by_more_than_a_tick(
    walk: list[float], hourly: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        guards = GuardClocks(Path(folder), 0.0, 0.0, "boot")
        guards.set(
            _config(budget={"hourly_micros": hourly, "limit_micros": limit, "reserve_seconds": 0})
        )
        now = 0.0
        for seconds in walk:
            now += seconds
            guards.tick(now, now, ["job"])
            assert (guards.due() is None) == (limit - hourly * now / HOUR > 0)


@pytest.mark.parametrize(
    "config",
    [
        {"idle_seconds": 0}, {"idle_seconds": -5}, {"idle_seconds": True},
        {"idle_seconds": float("nan")}, {"max_lifetime_seconds": "8h"},
        {"wait_for": "cells"}, {"mode": "pause"}, {"budget": {"hourly_micros": 1}},
        {"idel_seconds": 60}, {"idle_seconds": 60, "poweroff": ""},
    ],
)  # fmt: skip
def test_a_configuration_that_would_guard_nothing_by_mistake_is_refused(
    config: dict[str, object],
) -> None:
    with pytest.raises(RequestError):
        check_guards({"poweroff": "true", **config})


def test_a_specs_guards_become_the_agents() -> None:
    spec = SpecGuards(
        Autostop(600.0, down=False, wait_for="jobs", hook="save", hook_timeout=60.0),
        max_lifetime=HOUR,
        budget=usd(5),
    )
    config = GuardConfig.of(spec, poweroff="off {mode}", hourly=usd(2), spent=usd(1)).to_json()
    assert check_guards(config) == config
    assert (config["mode"], config["wait_for"], config["hook"], config["idle_seconds"]) == (
        "stop",
        "jobs",
        "save",
        600.0,
    )
    assert (
        config["budget"]["hourly_micros"],
        config["budget"]["limit_micros"],
        config["budget"]["spent_micros"],
    ) == (
        usd(2),
        usd(5),
        usd(1),
    )
    off = GuardConfig.of(SpecGuards(None), poweroff="off").to_json()
    assert "idle_seconds" not in off
    assert "budget" not in off
