"""A machine to reach: a real sshd on loopback with a home of its own, started and ended by the
test.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from quiet_ports import free_port

from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.config import AgentConfig, GuardConfig
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.remote.ssh.readiness import wait_for_ssh

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
COME_SECONDS = 60.0
"""How long what is awaited may take on a machine busy with other tests."""


class Machine:
    """One sshd process whose sessions get `home` as their home and this test's Python as their
    `python3`.
    """

    def __init__(self, folder: Path, keys: ClusterKeys) -> None:
        self.folder, self.keys, self.home = folder, keys, folder / "home"
        self.port, self.marker = free_port(), f"nbprov-test-{os.getpid()}-{time.monotonic_ns()}"
        self.home.mkdir(parents=True)
        (folder / "host_key").write_text(keys.host_private)
        (folder / "host_key").chmod(0o600)
        (folder / "logins").write_text(keys.client_public + "\n")
        (folder / "bin").mkdir()
        (folder / "bin" / "python3").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
        )
        (folder / "bin" / "python3").chmod(0o755)
        self.process: subprocess.Popen[bytes] | None = None
        # Short, because unix sockets go there.
        self.temporary = Path(tempfile.mkdtemp(prefix="nbp-", dir="/tmp"))

    @property
    def agent_folder(self) -> Path:
        return self.home / ".nbprov"

    def start(self, **more: object) -> None:
        settings: dict[str, object] = {
            "ListenAddress": "127.0.0.1",
            "Port": self.port,
            "HostKey": self.folder / "host_key",
            "PidFile": "none",
            "AuthorizedKeysFile": self.folder / "logins",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "StrictModes": "no",
            "UseDNS": "no",
            "LogLevel": "ERROR",
            "SetEnv": f"HOME={self.home} TMPDIR={self.temporary} NBPROV_INSTANCE={self.marker}"
            f" PATH={self.folder / 'bin'}:{os.environ['PATH']}",
            **more,
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = subprocess.Popen(
            [SSHD, "-D", "-E", str(self.folder / "sshd.log"), "-f", str(config)]
        )
        end = time.monotonic() + COME_SECONDS
        while time.monotonic() < end:
            with (
                contextlib.suppress(ConnectionRefusedError),
                socket.create_connection(("127.0.0.1", self.port), 5),
            ):
                return
            time.sleep(0.02)
        raise AssertionError(f"sshd did not start: {(self.folder / 'sshd.log').read_text()}")

    def stop_listener(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(COME_SECONDS)
            self.process = None

    def processes(self) -> list[int]:
        """Every process of this machine's sessions, whatever session or group it is in."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (
                        f"NBPROV_INSTANCE={self.marker}\0".encode()
                        in (entry / "environ").read_bytes() + b"\0"
                    ):
                        found.append(int(entry.name))
        return found

    def end(self) -> None:
        self.stop_listener()
        try:
            self.end_processes()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def end_processes(self) -> None:
        end = time.monotonic() + COME_SECONDS
        while time.monotonic() < end:
            pids = self.processes()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        raise AssertionError(f"left behind: {self.processes()}")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ClusterKeys:
    return ClusterKeys.create(tmp_path_factory.mktemp("keys") / "cluster")


@pytest.fixture
def machine(tmp_path: Path, keys: ClusterKeys) -> Iterator[Machine]:
    made = Machine(tmp_path / "machine", keys)
    made.start()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def machine_type() -> type[Machine]:
    """For tests that make a machine of their own."""
    return Machine


@pytest.fixture
def three(tmp_path: Path, keys: ClusterKeys) -> Iterator[list[Machine]]:
    """Three machines with one cluster's keys."""
    made = [Machine(tmp_path / f"machine{number}", keys) for number in range(3)]
    try:
        for one in made:
            one.start()
        yield made
    finally:
        for one in made:
            one.end()


@pytest.fixture(scope="module")
def shared_machine(
    tmp_path_factory: pytest.TempPathFactory, keys: ClusterKeys
) -> Iterator[Machine]:
    """One machine for the tests of a module that leave it as they found it."""
    made = Machine(tmp_path_factory.mktemp("shared") / "machine", keys)
    made.start()
    try:
        yield made
    finally:
        made.end()


@contextlib.asynccontextmanager
async def _connected(machine: Machine) -> AsyncIterator[Connection]:
    connection = await wait_for_ssh("127.0.0.1", machine.port, machine.keys, COME_SECONDS)
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _agent_on(
    machine: Machine, guards: GuardConfig | None = None
) -> AsyncIterator[AgentClient]:
    connection = await wait_for_ssh("127.0.0.1", machine.port, machine.keys, COME_SECONDS)
    client = await AgentClient.start(connection, AgentConfig(guards=guards))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def connected() -> Callable[[Machine], contextlib.AbstractAsyncContextManager[Connection]]:
    """A connection to a machine, closed at the end of the block."""
    return _connected


@pytest.fixture
def agent_on() -> Callable[..., contextlib.AbstractAsyncContextManager[AgentClient]]:
    """An agent's client on a machine, closed at the end of the block; the agent runs on."""
    return _agent_on
