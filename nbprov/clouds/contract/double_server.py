"""The server of a double on loopback: whole requests in, whole answers out."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

CONTROL = "/_double/"
"""The beginning of the paths with which a test controls a double in another process."""
OPEN_SECONDS = 30.0
"""How long an answer without an end stays open."""


class HangUp(Exception):
    """There is no answer: the connection is closed."""


@dataclass(frozen=True)
class DoubleRequest:
    """A request as it arrived; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes = b""

    @cached_property
    def body(self) -> Any:
        """The document that was sent; None if there is none, or it is not JSON."""
        try:
            return json.loads(self.raw) if self.raw else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class DoubleAnswer:
    """An answer.

    Attributes
    ----------
    cut
        So many bytes of the body are sent before the connection breaks.
    until
        Keeps the connection open until this event, as an answer without an end does.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    until: threading.Event | None = None


def json_answer(
    status: int, document: Any, headers: Mapping[str, str] | None = None
) -> DoubleAnswer:
    """Return an answer with a document; None is an empty body."""
    body = b"" if document is None else json.dumps(document, default=str).encode()
    return DoubleAnswer(status, body, {"Content-Type": "application/json", **(headers or {})})


class DoubleServer(ThreadingHTTPServer):
    """A server that answers by a function.

    Parameters
    ----------
    answer
        Answers one request, in a thread of its connection. It may raise `HangUp`.
    failed
        Is told in words what went wrong in the double itself.
    control
        Answers control requests with a document, given method, name and body.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        answer: Callable[[DoubleRequest], DoubleAnswer],
        failed: Callable[[str], None],
        *,
        port: int = 0,
        control: Callable[[str, str, Any], Any] | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._answer, self._failed, self._control = answer, failed, control
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Serve in a thread, until `close`."""
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self) -> None:
        """End it; what is being answered goes on."""
        self.shutdown()
        self.server_close()

    def answered(self, asked: DoubleRequest) -> DoubleAnswer:
        """Answer a request; an error of the double is an answer and a problem."""
        try:
            if self._control is not None and asked.path.startswith(CONTROL):
                name = asked.path.removeprefix(CONTROL)
                return json_answer(200, self._control(asked.method, name, asked.body))
            return self._answer(asked)
        except HangUp:
            raise
        except Exception as error:
            words = f"the double failed: {type(error).__name__}: {error}"
            self._failed(words)
            return json_answer(500, {"error": words})

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that went away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._failed(f"the double failed: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # unbuffered, each answer of a kept connection waits 40 ms for a delayed ACK
    server: DoubleServer

    def do_GET(self) -> None:
        raw = self.rfile.read(length := int(self.headers.get("Content-Length") or 0))
        if len(raw) < length:
            # The client was killed in the middle: no server carries out half a request.
            self.close_connection = True
            return
        parts = urlsplit(self.path)
        asked = DoubleRequest(
            self.command,
            parts.path,
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            raw,
        )
        try:
            self._send(self.server.answered(asked))
        except HangUp:
            self.close_connection = True

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def _send(self, answer: DoubleAnswer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.until is None and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.close_connection |= answer.cut is not None or answer.until is not None
        self.end_headers()
        self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])
        self.wfile.flush()
        if answer.until is not None:
            answer.until.wait(OPEN_SECONDS)
