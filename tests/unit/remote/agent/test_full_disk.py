"""A real agent on a disk that takes nothing: its guards end the machine all the same."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbprov.machines.cells.output import OutputBudget, OutputCollation, RemoteCellError
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.ssh.keys import ClusterKeys

pytestmark = pytest.mark.machine

# Needs no room: the name alone is written, into a folder on another disk.
POWEROFF = 'mkdir "$TMPDIR/off"'
DISK_BYTES = 4 * 1024 * 1024
MachineMaker = Callable[[Path, ClusterKeys], Any]


class Disk:
    """The disk of a machine, 4 MB large."""

    def __init__(self, machine: Any) -> None:
        self.machine, self.filler = machine, machine.home / "filler"

    @property
    def off(self) -> Path:
        return Path(self.machine.temporary / "off")

    def fill(self) -> None:
        with contextlib.suppress(OSError), self.filler.open("ab", buffering=0) as file:
            for size in (64 * 1024, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        assert os.statvfs(self.machine.home).f_bavail == 0

    def fill_inodes(self) -> None:
        folder = self.machine.home / "names"
        folder.mkdir()
        with contextlib.suppress(OSError):
            for number in range(100_000):
                (folder / str(number)).touch()
        assert os.statvfs(self.machine.home).f_favail == 0

    def free(self) -> None:
        self.filler.unlink()

    def is_read_only(self) -> bool:
        """Make it so that nobody may write there; it is refused while a file is being written."""
        command = ["mount", "-o", "remount,ro", str(self.machine.home)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    @property
    def agent_pid(self) -> int:
        return int(json.loads((self.machine.agent_folder / "agent.json").read_text())["pid"])


@pytest.fixture
def disk(machine_type: MachineMaker, keys: ClusterKeys) -> Iterator[Disk]:
    """A machine whose home is a small disk of its own; this test needs the right to mount it."""
    folder = Path(tempfile.mkdtemp(prefix="nbd-", dir="/tmp"))
    machine = machine_type(folder, keys)
    size = f"size={DISK_BYTES},nr_inodes=400,mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", size, "nbprov-test", str(machine.home)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        shutil.rmtree(folder)
        pytest.skip("only root may mount a small disk, where that is allowed at all")
    try:
        machine.start()
        yield Disk(machine)
    finally:
        machine.end()
        subprocess.run(["umount", "-l", str(machine.home)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def limited(machine_type: MachineMaker, tmp_path: Path, keys: ClusterKeys) -> Iterator[Any]:
    """A machine whose agent can write to no file, which anybody may arrange."""
    machine = machine_type(tmp_path / "machine", keys)
    python = machine.folder / "bin" / "python3"
    python.write_text(python.read_text().replace("exec", "ulimit -f 0\nexec"))
    try:
        machine.start()
        yield machine
    finally:
        machine.end()


async def test_an_agent_that_can_write_to_no_file_ends_its_idle_machine(
    limited: Any, agent_on: Any, until: Any
) -> None:
    async with agent_on(limited, GuardConfig(POWEROFF, idle_seconds=1)):
        pass
    await until((limited.temporary / "off").exists, "poweroff")


@pytest.mark.parametrize("guard", ["idle_seconds", "max_lifetime_seconds"])
async def test_a_full_disk_keeps_no_guard_from_ending_the_machine(
    disk: Disk, agent_on: Any, until: Any, guard: str
) -> None:
    async with agent_on(disk.machine, GuardConfig(POWEROFF, **{guard: 3})) as client:
        disk.fill()
        await client.status()
    await until(disk.off.exists, "poweroff")


async def test_nor_does_one_without_inodes(disk: Disk, agent_on: Any, until: Any) -> None:
    async with agent_on(disk.machine, GuardConfig(POWEROFF, idle_seconds=3)) as client:
        disk.fill_inodes()
        await client.status()
    await until(disk.off.exists, "poweroff")


async def test_a_full_disk_that_is_freed_is_gone_on_with(
    disk: Disk, agent_on: Any, until: Any
) -> None:
    async with agent_on(disk.machine, GuardConfig(POWEROFF, idle_seconds=60)) as client:
        disk.fill()
        await client.set_guards(GuardConfig(POWEROFF, idle_seconds=2))
        job = await client.run_job("sleep 600")
        disk.free()
        state = disk.machine.agent_folder / "tasks" / job.id / "meta.json"
        await until(state.exists, "the state of the job, written later")
        assert not disk.off.exists()
        await client.cancel_job(job.id)
    await until(disk.off.exists, "poweroff")


async def test_an_agent_killed_on_a_full_disk_comes_back_with_its_clocks(
    disk: Disk, agent_on: Any, until: Any
) -> None:
    async with agent_on(disk.machine, GuardConfig(POWEROFF, max_lifetime_seconds=4)):
        disk.fill()
        psutil.Process(disk.agent_pid).kill()
    await until(disk.off.exists, "poweroff")


async def test_an_agent_started_on_a_disk_that_can_only_be_read_goes_on_with_its_clocks(
    disk: Disk, agent_on: Any, connected: Any, until: Any
) -> None:
    async with agent_on(disk.machine, GuardConfig(POWEROFF, max_lifetime_seconds=4)):
        pass
    for pid in disk.machine.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    await until(lambda: not disk.machine.processes(), "the end of all processes there")
    await until(disk.is_read_only, "nobody writes there any more")
    async with connected(disk.machine) as connection:
        await connection.run('sh "$HOME/.nbprov/start" </dev/null >/dev/null 2>&1 &')
    await until(disk.off.exists, "poweroff")


async def _text(following: Any) -> str:
    collation = OutputCollation(OutputBudget(lambda *_: None, ""), "")
    async for output in following:
        collation.take(output)
    return collation.result().text


@pytest.mark.parametrize("left", [0, 200_000])
async def test_no_line_is_missing_of_what_runs_on_a_full_disk_and_it_is_said_and_written_later(
    disk: Disk, agent_on: Any, until: Any, left: int
) -> None:
    async with agent_on(disk.machine) as client:
        assert await _text(await client.cell("x = 1")) == ""
        disk.fill()
        if left:
            os.truncate(disk.filler, disk.filler.stat().st_size - left)
        # Each line is one write: IPython says in between that it cannot save its history.
        line = "sys.stdout.write(f'{number} ' + 'x' * 200 + chr(10))"
        wide = f"import sys\nfor number in range(3001): _ = {line}"
        first = await client.cell(wide)
        pieces = [piece async for piece in first]
        streams = [piece for piece in pieces if piece.kind == "stream"]
        shown = "".join(one.text for one in streams if one.content["name"] == "stdout")
        numbers = re.findall(r"(\d+) x{200}\n", shown)
        assert numbers == [str(n) for n in range(3001)]
        assert first.end is not None
        assert first.end.content["status"] == "ok"
        notes = [piece.text for piece in pieces if piece.kind == "note"]
        assert len(notes) == 1
        assert "the disk of the machine is full; output from number" in notes[0]
        said = await _text(await client.shell("df -h . >/dev/null && rm filler && echo freed"))
        assert "freed" in said
        path = disk.machine.agent_folder / "tasks" / first.id
        await until(
            lambda: any("3000 xxx" in file.read_text() for file in path.glob("out.*")),
            "the output, written later",
        )
        again = "".join([piece.text async for piece in client.job_output(first.id)])
        assert "3000 xxx" in again


async def test_a_kernel_that_cannot_start_there_says_why_and_what_to_do(
    disk: Disk, agent_on: Any
) -> None:
    stand_in = disk.machine.folder / "bin" / "python3"
    stand_in.write_text(
        stand_in.read_text().replace("exec", 'case "$*" in *kernel-host*) exit 1;; esac\nexec', 1)
    )
    async with agent_on(disk.machine) as client:
        disk.fill()
        with pytest.raises(RemoteCellError) as caught:
            await _text(await client.cell("x = 1"))
        assert caught.value.code == "remote.disk-full"
        assert "the disk of the machine is full" in str(caught.value)
        assert "df -h" in caught.value.hint


async def test_a_program_that_fails_there_is_told_why(disk: Disk, agent_on: Any) -> None:
    async with agent_on(disk.machine) as client:
        disk.fill()
        job = await client.run_job("head -c 100000 /dev/zero >more", id="writes")
        notes = [one.text async for one in client.job_output(job.id) if one.kind == "note"]
        assert "df -h" in "".join(notes)


async def test_variables_that_do_not_fit_there_are_refused_with_the_reason(
    disk: Disk, agent_on: Any
) -> None:
    async with agent_on(disk.machine) as client:
        disk.fill()
        with pytest.raises(AgentError) as caught:
            await client.boxes.put("0" * 32, 0, b"x" * 100_000)
        assert caught.value.code == "agent.no-room"
        assert "df -h" in caught.value.hint
