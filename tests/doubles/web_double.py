"""A scripted web server on loopback that records its requests."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from addresses import claim

PIECE = 1 << 16


@dataclass(frozen=True)
class Asked:
    """One request as it arrived.

    `query` holds the first value of each name; header names are in lower case.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Decode the body as JSON."""
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        """Decode the body as a form."""
        return {
            name: values[0]
            for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()
        }


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes
    ----------
    body
        The bytes, or an iterable of pieces (then `chunked`, unless `headers` has a Content-Length).
    chunked
        Sent in chunks, without a Content-Length.
    cut
        Break the connection after so many bytes of the body, against what was announced: a short
        body, or a torn chunk where `chunked`.
    hold, hold_after
        Send so many bytes of the body, then wait for the event before the rest goes out.
    ranges
        Honour `Range` (and `If-Range`) with 206.
    hang_up
        Close the connection without a word.
    """

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False
    cut: int | None = None
    hold: threading.Event | None = None
    hold_after: int = 0
    ranges: bool = False
    hang_up: bool = False

    def with_(self, **changes: Any) -> Answer:
        """Return the answer with other attributes."""
        return replace(self, **changes)


def json_answer(value: Any, status: int = 200, **more: Any) -> Answer:
    """Return an answer with a value as JSON."""
    headers = {"Content-Type": "application/json", **more.pop("headers", {})}
    return Answer(status, json.dumps(value).encode(), headers, **more)


def text_answer(text: str, status: int = 200, **more: Any) -> Answer:
    """An answer of plain text."""
    headers = {"Content-Type": "text/plain; charset=utf-8", **more.pop("headers", {})}
    return Answer(status, text.encode(), headers, **more)


def busy(
    status: int = 429, *, retry_after: str | int | None = None, words: str = "slow down"
) -> Answer:
    """Return a temporary refusal: 429, or a 5xx."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return json_answer({"error": {"message": words}}, status, headers=headers)


Where = str | re.Pattern[str] | Callable[[Asked], bool]
Reply = Answer | Callable[[Asked], Answer]


class WebDouble:
    """The server.

    Routes that are set later go before earlier ones; of several answers of one route the last is
    repeated.

    What a route's function raises, an assertion about the request for one, is raised again where
    the server is left.

    Examples
    --------
    >>> with WebDouble() as web:
    ...     web.on("/sizes", busy(429, retry_after=1), json_answer([1, 2]))
    ...     Http(pause=pauses.append).json(web.url("/sizes")), len(web.asked), pauses
    ([1, 2], 2, [1.0])
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.unexpected: list[Asked] = []
        self.faults: list[Exception] = []
        self.arrived = threading.Condition()
        self._routes: list[tuple[Where, list[Reply]]] = []
        self._closing = threading.Event()
        self._server = _new_server()
        self._server.web = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> WebDouble:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self.faults and kind is None:
            raise self.faults[0]

    def url(self, path: str = "") -> str:
        """Return the address of a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def on(self, where: Where, *replies: Reply) -> None:
        """Answer matching requests with these replies, in turn.

        `where` is an exact path, a pattern for the whole path, or a function of the request.
        """
        self._routes.insert(0, (where, list(replies)))

    def wait_for(self, requests: int, timeout: float = 10.0) -> None:
        """Wait until this many requests have arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.asked) >= requests, timeout), (
                f"{len(self.asked)} of {requests} requests came"
            )

    def paths(self) -> list[str]:
        """Return the requested paths, in order."""
        return [asked.path for asked in self.asked]

    def reply(self, asked: Asked) -> Answer:
        """Record the request and return its answer."""
        with self.arrived:
            self.asked.append(asked)
            self.arrived.notify_all()
            for where, replies in self._routes:
                if _matches(where, asked):
                    reply = replies.pop(0) if len(replies) > 1 else replies[0]
                    break
            else:
                self.unexpected.append(asked)
                return json_answer(
                    {"error": {"message": f"no route for {asked.method} {asked.path}"}}, 404
                )
        return reply if isinstance(reply, Answer) else reply(asked)

    def held(self, event: threading.Event) -> None:
        """Wait for an event, or for the end of the double."""
        while not event.wait(0.02) and not self._closing.is_set():
            pass


def _matches(where: Where, asked: Asked) -> bool:
    if isinstance(where, str):
        return where == asked.path
    if isinstance(where, re.Pattern):
        return where.fullmatch(asked.path) is not None
    return where(asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    web: WebDouble

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""


def _new_server() -> _Server:
    made = _Server(("127.0.0.1", 0), _Handler)
    if claim(made.server_address[1]):
        return made
    try:
        return _new_server()
    finally:
        made.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        asked = Asked(self.command, parts.path, query, headers, body)
        self._send(asked, self._reply(asked))

    def _reply(self, asked: Asked) -> Answer:
        """Return the answer; an error of the script is kept and raised at the end of the test."""
        try:
            return self.server.web.reply(asked)
        except Exception as error:
            self.server.web.faults.append(error)
            return json_answer({"error": {"message": f"the double failed: {error!r}"}}, 500)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def _send(self, asked: Asked, answer: Answer) -> None:
        if answer.hang_up:
            self.close_connection = True
            return
        if answer.ranges:
            answer = _ranged(asked, answer)
        whole = answer.body if isinstance(answer.body, bytes) else None
        headers = {name.lower(): value for name, value in answer.headers.items()}
        chunked = answer.chunked or (whole is None and "content-length" not in headers)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif (
            whole is not None
            and "content-length" not in headers
            and answer.status not in (204, 304)
        ):
            self.send_header("Content-Length", str(len(whole)))
        if answer.cut is not None:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if answer.status in (204, 304):
            return
        sent = 0
        for piece in self._pieces(answer):
            room = None if answer.cut is None else answer.cut - sent
            torn = room is not None and room <= len(piece)
            part = piece[:room] if torn else piece
            self.wfile.write(
                (f"{len(piece):x}\r\n".encode() + part + (b"" if torn else b"\r\n"))
                if chunked
                else part
            )
            self.wfile.flush()
            sent += len(part)
            if torn:
                return
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _pieces(self, answer: Answer) -> Iterator[bytes]:
        pieces = [answer.body] if isinstance(answer.body, bytes) else answer.body
        if answer.hold is not None:
            whole = b"".join(pieces)
            if answer.hold_after:
                yield whole[: answer.hold_after]
            self.server.web.held(answer.hold)
            pieces = [whole[answer.hold_after :]]
        for piece in pieces:
            for start in range(0, len(piece), PIECE):
                yield piece[start : start + PIECE]


def _ranged(asked: Asked, answer: Answer) -> Answer:
    """Return the part that `Range: bytes=N-` requests, if the document has not changed."""
    found = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("range", ""))
    wanted = asked.headers.get("if-range", "")
    if (
        not found
        or not isinstance(answer.body, bytes)
        or (wanted and wanted not in answer.headers.values())
    ):
        return answer
    start, size = int(found[1]), len(answer.body)
    headers = {**answer.headers, "Content-Range": f"bytes {start}-{size - 1}/{size}"}
    return answer.with_(status=206, body=answer.body[start:], headers=headers)
