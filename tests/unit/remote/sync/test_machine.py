"""Folders both ways with a real sshd.

Ignored, resumed, repaired, deleted, interrupted, and many small ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nbprov.on_machine.sync_files import SyncFolder
from nbprov.on_machine.sync_protocol import PART
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.sync.errors import SyncError
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction
from nbprov.remote.sync.sync import SyncResult, sync

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]


def write(folder: Path, **files: str) -> None:
    """Files by name; `__` stands for `/`."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(folder: Path) -> dict[str, str]:
    """The files below a folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_text()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


def wanted(tmp_path: Path, direction: Direction = Direction.PUSH, **more: Any) -> SyncOptions:
    return SyncOptions(
        tmp_path / "here", "~/there", direction, memory=tmp_path / "memory" / "one.json", **more
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    made = tmp_path / "here"
    made.mkdir()
    return made


@pytest.fixture
def there(machine: Any) -> Path:
    return Path(machine.home) / "there"


async def test_files_go_there_whole_and_a_second_time_nothing_does(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(
        here,
        a="one",
        sub__b="two",
        sub__deep__c="",
        ignored__x="no",
        **{"w\u00f6rd 'q' $HOME": "three"},
    )
    write(here, **{".nbprovignore": "ignored/\n"})
    (here / "empty").mkdir()
    (here / "run.sh").write_text("true")
    (here / "run.sh").chmod(0o755)
    (here / "link").symlink_to("sub/b")
    (here / "out").symlink_to("/etc/passwd")
    os.mkfifo(here / "pipe")
    plans: list[Any] = []
    async with connected(machine) as connection:
        done = await sync(
            connection, wanted(tmp_path), on_plan=lambda plan: plans.append((plan, there.exists()))
        )
        assert plans[0][1] is False, "told before anything moved"
        assert dict(done.plan.skipped) == {
            "out": "a link that leads out of the folder",
            "pipe": "neither a file nor a folder",
        }
        assert (done.plan.ignored, done.plan.ignored_count) == (("ignored/",), 1)
        again = await sync(connection, wanted(tmp_path))
    expected = {name: text for name, text in tree(here).items() if not name.startswith("ignored/")}
    assert tree(there) == expected
    assert (there / "link").readlink() == Path("sub/b")
    assert (there / "empty").is_dir()
    assert (there / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (there / "a").stat().st_mtime_ns == (here / "a").stat().st_mtime_ns
    assert again.plan.is_empty
    assert (again.files, again.bytes) == (0, 0)
    assert not (there / "out").is_symlink()


async def test_files_come_back_and_a_dry_run_moves_nothing(
    machine: Any, connected: Any, tmp_path: Path, there: Path
) -> None:
    write(there, a="one", sub__b="two")
    async with connected(machine) as connection:
        dry = await sync(connection, wanted(tmp_path, Direction.PULL, dry=True))
        assert [entry.name for entry in dry.plan.files] == ["a", "sub/b"]
        assert not (tmp_path / "here").exists()
        await sync(connection, wanted(tmp_path, Direction.PULL))
    assert tree(tmp_path / "here") == {"a": "one", "sub/b": "two"}


async def test_a_full_disk_under_the_home_fails_no_sync_and_deletes_nothing_later(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="one")
    memory = tmp_path / "memory"
    memory.write_text("no folder can be made here", encoding="utf-8")
    both = wanted(tmp_path, Direction.BOTH)
    async with connected(machine) as connection:
        assert (await sync(connection, both)).files == 1
        write(there, b="two")
        assert (await sync(connection, both)).files == 1
        memory.unlink()
        assert (await sync(connection, both)).files == 0
    assert tree(here) == tree(there) == {"a": "one", "b": "two"}


async def test_both_ways_each_side_gets_the_others_changes_and_conflicts_stay(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, mine="1", both="1", edited_here="1", edited_there="1")
    both = wanted(tmp_path, Direction.BOTH)
    async with connected(machine) as connection:
        await sync(connection, both)
        write(there, theirs="2", both="from there", edited_there="2 there")
        write(here, both="from here", edited_here="2 here")
        done = await sync(connection, both)
    assert done.plan.conflicts == ("both",)
    assert tree(here) == {
        "mine": "1",
        "both": "from here",
        "edited_here": "2 here",
        "edited_there": "2 there",
        "theirs": "2",
    }
    assert tree(there) == {**tree(here), "both": "from there"}


async def test_what_was_changed_behind_equal_size_and_time_is_repaired(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="good", b="same")
    async with connected(machine) as connection:
        await sync(connection, wanted(tmp_path))
        times = (there / "a").stat()
        (there / "a").write_text("evil")
        os.utime(there / "a", ns=(times.st_atime_ns, times.st_mtime_ns))
        done = await sync(connection, wanted(tmp_path))
    assert done.plan.replaced == ("a",)
    assert tree(there) == {"a": "good", "b": "same"}


async def test_nothing_is_deleted_unless_asked_for_and_never_what_is_ignored(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="1", **{".nbprovignore": "*.log\n"})
    write(
        there, old="x", gone__deep__y="y", half__keep="k", **{"half/run.log": "log", "b.log": "log"}
    )
    (machine.home / "outside").write_text("safe")
    (there / "way-out").symlink_to("../outside")
    async with connected(machine) as connection:
        await sync(connection, wanted(tmp_path))
        assert (there / "old").exists()
        dry = await sync(connection, wanted(tmp_path, delete=True, dry=True))
        assert dry.plan.delete_there == (
            "gone",
            "gone/deep",
            "gone/deep/y",
            "half",
            "half/keep",
            "old",
        )
        assert (there / "old").exists()
        done = await sync(connection, wanted(tmp_path, delete=True))
    assert done.deleted >= 5
    assert tree(there) == {
        "a": "1",
        ".nbprovignore": "*.log\n",
        "half/run.log": "log",
        "b.log": "log",
    }
    assert (machine.home / "outside").read_text() == "safe"


async def test_an_empty_source_deletes_nothing(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, precious="1")
    os.mkdir(there)
    async with connected(machine) as connection:
        done = await sync(connection, wanted(tmp_path, Direction.PULL, delete=True))
    assert done.plan.notes == ("nothing is deleted: the folder on the machine is empty",)
    assert tree(here) == {"precious": "1"}


async def test_both_ways_a_deletion_travels_only_when_asked_for(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="1", b="2", c="3")
    async with connected(machine) as connection:
        await sync(connection, wanted(tmp_path, Direction.BOTH))
        (here / "a").unlink()
        (there / "b").unlink()
        done = await sync(connection, wanted(tmp_path, Direction.BOTH, delete=True))
    assert (done.plan.delete_there, done.plan.delete_here) == (("a",), ("b",))
    assert tree(here) == tree(there) == {"c": "3"}


async def test_a_thousand_small_files(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    for number in range(1000):
        write(here, **{f"d{number % 10}/f{number}": f"{number}" * 20})
    async with connected(machine) as connection:
        done = await sync(connection, wanted(tmp_path))
        assert done.files == 1000
        assert tree(there) == tree(here)
        back = SyncOptions(tmp_path / "back", "there", Direction.PULL)
        assert (await sync(connection, back)).files == 1000
    assert tree(tmp_path / "back") == tree(here)


class Cutter:
    """A relay to sshd that cuts every line after so many bytes one way."""

    def __init__(self, port: int, most: int, *, up: bool) -> None:
        self._to, self._most, self._up = port, most, up
        self._server: asyncio.Server | None = None
        self.cuts = 0

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        left = [self._most]

        async def relay(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, counted: bool
        ) -> None:
            while data := await source.read(65536):
                if counted:
                    left[0] -= len(data)
                    if left[0] < 0:
                        self.cuts += 1
                        break
                sink.write(data)
                await sink.drain()
            for side in (writer, far_writer):
                side.transport.abort()

        await asyncio.gather(
            relay(reader, far_writer, self._up),
            relay(far_reader, writer, not self._up),
            return_exceptions=True,
        )


@pytest.mark.parametrize("direction", [Direction.PUSH, Direction.PULL])
async def test_a_large_file_goes_on_where_the_line_was_cut(
    machine: Any,
    connected: Any,
    tmp_path: Path,
    here: Path,
    there: Path,
    until: Any,
    direction: Direction,
) -> None:
    size, content = 12_000_000, os.urandom(12_000_000)
    source, target = (here, there) if direction is Direction.PUSH else (there, here)
    source.mkdir(exist_ok=True)
    (source / "big").write_bytes(content)
    cutter = Cutter(machine.port, 7_000_000, up=direction is Direction.PUSH)
    async with cutter as port:
        connection = await Connection.open("127.0.0.1", port, machine.keys)
        with pytest.raises(SyncError) as caught:
            await sync(connection, wanted(tmp_path, direction))
        connection.abort()
    assert caught.value.code == "sync.lost"
    assert cutter.cuts == 1
    assert not (target / "big").exists(), "whole files or none"
    parts = [path for path in target.iterdir() if path.name.startswith(PART)]
    begun = parts[0].stat().st_size
    assert 1_000_000 < begun < size
    async with connected(machine) as connection:
        done = await sync(connection, wanted(tmp_path, direction))
    assert (target / "big").read_bytes() == content
    assert done.bytes < size - begun + 100_000, "only the rest went over the line"
    assert [path.name for path in target.iterdir()] == ["big"]


@pytest.mark.parametrize("direction", [Direction.PUSH, Direction.PULL])
async def test_an_unfinished_part_that_is_not_the_files_beginning_is_not_built_on(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path, direction: Direction
) -> None:
    source, target = (here, there) if direction is Direction.PUSH else (there, here)
    for folder in (source, target):
        folder.mkdir(exist_ok=True)
    content = os.urandom(3_000_000)
    (source / "big").write_bytes(content)
    (target / os.path.basename(SyncFolder(str(target)).part_path("big", make=True))).write_bytes(
        b"\0" * 2_000_000
    )
    async with connected(machine) as connection:
        await sync(connection, wanted(tmp_path, direction))
    assert (target / "big").read_bytes() == content
    assert [path.name for path in target.iterdir()] == ["big"]


@pytest.mark.parametrize("direction", [Direction.PUSH, Direction.PULL])
async def test_an_interrupt_leaves_whole_files_or_none(
    machine: Any,
    connected: Any,
    tmp_path: Path,
    here: Path,
    there: Path,
    until: Any,
    direction: Direction,
) -> None:
    source, target = (here, there) if direction is Direction.PUSH else (there, here)
    source.mkdir(exist_ok=True)
    (source / "a").write_bytes(os.urandom(4_000_000))
    (source / "b").write_bytes(os.urandom(60_000_000))
    moving = asyncio.Event()

    def progress(sent: int) -> None:
        if sent > 5_000_000:
            moving.set()

    async with connected(machine) as connection:
        task = asyncio.create_task(sync(connection, wanted(tmp_path, direction), progress=progress))
        await moving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not _syncs(machine), "the machine's side has ended")
        for name in ("a", "b"):
            path = target / name
            assert not path.exists() or path.read_bytes() == (source / name).read_bytes()
        assert not (target / "b").exists()
        await sync(connection, wanted(tmp_path, direction))
    assert (target / "b").read_bytes() == (source / "b").read_bytes()


def _syncs(machine: Any) -> list[int]:
    found = []
    for pid in machine.processes():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if b"\0-S\0-c\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


async def test_missing_folders_files_and_homes_are_named(
    machine: Any, connected: Any, tmp_path: Path, here: Path
) -> None:
    (machine.home / "file").write_text("x")
    cases = [
        (
            SyncOptions(tmp_path / "none", "~/there", Direction.PUSH),
            "sync.missing",
            "there is no folder",
        ),
        (
            SyncOptions(here, "~/there", Direction.PULL),
            "sync.missing",
            "there is no folder ~/there on the machine",
        ),
        (
            SyncOptions(here, "~/file", Direction.PULL),
            "sync.missing",
            "~/file is a file on the machine",
        ),
        (SyncOptions(here, "~", Direction.PUSH), "sync.home", "the machine's whole home"),
        (SyncOptions(here, "/", Direction.PUSH), "sync.home", "the machine's whole home"),
        (SyncOptions(Path.home(), "~/there", Direction.PULL), "sync.home", "your whole home"),
        (SyncOptions(here, "../x", Direction.PUSH), "remote.copy", "is not a place to copy to"),
        (SyncOptions(here, "~/file/below", Direction.PUSH), "sync.permission", "may not be made"),
    ]
    write(here, a="1")
    async with connected(machine) as connection:
        for one, code, words in cases:
            with pytest.raises(Exception, match=code) as caught:
                await sync(connection, one)
            assert caught.value.code.startswith(code)  # type: ignore[attr-defined]
            assert words in caught.value.message  # type: ignore[attr-defined]
            assert "\n" not in caught.value.message  # type: ignore[attr-defined]
        assert (await connection.run("echo still here")).stdout == "still here\n"


async def test_what_a_login_script_prints_is_passed_over(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="1")
    python = machine.folder / "noisy"
    python.write_text('#!/bin/sh\necho "Welcome to the machine"\nexec python3 "$@"\n')
    python.chmod(0o755)
    async with connected(machine) as connection:
        assert (await sync(connection, wanted(tmp_path), python=str(python))).files == 1
        with pytest.raises(SyncError, match=r"sync\.no-python"):
            await sync(connection, wanted(tmp_path), python="no-such-python")


FULL = """#!{python} -S
import errno, os, sys
usual, left = os.write, [3_000_000]
def write(fd, data):
    if fd > 2:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
    return usual(fd, data)
