"""A web server of files on loopback, with the faults that downloads meet.

Cuts, wrong lengths, refusals, redirects, versions.

    server = FilesDouble(); server.files["/x"] = b"…"; server.url + "/x"; server.close()

Answers `Range` with `If-Range`, `If-None-Match` and `If-Match` as RFC 9110 says. What was asked
stands in `seen`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Asked:
    """A recorded request."""

    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0


@dataclass
class FilesDouble:
    """The server."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    """By path, done in this order: `cut:N` (after N bytes), `long:N` (announces N more), `more` (no
    length, closed), `chunked`, `norange`, `wrongrange`, `redirect:URL`, or a status."""
    before: Callable[[str], None] = lambda path: None
    seen: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()})
                double.seen.append(asked)
                double.before(self.path)
                double.answer(self, asked)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def asked(self, path: str) -> list[Asked]:
        """The requests for one path."""
        return [one for one in self.seen if one.path == path]

    def answer(self, http: BaseHTTPRequestHandler, asked: Asked) -> None:
        """Answer a request, with the next fault of its path."""
        waiting = self.faults.get(asked.path, [])
        fault, _, detail = (waiting.pop(0) if waiting else "").partition(":")
        content = self.files.get(asked.path)
        if fault.isdigit() or content is None:
            asked.status = int(fault or 404)
            http.send_response(asked.status)
            http.send_header("Content-Length", "0")
            http.end_headers()
            return
        if fault == "redirect":
            asked.status = 302
            http.send_response(302)
            http.send_header("Location", f"{detail}")
            http.send_header("Content-Length", "0")
            http.end_headers()
            return
        self._send(http, asked, content, fault, detail)

    def _send(
        self, http: BaseHTTPRequestHandler, asked: Asked, content: bytes, fault: str, detail: str
    ) -> None:
        etag = '"' + hashlib.blake2b(content, digest_size=8).hexdigest() + '"'
        if asked.headers.get("if-none-match") == etag:
            asked.status = 304
            http.send_response(304)
            http.end_headers()
            return
        asked.status, first = 200, 0
        wanted = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("range", ""))
        if wanted and fault != "norange" and asked.headers.get("if-range", etag) == etag:
            asked.status, first = 206, int(wanted[1])
            if first >= len(content):
                http.send_response(416)
                http.send_header("Content-Length", "0")
                http.end_headers()
                return
        part = content[first:]
        http.send_response(asked.status)
        http.send_header("ETag", etag)
        if fault not in ("more", "chunked"):
            http.send_header(
                "Content-Length", str(len(part) + (int(detail) if fault == "long" else 0))
            )
        if fault == "chunked":
            http.send_header("Transfer-Encoding", "chunked")
            part = b"%x\r\n%s\r\n0\r\n\r\n" % (len(part), part)
        if asked.status == 206:
            begins = first + (1 if fault == "wrongrange" else 0)
            http.send_header("Content-Range", f"bytes {begins}-{len(content) - 1}/{len(content)}")
        http.end_headers()
        part = part[: int(detail)] if fault == "cut" else part
        try:
            http.wfile.write(part)
            http.wfile.flush()
        except OSError:
            return
        asked.sent = len(part)
        if fault in ("cut", "long", "more"):
            http.close_connection = True
