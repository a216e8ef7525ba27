"""Slow stops of `local` machines, and ends that meet them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clouds_under_test import eventually

from nbprov.clouds.contract.subject import DEADLINE
from nbprov.clouds.local.daemon import machine_lifecycle, platform_calls, processes
from nbprov.clouds.local.daemon.machine import LocalMachine
from nbprov.clouds.local.daemon.machine_lifecycle import MachineLifecycle
from nbprov.clouds.local.daemon.market_file import MarketFile
from nbprov.clouds.local.daemon.state_store import Record, StateStore
from nbprov.model.launches import InstanceState

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
INSTANCE = "i-00000000aa01"


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """A machine that runs one real process, with a file on its disk."""
    home = tmp_path / "i" / INSTANCE / "home"
    home.mkdir(parents=True)
    (home / "kept").touch()
    child = subprocess.Popen(
        ["sleep", "61"],
        env={"PATH": os.environ["PATH"], processes.MARKER: INSTANCE},
        start_new_session=True,
    )
    child.returncode = 0
    processes.adopt(child.pid)
    eventually(lambda: processes.of_machine(INSTANCE), "the process")
    handle = {
        "level": "marker",
        "pid": child.pid,
        "start": processes.started(child.pid),
        "cgroup": "",
    }
    times = {"launched_at": 0.0, "changed_at": 0.0, "preempt_at": None, "end_at": None}
    return {
        "id": INSTANCE,
        "state": "running",
        "handle": handle,
        "host": "h",
        "port": 1,
        "reason": "",
        **times,
    }


async def ticking(machines: MachineLifecycle, look: Callable[[], bool]) -> None:
    """Check the machines as the daemon does, until `look` is true."""
    async with asyncio.timeout(DEADLINE):
        while not look():
            machines.tick()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("wish", ["stop", "terminate"])
def test_processes_that_will_not_go_are_tried_again_and_the_wish_stays(
    wish: str, record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill, spared = platform_calls.kill, list[int]()
    monkeypatch.setattr(platform_calls, "kill", spared.append)
    monkeypatch.setattr(processes, "SWEEP_SECONDS", 1.0)
    monkeypatch.setattr(machine_lifecycle, "SLOW_LOOK", 0.05)
    on_its_way, final = {
        "stop": (InstanceState.STOPPING, InstanceState.STOPPED),
        "terminate": (InstanceState.ENDING, InstanceState.GONE),
    }[wish]

    async def story() -> None:
        store = StateStore(tmp_path / "state.db")
        store.put(("machine", record))
        machines = MachineLifecycle(tmp_path, store, MarketFile(tmp_path))
        (machines.stop if wish == "stop" else machines.terminate)(record, "wanted")
        await ticking(machines, lambda: "retry_at" in record)
        assert record["state"] == on_its_way
        assert spared
        monkeypatch.setattr(platform_calls, "kill", kill)
        await ticking(machines, lambda: record["state"] != on_its_way)
        assert (record["state"], record["reason"], record["handle"]) == (final, "wanted", None)
        store.close()

    try:
        asyncio.run(story())
        assert (tmp_path / "i" / INSTANCE / "home" / "kept").exists() == (wish == "stop")
        assert processes.of_machine(INSTANCE) == []
    finally:
        monkeypatch.setattr(platform_calls, "kill", kill)
        processes.end_all(INSTANCE)


def test_an_end_that_meets_a_stop_is_not_lost(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_stopping, may_go_on, end = threading.Event(), threading.Event(), LocalMachine.end

    def held(
        machine: LocalMachine, handle: Any, *, keep_disk: bool
    ) -> list[processes.ProcessIdentity]:
        is_stopping.set()
        assert may_go_on.wait(DEADLINE)
        return end(machine, handle, keep_disk=keep_disk)

    monkeypatch.setattr(LocalMachine, "end", held)

    async def story() -> None:
        store = StateStore(tmp_path / "state.db")
        store.put(("machine", record))
        machines = MachineLifecycle(tmp_path, store, MarketFile(tmp_path))
        machines.stop(record, "powered itself off")
        await ticking(machines, is_stopping.is_set)
        machines.terminate(record, "terminated")
        may_go_on.set()
        await machines.settle()
        assert (record["state"], record["reason"]) == (InstanceState.GONE, "terminated")
        store.close()

    asyncio.run(story())
    assert not (tmp_path / "i" / INSTANCE).exists()
    assert processes.of_machine(INSTANCE) == []
