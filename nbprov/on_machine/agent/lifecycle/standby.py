"""The standby: a process that waits at the agent's lock, to bring it back if it is killed.

The agent watches it, as the supervisor watches the agent: whichever is left brings the others back.
It is a loop of sh, so that it outlives what ends every Python.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from .locks import STANDBY_LOCK, open_lock, take_lock
from .start_file import write_start

FIRST_SECONDS = 3.0
"""After the agent's start: a machine that is used for a moment needs none."""
LOOP = 'while :; do sh "$0"; sleep 2; done'


class Standby:
    """Sees to it that somebody waits at the lock: the boot guard, or a process of our own.

    Parameters
    ----------
    umask, archive
        For the `start` file, which is written anew where it is missing.
    """

    def __init__(self, folder: Path, umask: int, archive: str) -> None:
        self._folder, self._umask, self._archive = str(folder), umask, archive
        self._process: subprocess.Popen[Any] | None = None
        self._since = time.monotonic()

    def check(self) -> None:
        """Start a standby where there is none.

        Raises
        ------
        OSError
            If that does not work now.
        """
        if not self._archive or time.monotonic() - self._since < FIRST_SECONDS:
            return
        start = os.path.join(self._folder, "start")
        if not os.path.exists(start):
            write_start(self._folder, self._umask, self._archive)
        if self._process is not None and self._process.poll() is None:
            return
        lock = open_lock(self._folder, STANDBY_LOCK)
        try:
            if not take_lock(lock):
                return
        finally:
            os.close(lock)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", LOOP, start],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
