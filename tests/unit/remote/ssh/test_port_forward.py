"""Opening a channel to a port of a machine: what is said where it cannot be."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncssh
import pytest

from nbprov.remote.errors import SshCode, SshError
from nbprov.remote.ssh import port_forward
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.remote.ssh.port_forward import Forward, MachineEnd, PortRefused

SMALL = 4096
"""Bytes in a socket's buffer, so that what is sent waits elsewhere."""
Connected = Callable[[Any], AbstractAsyncContextManager[Connection]]


class Told:
    """A session that remembers what it was told."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def session_started(self) -> None:
        pass

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.data += data

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class Closed(asyncssh.SSHServer):
    """What sshd is with AllowTcpForwarding no."""

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")


async def test_a_server_that_forwards_nothing_is_named_as_such(keys: ClusterKeys) -> None:
    key = asyncssh.import_private_key(keys.host_private)
    login = asyncssh.import_authorized_keys(keys.client_public)
    async with await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Closed, server_host_keys=[key], authorized_client_keys=login
    ) as server:
        connection = await Connection.open("127.0.0.1", server.get_port(), keys, 30)
        with pytest.raises(PortRefused, match="forwards no ports"):
            await connection.reach(80, lambda _: Told())
        await connection.close()


@pytest.mark.machine
async def test_it_leads_to_the_machines_own_loopback(
    shared_machine: Any, connected: Connected
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    told = Told()
    async with (
        connected(shared_machine) as connection,
        await asyncio.start_server(greet, "127.0.0.1", 0) as server,
    ):
        port = server.sockets[0].getsockname()[1]
        await connection.reach(port, lambda _: told)
        await told.ended.wait()
        assert told.data == b"hello"
    with pytest.raises(SshError) as raised:
        await connection.reach(port, lambda _: Told())
    assert raised.value.code is SshCode.LOST


@pytest.mark.machine
async def test_a_connection_that_breaks_meanwhile_is_lost_and_no_refusal(
    shared_machine: Any, connected: Connected
) -> None:
    async with connected(shared_machine) as connection:
        opening = asyncio.create_task(connection.reach(9, lambda _: Told()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.abort()
        with pytest.raises(SshError) as raised:
            await opening
        assert raised.value.code is SshCode.LOST


@pytest.mark.machine
async def test_who_gives_up_leaves_no_channel_open(
    shared_machine: Any, connected: Connected, until: Any
) -> None:
    visitors: list[asyncio.StreamWriter] = []
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append(writer)
        await reader.read()
        gone.set()
        writer.close()

    class Nobody(Told):
        def connection_made(self, chan: Any) -> None:
            chan.abort()

    async with (
        connected(shared_machine) as connection,
        await asyncio.start_server(wait, "127.0.0.1", 0) as server,
    ):
        opening = asyncio.create_task(
            connection.reach(server.sockets[0].getsockname()[1], lambda _: Nobody())
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await gone.wait()
        assert len(visitors) == 1
        assert (await connection.run("echo fine")).stdout == "fine\n"


async def test_why_one_was_refused_is_not_forgotten_for_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_forward, "MOST_CONNECTIONS", 1)
    may_join, has_joined = asyncio.Event(), asyncio.Event()

    async def reach(session: Callable[[asyncio.Event], MachineEnd]) -> None:
        await may_join.wait()
        has_joined.set()

    forward = Forward(socket.create_server(("127.0.0.1", 0)), reach)
    place = forward._listener.getsockname()
    await forward.open()
    try:
        _, first = await asyncio.open_connection(*place)
        reader, second = await asyncio.open_connection(*place)
        with pytest.raises(ConnectionError):
            await reader.read()
        may_join.set()
        await has_joined.wait()
        await asyncio.sleep(0)
        assert forward.trouble == "1 connections were open already"
        monkeypatch.setattr(port_forward, "MOST_CONNECTIONS", 2)
        _, later = await asyncio.open_connection(*place)
        while forward.trouble:  # noqa: ASYNC110 # one that is carried after it is the end of it
            await asyncio.sleep(0.001)
        for writer in (first, second, later):
            writer.close()
    finally:
        forward.close()


async def test_a_client_that_is_gone_when_the_machine_ends_breaks_nothing_else() -> None:
    reached: asyncio.Queue[Any] = asyncio.Queue()

    async def reach(session: Callable[[asyncio.Event], Any]) -> None:
        reached.put_nowait(session(asyncio.Event()))

    listener = socket.create_server(("127.0.0.1", 0))
    forward = Forward(listener, reach)
    await forward.open()
    try:
        with socket.create_connection(listener.getsockname()) as client:
            # Not joined yet, so that it does not read, and hears nothing of the client's end.
            far = await reached.get()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # What is raised here ends the ssh connection.
        assert far.eof_received()
        await asyncio.sleep(0)
        assert forward.open_now == 0
    finally:
        forward.close()


@pytest.mark.machine
async def test_a_slow_client_gets_all_from_a_machine_that_closed_long_before(
    shared_machine: Any, connected: Connected
) -> None:
    whole, closed = bytes(1 << 20), asyncio.Event()

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client sends no more: now both ends have ended
        writer.write(whole)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with (
        connected(shared_machine) as connection,
        await asyncio.start_server(tell, "127.0.0.1", 0) as server,
    ):
        port = server.sockets[0].getsockname()[1]
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        forward = Forward(listener, lambda session: connection.reach(port, session))
        await forward.open()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            client.connect(listener.getsockname())
            client.shutdown(socket.SHUT_WR)
            await closed.wait()
            for _ in range(3):  # so that all that the machine sent before is here
                await connection.run("true")
            client.setblocking(False)
            loop, received = asyncio.get_running_loop(), 0
            while piece := await loop.sock_recv(client, 1 << 16):
                received += len(piece)
        forward.close()
    assert received == len(whole)
