"""A machine with outputs waits at its end for whoever takes them, and never beyond a limit."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nbprov.model.money import usd
from nbprov.on_machine.agent.errors import RequestError
from nbprov.on_machine.agent.guards.config import check_guards
from nbprov.on_machine.agent.guards.guard_clocks import GuardClocks
from nbprov.remote.agent.config import GuardConfig

# Stands for a cloud's poweroff: leaves a file, whole at once.
POWEROFF = 'printf "%s|%s" {mode} {reason} >"$HOME/off.new" && mv "$HOME/off.new" "$HOME/off"'


@settings(max_examples=80)
@given(
    st.floats(1, 100_000),
    st.floats(0, 3600),
    st.integers(1, 10**8),
    st.integers(1, 10**9),
    st.floats(0, 50_000),
    st.floats(1, 9000),
)
def test_no_hold_goes_beyond_a_limit(
    lifetime: float, hold: float, hourly: int, limit: int, age: float, idle: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        guards = GuardClocks(Path(folder), 0.0, 0.0, "boot")
        budget = {"hourly_micros": hourly, "limit_micros": limit, "reserve_seconds": 180}
        config = {
            "poweroff": "true",
            "max_lifetime_seconds": lifetime,
            "budget": budget,
            "idle_seconds": idle,
        }
        guards.set(check_guards({**config, "outputs": {"hold_seconds": hold}}))
        guards.tick(age, age, [])
        due = guards.due()
        assume(due is not None)
        assert due is not None
        until = guards.hold_until(due)
        assert until <= age + hold + 1e-6
        assert until <= max(age, lifetime) + 1e-6
        assert until <= max(age, limit * 3600.0 / hourly - 180) + 1e-6
        # An agent that was started anew goes on with the hold there was.
        guards.tick(age + 1.0, age + 1.0, [])
        assert guards.hold_until(due) <= until + 1e-6


def test_a_limit_comes_due_earlier_by_the_hold_and_a_short_one_by_a_quarter(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(
        check_guards(
            {"poweroff": "true", "max_lifetime_seconds": 3600, "outputs": {"hold_seconds": 600}}
        )
    )
    assert guards.states()[0]["left"] == pytest.approx(3000)
    guards.set(
        check_guards(
            {"poweroff": "true", "max_lifetime_seconds": 60, "outputs": {"hold_seconds": 600}}
        )
    )
    assert guards.states()[0]["left"] == pytest.approx(45)


def test_where_the_disk_is_kept_nothing_is_waited_for(tmp_path: Path) -> None:
    guards = GuardClocks(tmp_path, 0.0, 0.0, "boot")
    guards.set(
        check_guards(
            {
                "poweroff": "true",
                "idle_seconds": 60,
                "mode": "stop",
                "outputs": {"hold_seconds": 600},
            }
        )
    )
    guards.tick(61.0, 61.0, [])
    due = guards.due()
    assert due is not None
    assert guards.hold_until(due) == 61.0


@pytest.mark.parametrize("hold", [-1, True, "5", 1e9, None, float("nan")])
def test_a_hold_that_is_none_is_refused(hold: object) -> None:
    with pytest.raises(RequestError):
        check_guards({"poweroff": "true", "outputs": {"hold_seconds": hold}})


def test_the_configuration_goes_there_and_back() -> None:
    config = GuardConfig("off", idle_seconds=60.0, hold_seconds=600.0)
    assert GuardConfig.from_json(config.to_json()) == config
    assert check_guards(config.to_json()) == config.to_json()


@pytest.mark.machine
async def test_a_client_that_has_taken_them_ends_the_hold(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(
        machine, GuardConfig(POWEROFF, idle_seconds=1, hold_seconds=600, hook="touch $HOME/hooked")
    ) as client:
        assert await client.release() is False
        while (status := await client.status()).ending is None or status.ending.hold_left is None:
            assert not (machine.home / "off").exists()
        assert 0 < status.ending.hold_left <= 600
        assert (machine.home / "hooked").exists()
        assert not (machine.home / "off").exists()
        assert await client.release() is True
        await until((machine.home / "off").exists, "poweroff")


@pytest.mark.machine
async def test_with_nobody_there_the_hold_passes(machine: Any, agent_on: Any, until: Any) -> None:
    began = time.monotonic()
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1, hold_seconds=1)):
        pass
    await until((machine.home / "off").exists, "poweroff")
    assert time.monotonic() - began >= 2.0


@pytest.mark.machine
async def test_a_budget_holds_though_nobody_says_that_they_are_taken(
    machine: Any, agent_on: Any, until: Any
) -> None:
    # At $36 an hour a second costs a cent; of eight cents two are kept back, and a quarter of what
    # it buys is kept for the outputs.
    guards = GuardConfig(
        POWEROFF, hourly=usd(36), limit=usd("0.08"), reserve_seconds=2, hold_seconds=600
    )
    async with agent_on(machine, guards) as client:
        await client.run_job("sleep 608")
        await until((machine.home / "off").exists, "poweroff")
        (state,) = (await client.status()).guards
        assert state.guard == "budget"
    ended = (machine.home / "off").read_text()
    assert ended.startswith("terminate|budget")
