"""The locks of the agent's folder. Whoever has the agent's lock runs the agent."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

assert sys.platform != "win32", "the agent runs on machines with POSIX"

AGENT_LOCK = "agent.lock"
"""Held by the supervisor and its agent."""
STANDBY_LOCK = "standby.lock"
"""Held by the first of those that wait for the agent's lock."""


def open_lock(folder: str, name: str) -> int:
    """Open a lock of the agent's folder."""
    path = os.path.join(folder, name)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return os.open(path, os.O_RDONLY)  # on a disk that can only be read it locks as well


def take_lock(lock: int) -> bool:
    """Take a lock, for as long as it is open here or in a child; False if another has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True
