"""Listening sockets on this computer's loopback address."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Collection, Iterator

from nbprov.model.errors import NbprovError

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
FIRST_FREE_FOR_ALL = 1024
"""Lower ports belong to the administrator on most systems."""
ABOVE = 8000
"""Added to a port that belongs to the administrator: 80 becomes 8080."""
TRIES = 100
"""Numbers to try one after the other before the system chooses one."""
BACKLOG = 100
"""Connections that may wait to be accepted; asyncio's default."""

_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class PortTaken(NbprovError):
    """The requested port is in use on this computer."""

    code = "tunnel.port-taken"


def listen_near(port: int, *, avoid: Collection[int] = ()) -> socket.socket:
    """Listen on 127.0.0.1 at this port, or at the next free one.

    Parameters
    ----------
    avoid
        Ports that must not be used.

    Raises
    ------
    OSError
        If no port is free.
    """
    for number in _numbers(port):
        if number not in avoid:
            try:
                return _listen(number)
            except OSError:
                continue
    return _listen(0)


def listen_on(port: int) -> socket.socket:
    """Listen on 127.0.0.1 at exactly this port.

    Raises
    ------
    PortTaken
        If it cannot be used.
    """
    try:
        return _listen(port)
    except OSError as error:
        raise PortTaken(
            f"port {port} of this computer cannot be used: {error.strerror or error}",
            hint="leave --local out to take the next free one",
        ) from error


def _numbers(port: int) -> Iterator[int]:
    yield port
    start = port + ABOVE if port < FIRST_FREE_FOR_ALL else port + 1
    yield from range(start, min(start + TRIES, LAST_PORT + 1))


def _listen(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        _claim(made, LOOPBACK, port)
        _refuse_where_others_answer(made.getsockname()[1])
        made.listen(BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _refuse_where_others_answer(port: int) -> None:
    """Raise OSError if a browser sent to `localhost` might reach another program on this port.

    Browsers try ::1 first, and macOS lets a program take one address beside a program that
    listens on all.
    """
    others = [(socket.AF_INET6, "::1")] + (
        [(socket.AF_INET, "0.0.0.0")] if str(sys.platform) == "darwin" else []
    )
    for family, host in others:
        try:
            trial = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # this computer has no IPv6
        with trial:
            try:
                _claim(trial, host, port)
            except OSError as error:
                if error.errno in _NO_SUCH_ADDRESS:
                    continue
                raise


def _claim(made: socket.socket, host: str, port: int) -> None:
    # On Windows SO_REUSEADDR would let two programs share a port; elsewhere it only ignores
    # connections that are closed already.
    option = (
        socket.SO_REUSEADDR if os.name == "posix" else getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
    )
    if option is not None:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind((host, port))
