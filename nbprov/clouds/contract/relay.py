"""A relay between an adapter and its double: it notes every request and spoils chosen answers.

It works for every cloud that is reached over HTTP, so that faults of the way need no support of a
double: a request that is refused, an answer that is lost, cut, late, or replaced by another one.
"""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from .addresses import claim

UPSTREAM_SECONDS = 120.0
"""How long a double may take to answer; beyond it the test has failed for another reason."""
HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "proxy-auth"})
"""Headers that speak of one connection alone."""
TRICKLE = 0.1
"""Seconds between two bytes of an answer that trickles: no socket waits for long."""
PAGE = b"<html><title>502 Bad Gateway</title><h1>Bad Gateway</h1></html>"


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """A request that the adapter sent.

    Attributes
    ----------
    target
        The path and the query, as sent.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def readable(self) -> str:
        """The target and the body, readable."""
        body = self.body.decode("utf-8", "replace")
        return f"{unquote_plus(self.target)}\n{body}\n{unquote_plus(body)}"

    @property
    def readable_headers(self) -> str:
        """The headers, readable; a login in base64 (`Authorization: Basic`) is decoded."""
        found = [f"{name}: {value}" for name, value in self.headers.items()]
        for value in self.headers.values():
            scheme, _, rest = value.partition(" ")
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    found.append(base64.b64decode(rest).decode("utf-8", "replace"))
        return "\n".join(found)

    @property
    def line(self) -> tuple[str, str, bytes]:
        """What makes two requests the same."""
        return (self.method, self.target, self.body)


@dataclass(frozen=True, slots=True)
class RelayFault:
    """What happens to a request in place of the cloud's own answer.

    Attributes
    ----------
    status
        The status of an answer made up here; 0 closes the connection without one.
    delivered
        The cloud gets the request and carries it out, and its answer is lost.
    seconds
        The answer comes so much later.
    cut
        The cloud's own answer ends after half of its body.
    trickles
        A byte of an answer comes now and then, for ever.
    """

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delivered: bool = False
    seconds: float = 0.0
    cut: bool = False
    trickles: bool = False


UNREADABLE = (RelayFault(500, PAGE), RelayFault(429, b"", {"Retry-After": "0"}), RelayFault())
"""Ways in which a question gets no answer: an error, too many requests, a closed connection."""
Script = Callable[[int, RelayedRequest], RelayFault | None]
"""What happens to a request, given its number since the script began (from 0)."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(self, port: int, relay: Relay, upstream: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.relay, self.upstream = relay, upstream

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that went away."""


class Relay:
    """Listens on loopback for the addresses of one cloud and passes requests on to its double."""

    def __init__(self) -> None:
        self.requests: list[RelayedRequest] = []
        self.rewrite: Callable[[int, bytes], bytes] | None = None
        self._lock = threading.Lock()
        self._script: Script | None = None
        self._number = self._last = 0
        self._free = threading.Event()
        self._listeners: list[_Listener] = []

    def address_for(self, url: str) -> str:
        """Listen for this address; return the one that the adapter is to use instead."""
        parts = urlsplit(url)
        listener = self._listener((parts.hostname or "127.0.0.1", parts.port or 80))
        self._serve(listener)
        self._listeners.append(listener)
        return urlunsplit(parts._replace(netloc=f"127.0.0.1:{listener.server_address[1]}"))

    def _listener(self, upstream: tuple[str, int]) -> _Listener:
        made = _Listener(0, self, upstream)
        if claim(made.server_address[1]):
            return made
        try:
            return self._listener(upstream)
        finally:
            made.server_close()

    @contextmanager
    def noted(self) -> Iterator[list[RelayedRequest]]:
        """Yield the list of the requests that are sent from here on."""
        start, seen = len(self.requests), list[RelayedRequest]()
        try:
            yield seen
        finally:
            seen += self.requests[start:]

    @contextmanager
    def scripted(self, script: Script) -> Iterator[None]:
        """Ask this script about every request of the block."""
        with self._lock:
            self._script, self._number = script, 0
        self._free.clear()
        try:
            yield
        finally:
            with self._lock:
                self._script = None
            self._free.set()

    @contextmanager
    def rewritten(self, rewrite: Callable[[int, bytes], bytes]) -> Iterator[None]:
        """Pass on what this makes of the status and the body of each answer of the cloud."""
        self.rewrite = rewrite
        try:
            yield
        finally:
            self.rewrite = None

    @contextmanager
    def unreachable(self, *, after: int = 0) -> Iterator[None]:
        """Refuse every connection during the block, once so many requests were taken."""
        with self._lock:
            self._number, self._last = 0, after
        if not after:
            self._shut()
        try:
            yield
        finally:
            with self._lock:
                self._last = 0
            self._shut()
            self._listeners = [
                _Listener(one.server_address[1], self, one.upstream) for one in self._listeners
            ]
            for listener in self._listeners:
                self._serve(listener)

    def close(self) -> None:
        """End it."""
        self._free.set()
        self._shut()

    def taken(self, request: RelayedRequest) -> RelayFault | None:
        """Note a request; return what happens to it."""
        with self._lock:
            self.requests.append(request)
            script, number = self._script, self._number
            self._number += 1
            is_last = self._number == self._last
        if is_last:
            self._shut()
        return script(number, request) if script is not None else None

    def wait(self, seconds: float) -> bool:
        """Wait so long; return whether the script or the relay ended before."""
        return self._free.wait(seconds)

    def _shut(self) -> None:
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()

    @staticmethod
    def _serve(listener: _Listener) -> None:
        threading.Thread(
            target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = UPSTREAM_SECONDS
    server: _Listener

    def do_GET(self) -> None:
        self.close_connection = True
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = self._chunked()
        elif len(body) < length:
            return
        relay = self.server.relay
        asked = RelayedRequest(self.command, self.path, dict(self.headers.items()), body)
        fault = relay.taken(asked)
        if fault is None:
            self._pass_on(asked, None)
            return
        if fault.seconds:
            relay.wait(fault.seconds)
        if fault.trickles:
            self._trickle()
        if fault.delivered or fault.cut:
            self._pass_on(asked, fault)
        if fault.status:
            self._say(fault.status, fault.body, fault.headers)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def _chunked(self) -> bytes:
        body = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _pass_on(self, asked: RelayedRequest, fault: RelayFault | None) -> None:
        """Ask the cloud, and give its answer to the adapter unless it is lost."""
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=UPSTREAM_SECONDS)
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in HOP}
        headers |= {"Accept-Encoding": "identity", "Connection": "close"}
        try:
            upstream.request(asked.method, asked.target, asked.body or None, headers)
            answer = upstream.getresponse()
            if fault is not None and fault.delivered:
                answer.read()
                return
            self._give(answer, cut=fault is not None and fault.cut)
        except (http.client.HTTPException, OSError):
            return  # the double gave no answer, or the adapter has gone
        finally:
            upstream.close()

    def _give(self, answer: http.client.HTTPResponse, *, cut: bool) -> None:
        relay, length = self.server.relay, answer.getheader("Content-Length")
        if cut or relay.rewrite is not None:
            body = answer.read()
            whole = relay.rewrite(answer.status, body) if relay.rewrite else body
            self._begin(answer, str(len(whole)))
            self.wfile.write(whole[: len(whole) // 2] if cut else whole)
            self.wfile.flush()
            return
        self._begin(answer, length)
        while chunk := answer.read1(1 << 16):
            self.wfile.write(chunk)
            self.wfile.flush()

    def _trickle(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-More: ")
            while not self.server.relay.wait(TRICKLE):
                self.wfile.write(b".")
                self.wfile.flush()

    def _begin(self, answer: http.client.HTTPResponse, length: str | None) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", length)
        self.send_header("Connection", "close")
        self.end_headers()

    def _say(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        with suppress(OSError, socket.timeout):
            self.send_response_only(status)
            for name, value in {"Content-Type": "text/html", **headers}.items():
                self.send_header(name, value)
            if status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
