"""The bridge: joins an ssh channel's stdin and stdout to the agent's socket.

Its start is part of every connection to a machine, so it imports little.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from .framing import pack

SOCKET = "agent.sock"
NOT_RUNNING = 3
"""The exit code where no agent listens."""
READ_BYTES = 256 * 1024


def connect(folder: str) -> int:
    """Copy bytes both ways until either side ends, and return the exit code."""
    channel = socket.socket(socket.AF_UNIX)
    try:
        # A socket's path may have only about 100 bytes, so it is named relative to its folder.
        os.chdir(folder)
        channel.connect(SOCKET)
    except OSError as error:
        print(f"nbprov agent: not running in {folder}: {error}", file=sys.stderr)
        return NOT_RUNNING
    channel.sendall(pack({"op": "bridge", "session": os.getsid(0)}))
    threading.Thread(target=_copy_in, args=(channel,), daemon=True).start()
    _copy_out(channel)
    return 0


def _copy_in(channel: socket.socket) -> None:
    try:
        while True:
            data = os.read(0, READ_BYTES)
            if not data:
                break
            channel.sendall(data)
    except OSError:
        pass  # the agent has gone; the other direction sees it too
    try:
        channel.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _copy_out(channel: socket.socket) -> None:
    try:
        while True:
            data = channel.recv(READ_BYTES)
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    except OSError:
        return
