"""Finding and ending the processes of a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from clouds_under_test import eventually

from nbprov.clouds.local.daemon import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def marker() -> Iterator[str]:
    name = f"i-{uuid4().hex[:12]}"
    yield name
    processes.end_all(name)


def spawn(marker: str, script: str, cwd: Path | None = None) -> int:
    """Run a shell script with the marker, wait until it is ready, and leave it."""
    child = subprocess.Popen(
        ["/bin/sh", "-c", script],
        env={"PATH": os.environ["PATH"], processes.MARKER: marker},
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=cwd,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.stdout.close()
    child.returncode = 0
    processes.adopt(child.pid)
    return child.pid


def test_sweep_ends_children_that_left_their_session(marker: str) -> None:
    pid = spawn(
        marker,
        (
            "setsid sleep 60 >/dev/null & nohup sleep 61 >/dev/null 2>&1 & echo ready; exec "
            ">/dev/null; wait"
        ),
    )
    root = (pid, processes.started(pid))
    eventually(
        lambda: [p.title for p in processes.of_machine(marker, [root])].count("sleep") == 2,
        "both sleeps",
    )
    assert processes.end_all(marker, [root]) == []
    assert processes.of_machine(marker, [root]) == []
    assert processes.started(pid) == ""


def test_sweep_finds_descendants_without_the_marker(marker: str) -> None:
    pid = spawn(marker, "env -i /bin/sleep 62 >/dev/null & echo ready; exec >/dev/null; wait")
    root = (pid, processes.started(pid))
    eventually(
        lambda: "sleep" in {p.title for p in processes.of_machine(marker, [root])}, "the sleep"
    )
    assert processes.end_all(marker, [root]) == []


def test_sweep_finds_an_orphan_without_the_marker_that_works_in_the_folder(
    marker: str, tmp_path: Path
) -> None:
    spawn(marker, "(setsid env -i /bin/sleep 63 >/dev/null 2>&1 &); echo ready", tmp_path)

    def left() -> list[str]:
        processes.reap()
        return [p.title for p in processes.of_machine(marker, folder=tmp_path)]

    # Before it is an orphan, it is our child with the marker, or on its way through setsid and env.
    eventually(
        lambda: left() == ["sleep"] and not processes.of_machine(marker),
        "the sleep alone, without the marker",
    )
    assert processes.end_all(marker, folder=tmp_path) == []


def test_sweep_leaves_others_alone(marker: str) -> None:
    other = f"i-{uuid4().hex[:12]}"
    pid = spawn(other, "echo ready; exec sleep 64 >/dev/null")
    try:
        assert processes.end_all(marker) == []
        assert processes.end_all(other[:-1]) == []
        assert processes.started(pid)
    finally:
        processes.end_all(other)


def test_a_later_process_with_the_same_id_is_not_killed() -> None:
    own = os.getpid()
    processes.kill_pid(own, "1")
    processes.kill_pid(own, "")
    assert processes.started(own)


def test_nothing_is_swept_because_init_is_an_ssh_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(*_: object) -> dict[int, processes.ProcessIdentity]:
        sshd = processes.ProcessIdentity(1, 0, 1, 1, "1", False, "sshd", False)
        orphan = processes.ProcessIdentity(50, 1, 50, 50, "2", False, "sleep", True)
        stranger = processes.ProcessIdentity(60, 1, 60, 60, "3", False, "notebook", False)
        return {p.pid: p for p in (sshd, orphan, stranger)}

    monkeypatch.setattr(processes, "_table_linux", table)
    assert [p.pid for p in processes.of_machine("i-1")] == [50]


def test_ps_shows_the_same_where_there_is_no_proc(marker: str) -> None:
    pid = spawn(marker, "echo ready; exec sleep 65 >/dev/null")
    table = processes._table_ps(f"{processes.MARKER}={marker}")
    assert [p.pid for p in table.values() if p.marked] == [pid]
    assert table[pid].start == processes._started_ps(pid)