os.write = write
code, sys.argv = sys.argv[-2], ["-c", sys.argv[-1]]
exec(code)
"""


@pytest.mark.parametrize("direction", [Direction.PUSH, Direction.PULL])
async def test_a_full_disk_is_named_and_leaves_whole_files(
    machine: Any,
    connected: Any,
    tmp_path: Path,
    here: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    direction: Direction,
) -> None:
    source, target = (here, there) if direction is Direction.PUSH else (there, here)
    source.mkdir(exist_ok=True)
    (source / "a").write_bytes(b"a" * 1_000_000)
    (source / "b").write_bytes(b"b" * 9_000_000)
    python = tmp_path / "full"
    python.write_text(FULL.format(python=sys.executable))
    python.chmod(0o755)
    usual, left = os.write, [3_000_000]

    def write(fd: int, data: Any) -> int:
        left[0] -= len(data) if isinstance(data, memoryview) else 0
        if left[0] < 0 and isinstance(data, memoryview):
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(fd, data)

    async with connected(machine) as connection:
        with monkeypatch.context() as patch:
            if direction is Direction.PULL:
                patch.setattr("nbprov.on_machine.sync_receiver.os.write", write)
            with pytest.raises(SyncError) as caught:
                await sync(
                    connection,
                    wanted(tmp_path, direction),
                    python=str(python) if direction is Direction.PUSH else "python3",
                )
        assert caught.value.code == "sync.full"
        assert caught.value.message.startswith("the disk is full; ")
        assert tree(target) == {"a": "a" * 1_000_000}
        done = await sync(connection, wanted(tmp_path, direction))
    assert (done.files, tree(target)) == (1, tree(source))


async def test_what_does_not_fit_is_refused_before_it_moves(
    machine: Any,
    connected: Any,
    tmp_path: Path,
    here: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(there, a="12345")
    monkeypatch.setattr("nbprov.remote.sync.sync.FREE_BYTES", 1 << 60)
    async with connected(machine) as connection:
        with pytest.raises(
            SyncError,
            match=r"do not fit on the disk of this computer, which has .* left  \[sync.full\]",
        ):
            await sync(connection, wanted(tmp_path, Direction.PULL))
    assert tree(here) == {}


async def test_a_file_that_cannot_be_put_in_its_place_is_named_and_the_others_arrive(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, a="1", door__x="2", z="3")
    write(machine.home / "elsewhere", safe="4")
    os.mkdir(there)
    (there / "door").symlink_to(machine.home / "elsewhere")
    async with connected(machine) as connection:
        with pytest.raises(SyncError) as caught:
            await sync(connection, wanted(tmp_path, delete=True))
    assert "door/x" in caught.value.message
    assert "door stands in its way" in caught.value.message
    assert (tree(there), tree(machine.home / "elsewhere")) == ({"a": "1", "z": "3"}, {"safe": "4"})


async def test_two_syncs_at_once_do_not_mix_their_files(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (here / "big").write_bytes(b"a" * 20_000_000)
    (other / "big").write_bytes(b"b" * 20_000_000)
    async with connected(machine) as connection:
        jobs = [
            sync(connection, SyncOptions(folder, "~/there", Direction.PUSH))
            for folder in (here, other)
        ]
        ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert all(
        isinstance(end, SyncResult) or (isinstance(end, SyncError) and end.code == "sync.busy")
        for end in ends
    ), ends
    assert set((there / "big").read_bytes()) in ({ord("a")}, {ord("b")})


async def test_what_was_changed_here_meanwhile_is_neither_replaced_nor_deleted(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, edited="old", gone="old", same="s")
    write(there, edited="from the machine", same="s", new="n")

    def autosave(plan: Any) -> None:
        assert [entry.name for entry in plan.down] == ["edited", "new"]
        write(here, edited="by hand", gone="by hand")

    async with connected(machine) as connection:
        with pytest.raises(SyncError, match="changed here meanwhile"):
            await sync(connection, wanted(tmp_path, Direction.PULL, delete=True), on_plan=autosave)
    assert tree(here) == {"edited": "by hand", "gone": "by hand", "same": "s", "new": "n"}


async def test_a_private_file_stays_private(
    machine: Any, connected: Any, tmp_path: Path, here: Path, there: Path
) -> None:
    write(here, key="old")
    (here / "key").chmod(0o600)
    write(there, key="new")
    (there / "key").chmod(0o644)
    async with connected(machine) as connection:
        await sync(connection, wanted(tmp_path, Direction.PULL))
    assert ((here / "key").read_text(), (here / "key").stat().st_mode & 0o777) == ("new", 0o600)
