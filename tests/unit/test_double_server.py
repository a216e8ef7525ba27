"""The server of a double answers whole requests, and hides no error of its own."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import pytest

from nbprov.clouds.contract.addresses import claim
from nbprov.clouds.contract.double_server import (
    DoubleAnswer,
    DoubleRequest,
    DoubleServer,
    HangUp,
    json_answer,
)
from nbprov.clouds.contract.relay import Relay

SECONDS = 20.0


class Asked:
    """A server that does what a path says, and what came of it."""

    def __init__(self) -> None:
        self.requests: list[DoubleRequest] = []
        self.failures: list[str] = []
        self.server = DoubleServer(self.answer, self.failures.append, control=self.control)
        self.server.start()

    def answer(self, asked: DoubleRequest) -> DoubleAnswer:
        self.requests.append(asked)
        match asked.path:
            case "/lost":
                raise HangUp
            case "/broken":
                raise KeyError("no such thing")
            case "/cut":
                return DoubleAnswer(200, b"0123456789", cut=4)
            case "/empty":
                return json_answer(204, None)
        return json_answer(200, {"body": asked.body, "query": asked.query})

    def control(self, method: str, name: str, body: object) -> object:
        return [method, name, body]

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        parts = urlsplit(self.server.url)
        link = HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            link.request(method, path, body)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.server.close()


def test_a_request_comes_whole_and_so_does_its_answer(asked: Asked) -> None:
    status, body = asked.ask("POST", "/x?a=1&b=", b'{"c": 2}')
    assert (status, body) == (200, b'{"body": {"c": 2}, "query": {"a": "1", "b": ""}}')
    assert asked.ask("GET", "/empty") == (204, b"")
    assert asked.ask("POST", "/_double/faults", b"[3]") == (200, b'["POST", "faults", [3]]')
    assert [one.path for one in asked.requests] == ["/x", "/empty"]


def test_an_error_of_the_double_is_an_answer_and_is_told(asked: Asked) -> None:
    status, body = asked.ask("GET", "/broken")
    assert (status, b"KeyError" in body) == (500, True)
    assert asked.failures == ["the double failed: KeyError: 'no such thing'"]


@pytest.mark.parametrize("path", ["/lost", "/cut"])
def test_an_answer_that_is_lost_or_cut_breaks_the_connection(asked: Asked, path: str) -> None:
    with pytest.raises((HTTPException, OSError)):
        asked.ask("GET", path)
    assert asked.failures == []


def test_half_a_request_is_not_carried_out(asked: Asked) -> None:
    parts = urlsplit(asked.server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), SECONDS) as link:
        link.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        link.shutdown(socket.SHUT_WR)
        assert link.recv(100) == b"", "there is no answer"
    assert asked.requests == []


def test_a_relay_takes_no_address_twice(asked: Asked) -> None:
    relay = Relay()
    try:
        port = urlsplit(relay.address_for(asked.server.url)).port
        assert port is not None
        assert not claim(port)
    finally:
        relay.close()


def test_a_login_in_base64_is_readable(asked: Asked) -> None:
    relay = Relay()
    try:
        url = urlsplit(relay.address_for(asked.server.url))
        assert url.hostname is not None
        link = HTTPConnection(url.hostname, url.port or 0, timeout=SECONDS)
        login = base64.b64encode(b"someone:the key").decode()
        with relay.noted() as sent:
            link.request("GET", "/plain", headers={"Authorization": f"Basic {login}"})
            link.getresponse().read()
        link.close()
        assert "the key" in sent[0].readable_headers
    finally:
        relay.close()
