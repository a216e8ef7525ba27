"""A lock that allows one refresh of a cloud at a time, over all kernels of a user.

It is the operating system's lock on an open file, which is freed the moment its holder dies,
however it dies. A lease file with a heartbeat would need a thread for the heartbeat, a time to wait
after a kill, and clocks that agree.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbprov.clouds.web.client import Stopped
from nbprov.model.clock import Seconds
from nbprov.model.paths import make_folder

WAIT_SECONDS: Seconds = 60.0
"""How long a refresh waits for another kernel's refresh.

Hosted lists take seconds; a slower refresh will be done by the next question.
"""
POLL_SECONDS: Seconds = 0.1
"""How often a taken lock is tried again.

The delay is too short for a person to notice, and far longer than a try takes.
"""


class LeaseHeld(Exception):
    """Another process has held the lock for longer than this one waits."""


@contextmanager
def lease(
    path: Path, *, stop: threading.Event, waiting: Callable[[], object] = lambda: None
) -> Iterator[bool]:
    """Hold the lock of `path` for the length of a `with` block.

    Yields whether the lock had to be waited for; if so, another process has just done the same
    work.

    Raises
    ------
    Held
        If somebody else holds it for longer than `WAIT_SECONDS`.

    Parameters
    ----------
    stop
        Ends the waiting: `Stopped` is raised.
    waiting
        Called once, if the lock is taken.
    """
    make_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        waited, end = False, time.monotonic() + WAIT_SECONDS
        while not _try(handle):
            if not waited:
                waited = True
                waiting()
            if time.monotonic() > end:
                raise LeaseHeld
            if stop.wait(POLL_SECONDS):
                raise Stopped
        try:
            yield waited
        finally:
            _free(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _try(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _free(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _free(handle: int) -> None:
        # Unlock explicitly: a process that was forked meanwhile holds the same open file.
        fcntl.flock(handle, fcntl.LOCK_UN)
