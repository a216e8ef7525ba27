"""The guards on a real machine.

What ends it, what does not, and what is left behind for the person.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psutil
import pytest

from nbprov.model.money import usd
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.agent.framing import AgentError

pytestmark = pytest.mark.machine

# Stands for a cloud's poweroff: leaves a file, whole at once.
POWEROFF = 'printf "%s|%s" {mode} {reason} >"$HOME/off.new" && mv "$HOME/off.new" "$HOME/off"'


def _ended(machine: Any) -> dict[str, Any]:
    found = json.loads((machine.agent_folder / "ended.json").read_text())
    assert isinstance(found, dict)
    return found


async def test_an_idle_machine_is_ended_with_nobody_connected(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1, mode="stop")):
        pass
    await until((machine.home / "off").exists, "poweroff")
    assert (machine.home / "off").read_text() == "stop|idle: nothing was done for 1 s"
    assert (_ended(machine)["guard"], _ended(machine)["mode"]) == ("idle", "stop")
    events = (machine.agent_folder / "tasks" / "agent" / "out.000000000001").read_text()
    assert '"what":"guard"' in events


async def test_a_connected_but_idle_client_does_not_keep_a_machine(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1)) as client:
        await until((machine.home / "off").exists, "poweroff")
        status = await client.status()
        assert status.ending is not None
        assert status.ending.guard == "idle"
        with pytest.raises(AgentError) as caught:
            await client.shell("true")
        assert caught.value.code == "agent.ending"


@pytest.mark.parametrize("kind", ["job", "cell"])
async def test_a_running_job_or_cell_is_not_idle(
    machine: Any, agent_on: Any, until: Any, kind: str
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1)) as client:
        if kind == "job":
            following = client.job_output((await client.run_job("sleep 2.5")).id)
        else:
            following = await client.cell("import time; time.sleep(2.5)")
        await following.wait()
        assert not (machine.home / "off").exists()
    await until((machine.home / "off").exists, "poweroff after the work")


async def test_work_too_short_to_be_seen_running_counts_all_the_same(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1)) as client:
        before = (await client.status()).age
        while (await client.status()).age < before + 2.5:
            await (await client.shell(":")).wait()
            await asyncio.sleep(0.25)
        assert not (machine.home / "off").exists()
        await until((machine.home / "off").exists, "poweroff after the work")


async def test_an_ssh_session_of_a_person_counts_unless_told_otherwise(
    machine: Any, agent_on: Any, connected: Any, until: Any
) -> None:
    guards = GuardConfig(POWEROFF, idle_seconds=1)
    async with (
        connected(machine) as person,
        person.channel("exec sleep 605"),
        agent_on(machine, guards) as client,
    ):
        await until(lambda: bool(_sleeper()), "the session began")
        await client.job_output((await client.run_job("sleep 0.2")).id).wait()
        before = (await client.status()).age
        while (status := await client.status()).age < before + 2:
            assert status.ending is None
        assert status.active == ("1 ssh",)
        await client.set_guards(GuardConfig(POWEROFF, idle_seconds=1, wait_for="jobs"))
        await until((machine.home / "off").exists, "poweroff under wait_for: jobs")


def _sleeper() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "605"]
    ]


async def test_wait_for_none_ends_a_machine_at_work(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1, wait_for="none")) as client:
        await client.run_job("sleep 606")
        await until((machine.home / "off").exists, "poweroff")


async def test_background_work_that_uses_the_cpu_is_not_idle(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=3.0)) as client:
        # CPU use is measured over a second or more: the guard leaves time for several measurements.
        # Six processes get a share that counts even while other tests use the processors.
        spin = "nohup sh -c 'while [ ! -e stop ]; do :; done' >/dev/null 2>&1 &"
        await (await client.shell("\n".join([spin] * 6))).wait()
        before = (await client.status()).age
        while (await client.status()).age < before + 5:
            assert not (machine.home / "off").exists()
        (machine.home / "stop").touch()
        await until((machine.home / "off").exists, "poweroff after the work")


async def test_lifetime_ends_whatever_runs_and_warns_before(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, max_lifetime_seconds=1.5)) as client:
        await client.run_job("sleep 607")
        seen = []
        async for event in client.events():
            seen.append(event.content["what"])
            if event.content["what"] == "poweroff":
                break
        assert [what for what in seen if what in ("warning", "guard", "poweroff")] == [
            "warning",
            "guard",
            "poweroff",
        ]
    assert (machine.home / "off").read_text().startswith("terminate|lifetime")


async def test_budget_ends_the_machine_before_the_cap_is_reached(
    machine: Any, agent_on: Any, until: Any
) -> None:
    # At $36 an hour a second costs a cent; of five cents three are kept back, so two seconds
    # remain.
    guards = GuardConfig(
        POWEROFF, hourly=usd(36), limit=usd("1.05"), spent=usd(1), reserve_seconds=3
    )
    async with agent_on(machine, guards) as client:
        await client.run_job("sleep 608")
        (state,) = (await client.status()).guards
        assert state.left is not None
        assert 0 < state.left <= 2
        await until((machine.home / "off").exists, "poweroff")
    ended = _ended(machine)
    assert ended["guard"] == "budget"
    assert usd("1.02") <= ended["spent_micros"] < usd("1.05")


async def test_the_hook_runs_first_and_its_failure_only_warns(
    machine: Any, agent_on: Any, until: Any
) -> None:
    hook = (
        'echo saving; echo "$NBPROV_GUARD" >"$HOME/hooked"; ls "$HOME/off" && touch'
        ' "$HOME/too-late"; exit 9'
    )
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1, hook=hook)):
        pass
    await until((machine.home / "off").exists, "poweroff")
    assert (machine.home / "hooked").read_text() == "idle\n"
    assert not (machine.home / "too-late").exists()
    assert _ended(machine)["hook"]["exit_code"] == 9
    assert "saving" in _ended(machine)["hook"]["output"]


async def test_a_hook_that_hangs_is_cut_off(machine: Any, agent_on: Any, until: Any) -> None:
    async with agent_on(
        machine, GuardConfig(POWEROFF, idle_seconds=1, hook="sleep 609", hook_timeout=1)
    ):
        pass
    await until((machine.home / "off").exists, "poweroff")
    assert _ended(machine)["hook"]["exit_code"] is None
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "609"]
    ]


async def test_guards_survive_the_death_of_the_agent(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, max_lifetime_seconds=4)):
        psutil.Process(json.loads((machine.agent_folder / "agent.json").read_text())["pid"]).kill()
    await until((machine.home / "off").exists, "poweroff by the agent that was started again")
    assert _ended(machine)["reason"] == "lifetime: 4 s are over"


async def test_a_guard_without_a_poweroff_is_refused(machine: Any, agent_on: Any) -> None:
    with pytest.raises(AgentError, match="powers the machine off"):
        async with agent_on(machine, GuardConfig("", idle_seconds=60)):
            raise AssertionError("a machine was left unguarded")


async def test_a_machine_started_again_tells_what_ended_it(machine: Any, agent_on: Any) -> None:
    machine.agent_folder.mkdir(mode=0o700)
    (machine.agent_folder / "ended.json").write_text(
        json.dumps({"guard": "idle", "mode": "stop", "reason": "idle: nothing was done for 60 s"})
    )
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=60)) as client:
        assert client.previous_end is not None
        assert client.previous_end["reason"] == "idle: nothing was done for 60 s"
        assert (await client.status()).ending is None
    assert not (machine.agent_folder / "ended.json").exists()


async def test_a_simulated_gpu_is_shown_but_never_busy(
    machine: Any, agent_on: Any, until: Any
) -> None:
    tool = machine.folder / "bin" / "nvidia-smi"
    tool.write_text(
        '#!/bin/sh\ncase "$1" in -L) echo "GPU 0: Simulated A100";; *) echo 99;; esac\n'
    )
    tool.chmod(0o755)
    async with agent_on(machine, GuardConfig(POWEROFF, idle_seconds=1)) as client:
        assert (await client.status()).gpus == ("GPU 0: Simulated A100",)
        await until((machine.home / "off").exists, "poweroff")
