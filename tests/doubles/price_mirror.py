"""A loopback server of hosted v8 price files, with tags, 304, 404, 429, 5xx, and short or hanging
bodies.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

Behaviour = Callable[["Handler", "File"], None]
"""Answers one request in another way than with the file."""


@dataclass
class File:
    """The hosted file of one cloud, and the behaviours of its next requests (the last one
    stays).
    """

    data: bytes = b""
    behaviours: list[Behaviour] = field(default_factory=list)

    @property
    def etag(self) -> str:
        """The tag that S3 would give it."""
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class Mirror:
    """The server: `files` by cloud may be changed at any time.

    `asked` is every request with its headers.
    """

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.held = threading.Event()
        self.release = threading.Event()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.mirror = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    @property
    def base(self) -> str:
        """The address of this server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def address(self) -> str:
        """The address of a cloud's file, `{cloud}` in it."""
        return self.base + "/v8/{cloud}/vms.csv"

    def host(self, cloud: str, text: str, *behaviours: Behaviour) -> File:
        """Host a file; answer its next requests with these behaviours."""
        self.files[cloud] = File(text.encode(), list(behaviours))
        return self.files[cloud]

    def requests(self, cloud: str) -> list[dict[str, str]]:
        """The headers of each request for a cloud's file."""
        return [headers for path, headers in self.asked if path == f"/v8/{cloud}/vms.csv"]

    def close(self) -> None:
        """Release hanging requests, and end."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    mirror: Mirror

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up, as some tests do."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        mirror = self.server.mirror
        mirror.asked.append((self.path, dict(self.headers.items())))
        parts = self.path.strip("/").split("/")
        file = mirror.files.get(parts[1]) if len(parts) == 3 and parts[0] == "v8" else None
        if file is None:
            status(404)(self, File())
            return
        behaviour = file.behaviours[0] if file.behaviours else whole
        if len(file.behaviours) > 1:
            file.behaviours.pop(0)
        behaviour(self, file)

    def answer(
        self,
        code: int,
        body: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        length: int | None = None,
    ) -> None:
        """Send an answer; `length` is its announced length."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None and length != len(body):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


def whole(handler: Handler, file: File) -> None:
    """The file, or 304 where the client has it."""
    if handler.headers.get("If-None-Match") == file.etag:
        handler.send_response(304)
        handler.send_header("ETag", file.etag)
        handler.end_headers()
        return
    handler.answer(200, file.data, {"ETag": file.etag})


def untagged(handler: Handler, file: File) -> None:
    """Send the file without validators."""
    handler.answer(200, file.data)


def status(code: int, retry_after: str = "") -> Behaviour:
    """A refusal."""

    def answer(handler: Handler, file: File) -> None:
        handler.answer(code, b"no", {"Retry-After": retry_after} if retry_after else {})

    return answer


def torn(at: int) -> Behaviour:
    """Send the beginning of the file, and close the connection."""

    def answer(handler: Handler, file: File) -> None:
        handler.answer(200, file.data[:at], {"ETag": file.etag}, length=len(file.data))

    return answer


def short(at: int) -> Behaviour:
    """Send the beginning of the file as if it were all: like a proxy with half a file in its
    cache.
    """

    def answer(handler: Handler, file: File) -> None:
        handler.answer(200, file.data[:at], {"ETag": file.etag})

    return answer


def hanging(handler: Handler, file: File) -> None:
    """Send half of the file, and no more until the mirror ends."""
    mirror = handler.server.mirror
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(file.data)))
    handler.end_headers()
    half = len(file.data) // 2
    handler.wfile.write(file.data[:half])
    handler.wfile.flush()
    mirror.held.set()
    mirror.release.wait()
    handler.wfile.write(file.data[half:])


@contextmanager
def mirror() -> Iterator[Mirror]:
    """A mirror for a while."""
    made = Mirror()
    try:
        yield made
    finally:
        made.close()
