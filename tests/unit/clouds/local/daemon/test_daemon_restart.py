"""Restarted machines of the `local` cloud run their start script again, as boot guard and agent
need.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from pathlib import Path

import pytest
from clouds_under_test import LocalUnderTest, eventually

from nbprov.clouds.contract.checks import answers
from nbprov.clouds.local.daemon import processes
from nbprov.model.launches import Instance, InstanceState, Launch
from nbprov.model.money import usd
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig, GuardConfig
from nbprov.remote.agent.messages import GuardState
from nbprov.remote.boot.user_data import boot_template, template_values
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.remote.ssh.readiness import wait_for_ssh

pytestmark = pytest.mark.machine
STOPPED_SECONDS = 7200.0


@pytest.fixture
def cluster_keys(tmp_path: Path) -> ClusterKeys:
    return ClusterKeys.create(tmp_path / "cluster")


def launched(local: LocalUnderTest, keys: ClusterKeys) -> tuple[Launch, Instance]:
    """Launch a machine with the usual start script, and wait for its sshd."""
    template = boot_template(local.cloud.capabilities.poweroff)
    launch = local.launch(
        user_data_template=template,
        template_values=template_values(keys),
        public_key=keys.client_public,
    )
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    return launch, machine


def again(local: LocalUnderTest, launch: Launch, machine: Instance) -> Instance:
    """Stop and start a machine, and wait for its sshd."""
    local.cloud.stop([machine.id])
    local.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    local.cloud.start([machine.id])
    shown = local.in_state(launch.owner, machine.id, InstanceState.RUNNING)
    eventually(lambda: answers(shown), "an ssh server")
    return shown


def words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def boot_guards(machine: Instance) -> list[int]:
    """Return the processes of this machine's boot guard."""
    return [p.pid for p in processes.of_machine(machine.id) if "nbprov-boot-guard" in words(p.pid)]


def agents(machine: Instance) -> list[int]:
    """Return the processes of this machine's agent, and of who waits for its end."""
    found = [p.pid for p in processes.of_machine(machine.id)]
    return [pid for pid in found if any("nbprov-agent" in word for word in words(pid))]


async def budget(
    local: LocalUnderTest, machine: Instance, keys: ClusterKeys
) -> tuple[GuardState, float]:
    """Start the agent with a budget; return its state and the machine's age in seconds."""
    connection = await wait_for_ssh(machine.host, machine.port, keys, 10, local.login())
    guards = GuardConfig(local.cloud.capabilities.poweroff, hourly=usd(1), limit=usd(100))
    client = await AgentClient.start(connection, AgentConfig(guards=guards))
    try:
        status = await client.status()
        (state,) = status.guards
        return state, status.age
    finally:
        await client.close()


def test_time_in_which_a_machine_was_stopped_is_no_part_of_its_budget(
    local: LocalUnderTest, cluster_keys: ClusterKeys
) -> None:
    launch, machine = launched(local, cluster_keys)
    before, _ = asyncio.run(budget(local, machine, cluster_keys))
    local.cloud.stop([machine.id])
    local.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    saved = local.folder / "i" / machine.id / "home" / ".nbprov" / "guards.json"
    clocks = json.loads(saved.read_text())
    # As if the machine had been stopped that much earlier.
    saved.write_text(
        json.dumps(
            clocks
            | {name: clocks[name] - STOPPED_SECONDS for name in ("now", "wall", "idle_since")}
        )
    )
    started = again(local, launch, machine)
    after, age = asyncio.run(budget(local, started, cluster_keys))
    assert before.left is not None
    assert after.left is not None
    assert 0 <= before.left - after.left < STOPPED_SECONDS / 10
    assert age >= STOPPED_SECONDS


def test_the_boot_guard_is_there_after_each_start_and_brings_a_killed_agent_back(
    local: LocalUnderTest, cluster_keys: ClusterKeys
) -> None:
    launch, machine = launched(local, cluster_keys)
    nbprov = local.folder / "i" / machine.id / "home" / ".nbprov"
    first = (nbprov / "boot.id").read_text()
    eventually(lambda: boot_guards(machine), "a boot guard")
    started = again(local, launch, machine)
    assert (nbprov / "boot.id").read_text() not in ("", first)
    eventually(lambda: boot_guards(started), "a boot guard after the start")
    before, _ = asyncio.run(budget(local, started, cluster_keys))
    for pid in agents(started):
        os.kill(pid, signal.SIGKILL)
    (nbprov / "agent.json").unlink(missing_ok=True)
    eventually((nbprov / "agent.json").exists, "an agent without a kernel")
    after, _ = asyncio.run(budget(local, started, cluster_keys))
    assert before.left is not None
    assert after.left is not None
    assert after.left < before.left


def test_the_start_script_is_its_owners_alone_and_shows_in_no_listing(
    local: LocalUnderTest, cluster_keys: ClusterKeys
) -> None:
    launch, machine = launched(local, cluster_keys)
    script = local.folder / "i" / machine.id / "boot" / "user-data"
    secret = cluster_keys.host_private.splitlines()[1]
    assert secret in script.read_text()
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert secret not in repr(local.cloud.list(launch.owner)) + local.cloud.console(machine.id)
    assert not [name for name, text in local.written().items() if secret.encode() in text]
    local.cloud.terminate([machine.id])
    local.gone(launch.owner, [machine.id])
    assert not script.exists()


def test_a_start_script_in_another_language_runs_at_each_start(local: LocalUnderTest) -> None:
    template = (
        "#!/usr/bin/env python3\nimport os\nopen(os.path.expanduser('~/starts'), 'a').write('x')\n"
    )
    launch = local.launch(user_data_template=template, template_values={})
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    again(local, launch, machine)
    assert (local.folder / "i" / machine.id / "home" / "starts").read_text() == "xx"
