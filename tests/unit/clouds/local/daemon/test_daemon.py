"""The daemon of the `local` cloud.

One for each directory, outlived by its machines, ended when idle.
"""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from clouds_under_test import LocalUnderTest, eventually, processes_that_name

from nbprov.clouds.contract.checks import OUTLIVER, answers
from nbprov.clouds.local import client, rpc
from nbprov.model.launches import Accepted, InstanceState

pytestmark = pytest.mark.machine


def daemon_pid(local: LocalUnderTest) -> int:
    endpoint = rpc.read_endpoint(local.folder)
    assert endpoint is not None
    return endpoint.pid


def kill_daemon(local: LocalUnderTest) -> None:
    pid = daemon_pid(local)
    os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: not os.path.exists(f"/proc/{pid}/cwd") or _is_zombie(pid), "the end of the daemon"
    )


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


def test_many_that_call_at_once_get_one_daemon(local: LocalUnderTest) -> None:
    with ThreadPoolExecutor(5) as pool:
        told = list(
            pool.map(
                lambda _: client.DaemonClient(local.folder).call("describe", timeout=60), range(5)
            )
        )
    assert len({t["pid"] for t in told}) == 1


def test_machines_outlive_a_killed_daemon_and_the_next_one_takes_them_over(
    local: LocalUnderTest,
) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    assert local.run(machine, f"{OUTLIVER}").returncode == 0
    first = daemon_pid(local)
    kill_daemon(local)
    assert answers(machine)
    (again,) = local.cloud.list(launch.owner)
    assert daemon_pid(local) != first
    assert again == machine
    assert local.accepted(local.cloud.submit(launch)) == (machine.id,)
    local.cloud.terminate([machine.id])
    local.gone(launch.owner, [machine.id])
    assert local.traces([machine.id]) == []


def test_a_create_that_was_noted_is_carried_out_by_the_next_daemon(local: LocalUnderTest) -> None:
    local.write(accept=0.5)
    launch = local.launch(count=2)
    operation = local.cloud.submit(launch)
    kill_daemon(local)
    ids = local.accepted(operation)
    for machine in ids:
        shown = local.in_state(launch.owner, machine, InstanceState.RUNNING)
        eventually(lambda shown=shown: answers(shown), "an ssh server")
        assert local.run(shown, "true").returncode == 0
    assert len(local.alive(launch.owner)) == 2


def test_an_end_that_was_begun_is_finished_by_the_next_daemon(local: LocalUnderTest) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    local.end_slowly(0.3)
    local.cloud.terminate([machine.id])
    kill_daemon(local)
    local.gone(launch.owner, [machine.id])
    assert local.traces([machine.id]) == []


def test_a_machine_that_powers_off_while_no_daemon_runs_is_ended_by_the_next(
    local: LocalUnderTest,
) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    kill_daemon(local)
    assert local.run(machine, "nbprov-poweroff terminate alone").returncode == 0
    local.gone(launch.owner, [machine.id])


def test_a_machine_whose_processes_end_follows_its_shutdown_rule(local: LocalUnderTest) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    from nbprov.clouds.local.daemon import processes

    processes.end_all(machine.id)
    shown = local.in_state(launch.owner, machine.id, InstanceState.GONE)
    assert "by themselves" in shown.reason


def test_machines_of_another_daemon_are_not_touched(local: LocalUnderTest) -> None:
    other = LocalUnderTest()
    try:
        (mine,), (theirs,) = local.running(local.launch()), other.running(other.launch())
        local.cloud.terminate([mine.id, theirs.id])
        local.gone("owner-1", [mine.id])
        assert answers(theirs)
    finally:
        other.close()


def test_an_idle_daemon_ends_and_its_stopped_machines_stay(local: LocalUnderTest) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    local.cloud.stop([machine.id])
    local.in_state(launch.owner, machine.id, InstanceState.STOPPED)
    local.values["extra"] = ""
    text = (
        (local.folder / "market.toml").read_text().replace("[timing]", "[timing]\nidle_exit = 0.1")
    )
    (local.folder / "market.toml").write_text(text)
    eventually(lambda: not processes_that_name(local.folder), "the end of the daemon")
    assert [i.state for i in local.cloud.list(launch.owner)] == [InstanceState.STOPPED]
    local.cloud.start([machine.id])
    local.in_state(launch.owner, machine.id, InstanceState.RUNNING)


def test_a_daemon_whose_directory_is_removed_ends_its_machines(local: LocalUnderTest) -> None:
    (machine,) = local.running(local.launch())
    shutil.rmtree(local.folder)
    eventually(lambda: not processes_that_name(local.folder), "the end of the daemon")
    assert not answers(machine)
    local.folder.mkdir()


def test_calls_are_quick(local: LocalUnderTest) -> None:
    import time

    launch = local.launch()
    operation = local.cloud.submit(launch)
    assert isinstance(local.decided(operation), Accepted)
    best = {}
    for name, call in {
        "poll": lambda: local.cloud.poll(operation),
        "list": lambda: local.cloud.list(launch.owner),
    }.items():
        times = []
        for _ in range(20):
            before = time.perf_counter()
            call()
            times.append(time.perf_counter() - before)
        best[name] = min(times)
    assert max(best.values()) < 0.005, best
