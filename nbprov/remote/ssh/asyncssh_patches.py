"""How asyncssh's bytes flow, mended: packets leave together, no empty ones do, and what a machine sends ahead of its reader is bounded.

Both reach into asyncssh. Where a later version has other insides, nothing is touched, and only speed or a bound is lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncssh

IGNORE = 2
"""`SSH_MSG_IGNORE` (RFC 4253)."""
TOGETHER = 256 * 1024
"""Bytes handed to the system at once: eight of ssh's largest packets."""
LEAST_GRANT = 4
"""A machine may go on once this part of a window is free."""
MOST_PIECES = 1024
"""Packets that wait for a reader, above which nothing is granted: a machine that sends single bytes must not have them counted over and over."""


class Together:
    """A transport that hands over what is written within one turn of the loop in one piece.

    asyncssh hands over each packet by a call of its own, 32 kB at most: with them a large file costs the system half as much again.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pieces: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this, at the end of this turn of the loop at the latest."""
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= TOGETHER:
            self._flush()

    def close(self) -> None:
        """Send what waits, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces:
            self._transport.write(b"".join(pieces))


def send_together(connection: asyncssh.SSHClientConnection) -> None:
    """Let a fresh connection send its packets together, and no empty one before each.

    asyncssh guards ciphers of the CBC mode with those, whatever the cipher is; connections of ours never use one of that mode.
    """
    inside: Any = connection
    if hasattr(getattr(inside, "_transport", None), "write"):
        inside._transport = Together(inside._transport, asyncio.get_running_loop())
    send = inside.send_packet

    def send_packet(kind: int, *content: bytes, **more: Any) -> None:
        if kind != IGNORE:
            send(kind, *content, **more)

    inside.send_packet = send_packet


def bound(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Keep what a machine sends ahead of the reader of a channel to two windows, by default of 2 MB each.

    A channel whose reader goes on after a pause grants a whole new window at the first packet, whatever waits behind that one, so more waits each time:
    of a file of 400 MB that came faster than it was written 190 MB were held.
    """
    channel: Any = process.channel
    if not all(
        hasattr(channel, name)
        for name in ("_deliver_data", "_init_recv_window", "_recv_window", "_recv_buf")
    ):
        return
    window, deliver = channel._init_recv_window, channel._deliver_data

    def counted(data: bytes, datatype: Any) -> None:
        if channel._recv_window >= window / 2:
            deliver(data, datatype)  # it grants nothing yet
            return
        is_many = len(channel._recv_buf) > MOST_PIECES
        waiting = window if is_many else sum(len(piece) for piece, _ in channel._recv_buf)
        room = window - waiting
        # What is granted goes up to this figure; with 0 nothing is, as each grant is a message of its own.
        channel._init_recv_window = (
            room if not waiting or room - channel._recv_window >= window // LEAST_GRANT else 0
        )
        try:
            deliver(data, datatype)
        finally:
            channel._init_recv_window = window

    channel._deliver_data = counted
