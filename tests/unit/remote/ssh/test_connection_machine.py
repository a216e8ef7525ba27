"""Connections to a real sshd: only to the right machine, and everything that goes over them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbprov.model.failures import Cause
from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.remote.errors import CopyError, RemoteError, SshCode, SshError
from nbprov.remote.ssh.connection import MAX_SESSIONS, Connection
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.remote.ssh.readiness import REFUSED_RETRY, wait_for_ssh

pytestmark = pytest.mark.machine


async def test_a_stranger_with_another_host_key_is_refused_and_gets_nothing(
    shared_machine: Any, tmp_path: Path
) -> None:
    others = ClusterKeys.create(tmp_path / "others")
    with pytest.raises(SshError) as caught:
        await wait_for_ssh("127.0.0.1", shared_machine.port, others, 10)
    assert caught.value.code is SshCode.HOST_KEY
    assert caught.value.failure.cause is Cause.UNHEALTHY
    assert not caught.value.may_pass


async def test_a_key_that_may_not_log_in_is_named(shared_machine: Any, tmp_path: Path) -> None:
    others = ClusterKeys.create(tmp_path / "others")
    mixed = ClusterKeys(others.folder, others.client_public, shared_machine.keys.host_public)
    with pytest.raises(SshError) as caught:
        await Connection.open("127.0.0.1", shared_machine.port, mixed)
    assert caught.value.code is SshCode.AUTH


async def test_the_persons_own_known_hosts_and_keys_play_no_part(
    shared_machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n  ProxyCommand false\n  User nobody\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "no-agent"))
    connection = await Connection.open("127.0.0.1", shared_machine.port, shared_machine.keys)
    assert (await connection.run("echo in")).stdout == "in\n"
    await connection.close()
    assert sorted(path.name for path in (tmp_path / ".ssh").iterdir()) == ["config"]


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@contextlib.asynccontextmanager
async def _counted_agent(
    folder: Path, keys: ClusterKeys, until: Any
) -> AsyncIterator[tuple[str, list[int]]]:
    """A real ssh-agent that holds the key which the machine lets in, behind a socket that counts
    who comes.
    """
    real, counted, came = str(folder / "real"), str(folder / "counted"), [0]
    process = await asyncio.create_subprocess_exec(
        "ssh-agent", "-D", "-a", real, stdout=asyncio.subprocess.DEVNULL
    )

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came[0] += 1
        there, back = await asyncio.open_unix_connection(real)
        await asyncio.gather(carry(reader, back), carry(there, writer))

    server = await asyncio.start_unix_server(come, counted)
    try:
        await until(lambda: _listens(real), "an ssh-agent")
        add = await asyncio.create_subprocess_exec(
            "ssh-add",
            "-q",
            str(keys.client_private_file),
            env={**os.environ, "SSH_AUTH_SOCK": counted},
            stdin=asyncio.subprocess.DEVNULL,
        )
        assert await add.wait() == 0
        came[0] = 0
        yield counted, came
    finally:
        server.close()
        process.terminate()
        await process.wait()


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="this computer has no ssh-agent")
async def test_the_persons_ssh_agent_is_neither_asked_nor_forwarded(
    shared_machine: Any, agent_on: Any, until: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp"))  # the path of a socket is short
    look = 'echo "[$SSH_AUTH_SOCK]"; ssh-add -l 2>&1 || true'
    try:
        async with _counted_agent(folder, shared_machine.keys, until) as (path, came):
            monkeypatch.setenv("SSH_AUTH_SOCK", path)
            connection = await Connection.open(
                "127.0.0.1", shared_machine.port, shared_machine.keys
            )
            first, *rest = (await connection.run(look)).stdout.splitlines()
            assert (first, "ED25519" in str(rest)) == ("[]", False)
            await connection.close()
            others = ClusterKeys.create(tmp_path / "others")
            mixed = ClusterKeys(
                others.folder, others.client_public, shared_machine.keys.host_public
            )
            with pytest.raises(SshError) as refused:  # though the agent has the key
                await Connection.open("127.0.0.1", shared_machine.port, mixed)
            assert refused.value.code is SshCode.AUTH
            async with agent_on(shared_machine) as client:
                said = [output.text async for output in await client.shell(look)]
                assert said[0] == "[]\n"
            assert came == [0]
            # The machine would forward it, for whoever asks for that.
            plain = [
                "-F",
                "none",
                "-p",
                str(shared_machine.port),
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                f"UserKnownHostsFile={folder}/hosts",
            ]
            process = await asyncio.create_subprocess_exec(
                *("ssh", "-A", "-o", "BatchMode=yes", *plain, "127.0.0.1", look),
                stdout=asyncio.subprocess.PIPE,
                stdin=asyncio.subprocess.DEVNULL,
            )
            out, _ = await process.communicate()
            assert b"ED25519" in out
            assert came[0] > 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_waiting_ends_soon_after_sshd_is_up(machine: Any, connected: Any) -> None:
    machine.stop_listener()
    waiting = asyncio.create_task(wait_for_ssh("127.0.0.1", machine.port, machine.keys, 20))
    with pytest.raises(SshError) as caught:
        await Connection.open("127.0.0.1", machine.port, machine.keys)
    assert caught.value.code is SshCode.NOT_UP
    assert caught.value.may_pass
    machine.start()
    connection = await waiting
    assert connection.is_open
    await connection.close()


@pytest.mark.parametrize("code", [SshCode.AUTH, SshCode.HOST_KEY])
async def test_a_machine_whose_start_script_has_not_come_so_far_is_waited_for(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: SshCode
) -> None:
    monkeypatch.setitem(REFUSED_RETRY, code, 0.05)
    others = ClusterKeys.create(tmp_path / "others")
    mixed = (
        ClusterKeys(others.folder, others.client_public, machine.keys.host_public)
        if code is SshCode.AUTH
        else others
    )
    tries: list[SshCode | None] = []
    real, twice = Connection.open, asyncio.Event()

    async def counted(*args: Any, **options: Any) -> Connection:
        try:
            return await real(*args, **options)
        except SshError as error:
            tries.append(error.code)
            if len(tries) == 2:
                twice.set()
            raise

    monkeypatch.setattr(Connection, "open", counted)
    waiting = asyncio.create_task(
        wait_for_ssh(
            "127.0.0.1",
            machine.port,
            mixed,
            20,
            boot_grace=20,
            on_silence=lambda: tries.append(None),
        )
    )
    await twice.wait()
    assert set(tries) == {code}, "and nobody is let in for it: the machine answered"
    if code is SshCode.AUTH:
        (machine.folder / "logins").write_text(others.client_public + "\n")
    else:
        machine.stop_listener()
        (machine.folder / "logins").write_text(others.client_public + "\n")
        (machine.folder / "host_key").write_text(others.host_private)
        machine.start()
    connection = await waiting
    assert connection.is_open
    await connection.close()


async def test_the_grace_ends(shared_machine: Any, tmp_path: Path) -> None:
    others = ClusterKeys.create(tmp_path / "others")
    with pytest.raises(SshError) as caught:
        await wait_for_ssh("127.0.0.1", shared_machine.port, others, 3, boot_grace=3)
    assert caught.value.code is SshCode.HOST_KEY
    assert "no ssh within 3 s" in caught.value.failure.message


async def test_waiting_has_a_deadline(tmp_path: Path, keys: ClusterKeys) -> None:
    started = time.monotonic()
    with pytest.raises(SshError) as caught:
        await wait_for_ssh("127.0.0.1", 1, keys, 0.3)
    assert caught.value.failure.cause is Cause.TIMEOUT
    assert time.monotonic() - started < 3


async def test_run_tells_output_errors_exit_code_and_takes_input(
    shared_machine: Any, connected: Any
) -> None:
    async with connected(shared_machine) as connection:
        done = await connection.run("cat; echo wrong >&2; exit 7", "in\n")
        assert (done.exit_code, done.stdout, done.stderr) == (7, "in\n", "wrong\n")
        with pytest.raises(
            RemoteError, match=r"the thing failed on the machine \(exit code 7\): wrong"
        ):
            done.check("the thing")


async def test_variables_arrive_whole_and_show_on_no_command_line(
    shared_machine: Any, connected: Any
) -> None:
    value = "canary-4711 'quoted' \"double\" $HOME\nsecond line"
    async with connected(shared_machine) as connection:
        running = asyncio.create_task(
            connection.run('echo ready; read -r line; printf %s "$VALUE"', "go\n", {"VALUE": value})
        )
        lines = [
            " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
        ]
        assert not [line for line in lines if "canary-4711" in line]
        assert (await running).stdout == "ready\n" + value
        with pytest.raises(RemoteError, match="not a name"):
            await connection.run("true", env={"A;rm": "x"})


async def test_a_command_that_takes_too_long_is_ended_there(
    shared_machine: Any, connected: Any, until: Any
) -> None:
    async with connected(shared_machine) as connection:
        with pytest.raises(SshError) as caught:
            await connection.run('touch "$HOME/begun"; exec sleep 987.5', deadline=2)
        assert caught.value.code is SshCode.TIMEOUT
        assert (shared_machine.home / "begun").exists()
        await until(
            lambda: (
                not [
                    p
                    for p in psutil.process_iter(["cmdline"])
                    if p.info["cmdline"] == ["sleep", "987.5"]
                ]
            ),
            "the sleep ended",
        )


async def test_more_commands_than_sshd_allows_channels_wait_their_turn(
    shared_machine: Any, connected: Any
) -> None:
    async with connected(shared_machine) as connection:
        done = await asyncio.gather(
            *(connection.run(f"sleep 0.05; echo {n}") for n in range(3 * MAX_SESSIONS))
        )
        assert [int(one.stdout) for one in done] == list(range(3 * MAX_SESSIONS))


async def test_a_folder_arrives_as_it_is(
    shared_machine: Any, connected: Any, tmp_path: Path
) -> None:
    source = tmp_path / "work"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "böse name.txt").write_text("content")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    (source / "large").write_bytes(b"0123456789" * 300_000)
    (source / "junk.tmp").write_text("x")
    (source / ".nbprovignore").write_text("*.tmp\n")
    seen: list[int] = []
    async with connected(shared_machine) as connection:
        await connection.copy_in(source, "~/place for it", progress=seen.append)
    there = shared_machine.home / "place for it"
    assert sorted(p.relative_to(there).as_posix() for p in there.rglob("*")) == [
        ".nbprovignore", "large", "link", "run.sh", "sub", "sub/böse name.txt", "sub/empty",
    ]  # fmt: skip
    assert (there / "large").read_bytes() == (source / "large").read_bytes()
    assert (there / "run.sh").stat().st_mode & 0o111
    assert (there / "link").is_symlink()
    assert len(seen) > 3


async def test_a_file_becomes_its_target_or_goes_into_a_folder(
    shared_machine: Any, connected: Any, tmp_path: Path
) -> None:
    (tmp_path / "settings.json").write_text("{}")
    async with connected(shared_machine) as connection:
        await connection.copy_in(tmp_path / "settings.json", "~/conf/renamed.json")
        await connection.copy_in(tmp_path / "settings.json", "conf/")
    assert sorted(path.name for path in (shared_machine.home / "conf").iterdir()) == [
        "renamed.json",
        "settings.json",
    ]


async def test_a_place_that_cannot_be_written_is_named(
    shared_machine: Any, connected: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x" * 5_000_000)
    async with connected(shared_machine) as connection:
        with pytest.raises(CopyError, match="/proc/nowhere"):
            await connection.copy_in(tmp_path / "file", "/proc/nowhere/file")
        assert (await connection.run("echo still here")).stdout == "still here\n"


@pytest.mark.parametrize(
    ("tar", "limit", "words"),
    [
        ("exec sleep 3600", TransferLimit(10_000, 0.5), "moved less than 10 kB a second"),
        ("cat >/dev/null; exec sleep 3600", TransferLimit(most_seconds=1.5), "took longer than"),
    ],
    ids=["takes nothing", "does not end"],
)
async def test_a_copy_that_gets_no_further_is_ended(
    machine: Any, connected: Any, tmp_path: Path, tar: str, limit: TransferLimit, words: str
) -> None:
    (machine.folder / "bin" / "tar").write_text(f"#!/bin/sh\n{tar}\n")
    (machine.folder / "bin" / "tar").chmod(0o755)
    (tmp_path / "big").write_bytes(os.urandom(8_000_000))
    async with connected(machine) as connection:
        with pytest.raises(SshError, match=words) as caught:
            await connection.copy_in(tmp_path / "big", "there", limit=limit)
        assert caught.value.code is SshCode.TIMEOUT
        assert (await connection.run("echo here")).stdout == "here\n", "the connection is good"


async def test_a_channel_that_is_given_up_while_it_opens_is_closed(
    shared_machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await Connection.open("127.0.0.1", shared_machine.port, shared_machine.keys)
    begun, go = asyncio.Event(), asyncio.Event()
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    real = Connection._new_process

    async def slow(self: Connection, ssh: Any, command: str, window: int) -> Any:
        begun.set()
        await go.wait()
        made.set_result(await real(self, ssh, command, window))
        return made.result()

    monkeypatch.setattr(Connection, "_new_process", slow)
    running = asyncio.create_task(connection.run("sleep 60"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go.set()
    process = await asyncio.wait_for(made, 60)
    await asyncio.sleep(0)  # its callback
    await asyncio.sleep(0)
    assert process.is_closing()
    monkeypatch.undo()
    assert (await connection.run("echo still there")).stdout == "still there\n"
    await connection.close()


async def test_what_a_machine_sends_ahead_of_a_slow_reader_is_bounded(
    machine: Any, connected: Any
) -> None:
    size, window = 30_000_000, 1_000_000
    async with (
        connected(machine) as connection,
        connection.channel(f"head -c {size} /dev/zero", window) as process,
    ):
        taken, most = 0, 0
        while data := await process.stdout.read(200_000):
            taken += len(data)
            waiting = sum(len(piece) for piece, _ in process.channel._recv_buf)
            most = max(most, waiting + process._recv_buf_len)
            await asyncio.sleep(0.001)  # the line is quicker
    assert taken == size
    assert most <= 2.1 * window
