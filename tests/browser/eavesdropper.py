"""A server of this computer that notes who reaches it: any request or connection is a leak."""

from __future__ import annotations

import socket
import socketserver
import threading
from types import TracebackType


class Eavesdropper:
    """A listener on loopback.

    Attributes
    ----------
    heard
        The first bytes of each connection, which of HTTP hold the path and the cookies.
    """

    def __init__(self) -> None:
        self.heard: list[str] = []
        heard = self.heard

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.settimeout(5)
                try:
                    heard.append(self.request.recv(4096).decode("latin-1"))
                    self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    heard.append("")

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
        assert self.heard.pop() == "hello"
