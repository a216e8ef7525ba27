"""Which port of this computer a tunnel takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from nbprov.machines.tunnels import loopback_ports
from nbprov.machines.tunnels.loopback_ports import PortTaken, listen_near, listen_on


@contextmanager
def _held(host: str, family: int = socket.AF_INET, port: int = 0) -> Iterator[int]:
    with socket.create_server((host, port), family=family) as held:
        yield held.getsockname()[1]


def _number(made: socket.socket) -> int:
    with closing(made):
        host, port = made.getsockname()
        assert host == "127.0.0.1"
        return int(port)


def test_the_same_number_where_it_is_free() -> None:
    with _held("127.0.0.1") as free:
        pass
    assert _number(listen_near(free)) == free
    assert _number(listen_on(free)) == free


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_the_next_one_where_somebody_else_would_answer(host: str) -> None:
    with _held(host, socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        assert _number(listen_near(taken)) > taken
        with pytest.raises(PortTaken, match=str(taken)):
            listen_on(taken)


def test_numbers_to_avoid_are_avoided() -> None:
    with _held("127.0.0.1") as free:
        pass
    assert _number(listen_near(free, avoid={free, free + 1})) > free + 1


def test_ports_of_the_administrator_are_looked_for_further_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, tried = loopback_ports._listen, []

    def listen(port: int) -> socket.socket:
        tried.append(port)
        if port < 1024:
            raise PermissionError(13, "Permission denied")
        return whole(0)

    monkeypatch.setattr(loopback_ports, "_listen", listen)
    _number(listen_near(80))
    assert tried == [80, 8080]
    with pytest.raises(PortTaken, match="Permission denied"):
        listen_on(80)


def test_where_all_near_are_taken_the_system_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loopback_ports._listen

    def listen(port: int) -> socket.socket:
        if port:
            raise OSError(98, "Address already in use")
        return whole(0)

    monkeypatch.setattr(loopback_ports, "_listen", listen)
    assert _number(listen_near(65530)) > 0


def test_a_closed_tunnels_port_can_be_had_again_at_once() -> None:
    made = listen_near(20500)
    port = made.getsockname()[1]
    with closing(made), socket.create_connection(("127.0.0.1", port)) as client:
        made.setblocking(True)
        accepted, _ = made.accept()
        accepted.close()  # the side that closes first keeps the port reserved for a minute
        assert client.recv(1) == b""
    assert _number(listen_on(port)) == port
