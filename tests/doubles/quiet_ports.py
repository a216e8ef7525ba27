"""Ports for the servers of tests."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port outside the system's own range, so that nobody takes it before it is used."""
    while True:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind) as probe:
            probe.bind(("127.0.0.1", random.randint(12000, 20000)))
            return int(probe.getsockname()[1])
