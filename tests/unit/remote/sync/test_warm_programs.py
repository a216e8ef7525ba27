"""The program that stays on a machine for a moment after a sync.

Used again, never in the way, gone by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbprov.on_machine.agent.activity import RESTING_SYNC
from nbprov.on_machine.loader import loading
from nbprov.on_machine.sync_protocol import MARKER, Frames, message
from nbprov.on_machine.sync_server import RESTING
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.pull.options import PullOptions
from nbprov.remote.pull.pull import pull
from nbprov.remote.ssh.connection import CROWDED
from nbprov.remote.sync import client as sync_channel
from nbprov.remote.sync.client import PROGRAM, open_remote_folder
from nbprov.remote.sync.errors import SyncError
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction
from nbprov.remote.sync.sync import sync

WAIT_SECONDS = 30.0
LONG = 600.0


@pytest.fixture(autouse=True)
def long_stay(monkeypatch: pytest.MonkeyPatch, bare_names: None) -> None:
    """Programs rest longer than any test takes, so that none ends by itself on a busy computer."""
    text = sync_channel.program()
    assert text.count(b"STAYS_SECONDS = 15.0") == 1
    longer = text.replace(b"STAYS_SECONDS = 15.0", b"STAYS_SECONDS = %.1f" % LONG)
    monkeypatch.setattr(sync_channel, "program", lambda: longer)
    monkeypatch.setattr(sync_channel, "STAYS_SECONDS", LONG)


def programs(machine: Any) -> dict[int, bytes]:
    """The programs of syncs on a machine: what each is called."""
    found = {}
    for pid in machine.processes():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if b"\0-S\0-c\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[pid] = Path(f"/proc/{pid}/comm").read_bytes().strip()
    return found


@pytest.fixture
def resting(shared_machine: Any, until: Any) -> Any:
    """Waits until one program rests there, and tells its process."""

    async def one() -> int:
        await until(
            lambda: list(programs(shared_machine).values()) == [RESTING],
            "one program rests",
            WAIT_SECONDS,
        )
        return next(iter(programs(shared_machine)))

    return one


@pytest.fixture
def none_left(shared_machine: Any, until: Any) -> Any:
    async def wait() -> None:
        await until(lambda: not programs(shared_machine), "no program is left", WAIT_SECONDS)

    return wait


@pytest.fixture
def there(shared_machine: Any, tmp_path: Path) -> Path:
    made = Path(shared_machine.home) / tmp_path.name
    made.mkdir()
    (made / "a").write_text("one")
    return made


def wanted(
    tmp_path: Path, there: Path, direction: Direction = Direction.PULL, here: str = "here"
) -> SyncOptions:
    return SyncOptions(tmp_path / here, str(there), direction)


@pytest.mark.machine
async def test_the_next_talk_of_any_folder_finds_the_program_of_the_last_one(
    shared_machine: Any, connected: Any, tmp_path: Path, there: Path, resting: Any, none_left: Any
) -> None:
    async with connected(shared_machine) as connection:
        await sync(connection, wanted(tmp_path, there))
        first = await resting()
        (tmp_path / "here" / "b").write_text("two")
        await sync(connection, wanted(tmp_path, there, Direction.PUSH))
        assert await resting() == first
        # A file that is no folder is an answer like any other.
        await pull(
            connection,
            PullOptions(str(there / "b"), tmp_path / "pulled", False, "", "from-x", None),
        )
        assert await resting() == first
    assert (there / "b").read_text() == (tmp_path / "pulled").read_text() == "two"
    await none_left()


@pytest.mark.machine
async def test_two_at_once_have_a_program_each_and_one_stays(
    shared_machine: Any, connected: Any, tmp_path: Path, there: Path, resting: Any
) -> None:
    async with connected(shared_machine) as connection:
        await sync(connection, wanted(tmp_path, there))
        await resting()
        async with (
            open_remote_folder(connection, str(there)) as one,
            open_remote_folder(connection, "~/other") as other,
        ):
            assert (one.path, one.exists, other.exists) == (str(there), True, False)
            assert len(programs(shared_machine)) == 2
        await resting()
        async with open_remote_folder(connection, "~/other"):
            assert len(programs(shared_machine)) == 1


@pytest.mark.machine
async def test_one_that_has_gone_is_replaced_unnoticed(
    shared_machine: Any, connected: Any, tmp_path: Path, there: Path, resting: Any
) -> None:
    async with connected(shared_machine) as connection:
        await sync(connection, wanted(tmp_path, there))
        first = await resting()
        os.kill(first, signal.SIGKILL)
        # Nothing runs here between, so nobody has noticed yet.
        async with open_remote_folder(connection, str(there)) as far:
            assert far.exists
        assert await resting() != first


@pytest.mark.machine
async def test_one_whose_talk_was_broken_off_is_not_kept(
    shared_machine: Any, connected: Any, there: Path, none_left: Any
) -> None:
    async with connected(shared_machine) as connection:
        with pytest.raises(SyncError, match="given up"):
            async with open_remote_folder(connection, str(there)):
                raise SyncError("given up", code="sync.foul")
        await none_left()


@pytest.mark.machine
async def test_none_is_in_the_way_of_those_who_need_its_session(
    shared_machine: Any, connected: Any, tmp_path: Path, there: Path, resting: Any, none_left: Any
) -> None:
    async with connected(shared_machine) as connection, contextlib.AsyncExitStack() as stack:
        await sync(connection, wanted(tmp_path, there))
        await resting()
        for _ in range(CROWDED):
            await stack.enter_async_context(connection.channel("cat"))
        await none_left()
        await sync(connection, wanted(tmp_path, there, here="again"))
        await none_left()
        assert (tmp_path / "again" / "a").read_text() == "one"


@pytest.mark.machine
async def test_where_sshd_allows_one_session_what_comes_next_gets_it(
    machine: Any, connected: Any
) -> None:
    machine.stop_listener()
    machine.start(MaxSessions=1)
    async with connected(machine) as connection:
        async with open_remote_folder(connection, "~/there"):
            pass
        assert (await connection.run("echo here")).stdout == "here\n"


@pytest.mark.machine
async def test_one_that_rests_keeps_no_machine_awake_and_one_that_works_does(
    machine: Any, agent_on: Any, connected: Any, until: Any
) -> None:
    (Path(machine.home) / "there").mkdir()
    async with (
        agent_on(machine, GuardConfig("true", idle_seconds=3600)) as client,
        connected(machine) as connection,
    ):

        async def counts(sessions: list[str]) -> None:
            # Those by which the agent was started may need a moment to go.
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    if [
                        word for word in (await client.status()).active if word.endswith(" ssh")
                    ] == sessions:
                        return
                    await asyncio.sleep(0.05)

        async with open_remote_folder(connection, "~/there"):
            await counts(["1 ssh"])
        await until(lambda: list(programs(machine).values()) == [RESTING], "it rests", WAIT_SECONDS)
        await counts([])
        async with open_remote_folder(connection, "~/there"):
            await counts(["1 ssh"])


class _GivenUp:
    """A folder that is given up just as its program is told to rest."""

    refusal = None
    is_ended = False

    def __init__(self) -> None:
        self.channel = self

    async def rest(self) -> bool:
        raise asyncio.CancelledError

    async def end(self) -> None:
        self.is_ended = True


async def test_one_whose_talk_is_given_up_at_its_very_end_is_not_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = _GivenUp()

    async def waiting(*given: Any) -> Any:
        return talk, talk

    monkeypatch.setattr(sync_channel, "_waiting", waiting)
    with pytest.raises(asyncio.CancelledError):
        async with open_remote_folder(SimpleNamespace(is_crowded=False), "~/there"):  # type: ignore[arg-type]
            pass
    assert talk.is_ended


def test_it_ends_by_itself_where_nobody_asks_again(tmp_path: Path) -> None:
    text = f"{loading(PROGRAM)}module.STAYS_SECONDS = 0.05\nmodule.main()\nprint('over')"
    running = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        # Its stdin stays open: it is not the end of the line that it sees.
        running.stdin.write(message(ask="open", folder=str(tmp_path)) + message(ask="rest"))
        running.stdin.flush()
        assert running.wait(WAIT_SECONDS) == 0
        told = running.stdout.read()
    finally:
        running.kill()
        running.wait()
        running.stdin.close()
        running.stdout.close()
    assert told.startswith(MARKER)
    assert told.endswith(b"over\n")
    assert [frame["exists"] for frame in Frames().feed(told[len(MARKER) : -len(b"over\n")])] == [
        True
    ]


def test_the_agent_knows_its_name() -> None:
    assert RESTING_SYNC.encode() == RESTING
    assert len(RESTING) <= 15, "Linux keeps no more of a process's name"
