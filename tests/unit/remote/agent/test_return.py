"""An agent that is killed comes back by itself, with its guards, and says what is lost."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbprov.remote.agent.config import GuardConfig

pytestmark = pytest.mark.machine

POWEROFF = 'touch "$HOME/off"'
GUARDS = GuardConfig(POWEROFF, idle_seconds=3600, max_lifetime_seconds=7200)


def _pid(machine: Any) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(json.loads((machine.agent_folder / "agent.json").read_text())["pid"])
    return 0


def _is_standby_there(machine: Any) -> bool:
    path: Path = machine.agent_folder / "standby.lock"
    if not path.exists():
        return False
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _is_back(machine: Any, before: int) -> bool:
    return _pid(machine) not in (0, before) and psutil.pid_exists(_pid(machine))


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _agents(machine: Any) -> list[int]:
    """The supervisor and its agent."""
    pid = _pid(machine)
    return [psutil.Process(pid).ppid(), pid]


async def test_supervisor_and_agent_killed_at_once_come_back_with_their_guards(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GUARDS) as client:
        job = await client.run_job("exec sleep 605", id="train")
        assert job.state == "running" or job.state == "queued"
    await until(lambda: _is_standby_there(machine), "a standby")
    before = _pid(machine)
    _send(_agents(machine), signal.SIGKILL)
    await until(lambda: _is_back(machine, before), "an agent")
    async with agent_on(machine) as client:
        status = await client.status()
        assert {state.guard for state in status.guards} == {"idle", "lifetime"}
        assert status.age > 0
        assert client.lost_jobs == ("train",)
        notes = [output.text async for output in client.job_output("train")]
        assert "the agent on the machine was restarted; this was lost with it" in str(notes)


async def test_a_supervisor_killed_alone_leaves_nothing_that_cannot_return(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GUARDS):
        supervisor, agent = _agents(machine)
        _send([supervisor], signal.SIGKILL)
        await until(lambda: _is_standby_there(machine), "a standby")
        assert psutil.pid_exists(agent)
    _send([agent], signal.SIGKILL)
    await until(lambda: _is_back(machine, agent), "an agent")


async def test_every_python_killed_there_leaves_a_loop_that_brings_the_agent_back(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GUARDS):
        pass
    await until(lambda: _is_standby_there(machine), "a standby")
    before = _pid(machine)
    names = {pid: psutil.Process(pid).name() for pid in machine.processes()}
    _send([pid for pid, name in names.items() if name.startswith("python")], signal.SIGKILL)
    await until(lambda: _is_back(machine, before), "an agent")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_to_every_process_there_ends_neither_agent_nor_job(
    machine: Any, agent_on: Any, until: Any, number: int
) -> None:
    async with agent_on(machine, GUARDS) as client:
        await client.run_job("trap '' TERM INT HUP; touch begun; while :; do sleep 1; done", id="a")
        await until((machine.home / "begun").exists, "the job")
        agents = _agents(machine)
        _send(agents, number)
        assert (await client.task("a")).state == "running"
        assert (await client.shell("echo here")) is not None
        assert _agents(machine) == agents


async def test_a_machine_that_shuts_down_ends_the_agent_in_order(
    machine: Any, agent_on: Any, until: Any
) -> None:
    stand_in = machine.folder / "bin" / "systemctl"
    stand_in.write_text("#!/bin/sh\necho stopping\nexit 1\n")
    stand_in.chmod(0o755)
    async with agent_on(machine, GUARDS) as client:
        await client.run_job("touch begun; exec sleep 606", id="train")
        await until((machine.home / "begun").exists, "the job")
        supervisor, agent = _agents(machine)
        _send([supervisor, agent], signal.SIGTERM)
        await until(lambda: not psutil.pid_exists(supervisor), "the end of the supervisor")
    meta = json.loads((machine.agent_folder / "tasks" / "train" / "meta.json").read_text())
    assert meta["status"] == "lost"


def _damage_guards(machine: Any) -> None:
    for name in ("guards.json", "guards.copy.json"):
        (machine.agent_folder / name).write_text('{"age": 12, "config"')


def _let_an_hour_pass(machine: Any) -> None:
    """The clocks of an agent that does not run, as they are after an hour more of running."""
    for name in ("guards.json", "guards.copy.json"):
        path = machine.agent_folder / name
        saved = json.loads(path.read_text())
        path.write_text(json.dumps({**saved, "running": saved["running"] + 3600.0}))


async def test_a_machine_that_lost_its_guards_ends_itself_after_an_hour_with_nobody_there(
    machine: Any, agent_on: Any, until: Any
) -> None:
    off = 'printf "%s|%s" {mode} {reason} >"$HOME/off.new"; mv "$HOME/off.new" "$HOME/off"'
    async with agent_on(machine, GuardConfig(off, max_lifetime_seconds=7200)):
        pass
    machine.end_processes()
    _damage_guards(machine)
    machine.start()
    async with agent_on(machine) as client:
        (state,) = (await client.status()).guards
        assert (state.guard, state.mode) == ("unset", "terminate")
        assert state.left is not None
        assert 3600 - 60 < state.left <= 3600
        assert client.lacks_guards
    machine.end_processes()
    _let_an_hour_pass(machine)
    machine.start()
    async with agent_on(machine):
        await until((machine.home / "off").exists, "poweroff")
    assert (machine.home / "off").read_text() == (
        "terminate|unset: no kernel set its guards for 3600 s"
    )
    assert json.loads((machine.agent_folder / "ended.json").read_text())["guard"] == "unset"


async def test_a_client_learns_from_the_greeting_that_its_agent_lost_its_guards(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GUARDS) as client:
        assert not client.lacks_guards
        assert client.found_unset, "a new agent"
        supervisor, agent = _agents(machine)
        _send([agent], signal.SIGSTOP)  # it would write its state anew
        _damage_guards(machine)
        _send([agent], signal.SIGKILL)
        await until(lambda: client.lacks_guards, "the greeting of the next agent", 20)
        await client.set_guards(GUARDS)
        assert client.found_unset
        assert not client.lacks_guards
        assert {s.guard for s in (await client.status()).guards} == {"idle", "lifetime"}
        await client.set_guards(GUARDS)
        assert not client.found_unset
        assert _agents(machine)[0] == supervisor


async def test_a_client_that_asks_for_nothing_starts_an_agent_where_none_is_left(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GUARDS):
        before = _pid(machine)
        ours = [
            pid for pid in machine.processes() if "connect" not in psutil.Process(pid).cmdline()
        ]
        sessions = {pid for pid in ours if "sshd" in psutil.Process(pid).name()}
        _send([pid for pid in ours if pid not in sessions], signal.SIGKILL)
        await until(lambda: _is_back(machine, before), "an agent", 20)


async def test_a_missing_start_file_is_written_anew(
    machine: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(machine, GuardConfig(POWEROFF, max_lifetime_seconds=60)):
        start = machine.agent_folder / "start"
        text = start.read_text()
        start.unlink()
        await until(lambda: start.exists() and start.read_text() == text, "the file")
