"""Bound what asyncssh holds in memory of what a machine sends ahead of its reader.

This reaches into asyncssh 2.24, which has no setting for it: without it, a pull of a file of 400 MB
held 200 to 250 MB more, with it 20 MB (over loopback). Where a later version has other names for
these attributes, nothing is patched and only the bound is lost; a test says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncssh

LEAST_GRANT = 4
"""A machine may go on once this part of a window is free."""
MOST_PIECES = 1024
"""Packets that wait for a reader, above which nothing is granted.

A machine that sends single bytes must not have them counted over and over.
"""


def bound(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Keep what a machine sends ahead of the reader of a channel to two windows.

    asyncssh grants a whole new window at the first packet after a pause of the reader, whatever
    waits behind that packet, so more waits after each pause.
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
        # asyncssh grants up to this figure. With 0 it grants nothing, as each grant is a message of
        # its own.
        channel._init_recv_window = (
            room if not waiting or room - channel._recv_window >= window // LEAST_GRANT else 0
        )
        try:
            deliver(data, datatype)
        finally:
            channel._init_recv_window = window

    channel._deliver_data = counted
