"""A server of this computer that notes who reaches it."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from types import TracebackType

LINE_SECONDS = 5.0
"""How long a client may take to send its first line."""


class Eavesdropper:
    """A listener on loopback.

    Attributes
    ----------
    connections
        How often somebody connected.
    requests
        What they sent first, which in HTTP holds the path and the cookies.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []
        own = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                own.connections += 1
                self.request.settimeout(LINE_SECONDS)
                with contextlib.suppress(OSError):
                    own.requests += filter(None, [self.request.recv(4096).decode("latin-1")])
                    self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> Eavesdropper:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def check_it_hears(self) -> None:
        """Make one connection, which is heard and forgotten."""
        with socket.create_connection(self._server.server_address[:2]) as line:
            line.sendall(b"hello")
            assert line.recv(4).startswith(b"HTTP")
        assert (self.connections, self.requests) == (1, ["hello"])
        self.connections = 0
        self.requests.clear()
