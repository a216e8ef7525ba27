"""Tunnels of a running cluster: pages, broken connections, taken ports, and clean ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tunnel_world import Served, TunnelWorld, get, listens, quiet_port, request, until

import nbprov
from nbprov import api
from nbprov.machines.tunnels import tunnels
from nbprov.machines.tunnels.loopback_ports import PortTaken
from nbprov.model.errors import UsageError
from nbprov.provisioning.live_cluster import agent_of
from nbprov.remote.errors import SshCode, SshError
from nbprov.remote.ssh import port_forward

pytestmark = pytest.mark.machine


@pytest.fixture(autouse=True)
def none_left(shared: Served) -> Iterator[None]:
    yield
    session = shared.world.session
    session.close_tunnels(session.tunnels())


def _listeners() -> set[tuple[str, int]]:
    own = psutil.Process()
    connections = (
        own.net_connections if hasattr(own, "net_connections") else own.connections
    )  # before psutil 6
    return {tuple(c.laddr) for c in connections("tcp") if c.status == psutil.CONN_LISTEN}


def test_a_page_of_the_machine_comes_through(shared: Served) -> None:
    with shared.cluster.tunnel(shared.port) as tunnel:
        assert tunnel.url == f"http://127.0.0.1:{tunnel.local}"
        assert (get(tunnel.local), get(tunnel.local)) == ("page of dev", "page of dev")
        view = until(
            lambda: v if (v := tunnel.view()).open_now == 0 else None, "the end of both connections"
        )
        assert (view.carried, view.trouble) == (2, "")
        assert view.received > view.sent > 0
    assert not listens(tunnel.local)
    assert tunnel.closed
    assert shared.world.session.tunnels() == []


def test_it_listens_on_loopback_and_nowhere_else(shared: Served) -> None:
    before = _listeners()
    tunnel = shared.cluster.tunnel(shared.port)
    assert _listeners() - before == {("127.0.0.1", tunnel.local)}


def test_much_goes_both_ways_unharmed(shared: Served) -> None:
    body = os.urandom(1 << 20) * 24
    assert request(shared.cluster.tunnel(shared.port).local, "POST", body=body) == body


def test_many_connections_at_once(shared: Served) -> None:
    port = shared.cluster.tunnel(shared.port).local
    pages: list[str] = []
    readers = [threading.Thread(target=lambda: pages.append(get(port))) for _ in range(30)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert pages == ["page of dev"] * 30


def test_after_a_cut_the_next_request_works(shared: Served) -> None:
    tunnel = shared.cluster.tunnel(shared.port)
    for _ in range(3):
        shared.world.cut()
        assert get(tunnel.local) == "page of dev"


def test_a_page_that_is_cut_is_a_break_and_no_short_page(shared: Served) -> None:
    tunnel = shared.cluster.tunnel(shared.port)
    connection = http.client.HTTPConnection("127.0.0.1", tunnel.local, timeout=120)
    connection.request("GET", "/half")
    answer = connection.getresponse()
    assert answer.read(4) == b"half"
    shared.world.cut()
    with pytest.raises(ConnectionResetError):
        answer.read()
    connection.close()
    shared.cluster.bash("touch go")
    assert get(tunnel.local, "/half") == "halfpage of dev"


@contextlib.contextmanager
def _line_down(shared: Served, up: threading.Event) -> Iterator[None]:
    """Break the connection, and refuse new ones until the event."""
    agent = agent_of(shared.world.session.engine.live[shared.cluster.cluster_id].head)
    whole = agent.transport._reconnect

    async def reconnect() -> Any:
        if not up.is_set():
            raise SshError(SshCode.NOT_UP, "the line is down")
        return await whole()

    agent.transport._reconnect = reconnect
    shared.world.cut()
    try:
        yield
    finally:
        up.set()
        agent.transport._reconnect = whole


def test_a_connection_waits_while_the_line_is_down(shared: Served) -> None:
    tunnel, up, pages = shared.cluster.tunnel(shared.port), threading.Event(), []
    with _line_down(shared, up):
        reader = threading.Thread(target=lambda: pages.append(get(tunnel.local)))
        reader.start()
        until(lambda: tunnel.view().open_now, "the connection")
        assert pages == []
        up.set()
        reader.join()
    assert pages == ["page of dev"]


def test_closing_it_breaks_what_waits(shared: Served) -> None:
    tunnel, broken = shared.cluster.tunnel(shared.port), []

    def read() -> None:
        try:
            get(tunnel.local)
        except ConnectionError as error:
            broken.append(error)

    with _line_down(shared, threading.Event()):
        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: tunnel.view().open_now, "the connection")
        tunnel.close()
        reader.join()
    assert len(broken) == 1
    assert get(shared.cluster.tunnel(shared.port).local) == "page of dev"


def test_a_reader_that_does_not_read_holds_the_machine_up_and_fills_no_memory(
    shared: Served,
) -> None:
    script = (
        'exec python3 -c \'import pathlib, socket\ns = socket.create_server(("127.0.0.1", 0))\n'
    )
    script += 'pathlib.Path("flood").write_text(str(s.getsockname()[1]))\nc, _ = s.accept()\n'
    script += "c.setblocking(False)\nsent = 0\nimport select\n"
    script += "while select.select([], [c], [], 2)[1]: sent += c.send(bytes(65536))\n"
    script += 'pathlib.Path("full").write_text(str(sent))\nc.setblocking(True)\nc.sendall(b"end")\''
    shared.world.session.wait_remote(
        "dev",
        lambda live: agent_of(live.head).run_job(
            script, name="flood", env={"PYTHONUNBUFFERED": "1"}
        ),
        60,
    )
    port = int(
        shared.cluster.bash(
            "while [ ! -s flood ]; do sleep 0.05; done; cat flood", timeout=120
        ).text
    )
    tunnel = shared.cluster.tunnel(port)
    with socket.create_connection(("127.0.0.1", tunnel.local)) as client:
        sent = int(
            shared.cluster.bash(
                "while [ ! -s full ]; do sleep 0.05; done; cat full", timeout=120
            ).text
        )
        assert sent < 64 << 20, "the machine was held up"
        assert tunnel.view().received < 16 << 20
        client.shutdown(socket.SHUT_WR)
        received = 0
        while piece := client.recv(1 << 20):
            received += len(piece)
        assert received == sent + len(b"end"), "and nothing is lost"


def test_it_does_not_wait_for_ever(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "WAIT_SECONDS", 0.3)
    tunnel = shared.cluster.tunnel(shared.port)
    with _line_down(shared, threading.Event()):
        with pytest.raises(ConnectionError):
            get(tunnel.local)
        assert "dev could not be reached" in tunnel.view().trouble
    monkeypatch.undo()
    assert get(tunnel.local) == "page of dev"
    assert tunnel.view().trouble == ""


def test_a_stranger_in_the_machines_place_gets_nothing(shared: Served) -> None:
    tunnel = shared.cluster.tunnel(shared.port)
    agent = agent_of(shared.world.session.engine.live[shared.cluster.cluster_id].head)
    whole = agent.transport._reconnect

    async def stranger() -> Any:
        raise SshError(SshCode.HOST_KEY, "another machine's host key")

    agent.transport._reconnect = stranger
    try:
        shared.world.cut()
        with pytest.raises(ConnectionError):
            get(tunnel.local)
        assert "another machine's host key" in tunnel.view().trouble
    finally:
        agent.transport._reconnect = whole


def test_where_nothing_listens_the_connection_breaks_and_it_is_said_why(shared: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    tunnel = shared.cluster.tunnel(port)
    with pytest.raises(ConnectionError):
        get(tunnel.local)
    assert tunnel.view().trouble == f"nothing listens on port {port} there"
    assert shared.cluster.bash("echo still").text == "still\n"


def test_a_tunnel_never_leads_to_itself(shared: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(UsageError, match="its machine runs here"):
        shared.cluster.tunnel(free, local=free)
    first = shared.cluster.tunnel(free)
    assert first.local != free
    back = shared.cluster.tunnel(first.local, local=free)  # this closes a ring
    for tunnel in (first, back):
        with pytest.raises(ConnectionError):
            get(tunnel.local)
        assert "is a tunnel itself" in tunnel.view().trouble


def test_a_port_that_is_taken_is_passed_over_and_one_that_is_named_is_an_error(
    shared: Served,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {number} of this computer cannot be used"):
            shared.cluster.tunnel(shared.port, local=number)
    named = shared.cluster.tunnel(shared.port, local=number)
    assert (named.local, get(number)) == (number, "page of dev")
    # Without a number the open tunnel serves; another number makes another tunnel.
    assert shared.cluster.tunnel(shared.port).local == number
    with socket.create_server(("127.0.0.1", 0)) as other:
        second = other.getsockname()[1]
    assert get(shared.cluster.tunnel(shared.port, local=second).local) == "page of dev"
    assert len(shared.world.session.tunnels()) == 2


def test_a_block_closes_only_what_it_opened(shared: Served) -> None:
    kept = shared.cluster.tunnel(shared.port)
    with shared.cluster.tunnel(shared.port) as same:
        assert same.local == kept.local
    assert not kept.closed
    assert get(kept.local) == "page of dev"
    kept.close()
    kept.close()
    assert not listens(kept.local)


@pytest.mark.parametrize(
    ("port", "local", "node"),
    [(0, None, 0), (65536, None, 0), (80, 0, 0), (80, 70000, 0), (80, None, 1), (80, None, -1)],
)
def test_what_is_no_port_or_node_is_refused(
    shared: Served, port: int, local: int | None, node: int
) -> None:
    with pytest.raises(UsageError):
        shared.cluster.tunnel(port, local, node)
    assert shared.world.session.tunnels() == []


def test_a_client_gone_wild_does_not_take_all_files(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "MOST_CONNECTIONS", 2)
    tunnel = shared.cluster.tunnel(shared.port)
    with (
        socket.create_connection(("127.0.0.1", tunnel.local)),
        socket.create_connection(("127.0.0.1", tunnel.local)),
    ):
        until(lambda: tunnel.view().open_now == 2, "both connections")
        with pytest.raises(ConnectionError):
            get(tunnel.local)
        until(lambda: "2 connections were open already" in tunnel.view().trouble, "why")
    until(lambda: tunnel.view().open_now == 0, "their end")
    assert get(tunnel.local) == "page of dev"


def test_a_hundred_openings_leave_nothing_behind(shared: Served) -> None:
    def once() -> None:
        with shared.cluster.tunnel(shared.port) as tunnel:
            assert get(tunnel.local) == "page of dev"

    def tasks() -> set[str]:
        # The engine watches its cluster meanwhile, in tasks that may outlive this test.
        coroutines: list[Any] = [task.get_coro() for task in asyncio.all_tasks()]
        return {
            c.__qualname__
            for c in coroutines
            if Path(c.cr_code.co_filename).name in ("forwarding.py", "tunnels.py")
        }

    once()
    before, files = shared.world.on_loop(tasks), psutil.Process().num_fds()
    for _ in range(100):
        once()
    until(lambda: shared.world.on_loop(tasks) <= before, "the end of all that was begun")
    until(lambda: psutil.Process().num_fds() <= files, "all files closed")


def test_at_the_machine_nothing_stays_open_either(shared: Served) -> None:
    tunnel = shared.cluster.tunnel(shared.port)
    for _ in range(5):
        get(tunnel.local)

    def connected() -> bool:
        own = os.getpid()
        return any(
            c.raddr and c.raddr.port == shared.port and c.pid != own
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_ESTABLISHED
        )

    until(lambda: not connected(), "the end of the machine's connections")


def test_the_twins_that_do_not_block(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_session", shared.world.session)

    async def all_of_it() -> list[str]:
        opened = await nbprov.aio.tunnel("dev", shared.port)
        assert (await nbprov.aio.tunnels())[0].local == opened.local
        return [opened.url, await nbprov.aio.ssh_command("dev")]

    url, command = asyncio.run(all_of_it())
    assert url.startswith("http://127.0.0.1:")
    assert command.startswith("ssh ")


def test_a_tunnel_of_a_session_that_is_left_listens_no_more(world: TunnelWorld) -> None:
    """Do what `%unload_ext` does last."""
    tunnel = world.up().tunnel(quiet_port())
    assert listens(tunnel.local)
    world.session.close()
    assert not listens(tunnel.local)
