"""The supervisor: runs the agent in a child process, and starts it again if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from .agent import Agent, archive_hash
from .system import become_last_oom_victim

assert sys.platform != "win32", "the agent runs on machines with POSIX"

FIRST_PAUSE = 0.5
LAST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""An agent that ran for so long is started again without a growing pause."""
FORK_FAILED = 1 << 8
"""The status of an agent that could not be started: as if it had ended with exit code 1."""
READY = b"ready"
"""What the first agent writes once it listens."""


class AgentSupervisor:
    """Runs the agent in a child process, and starts it again if it dies.

    A machine without its agent has no guards.
    """

    def __init__(self, folder: str, umask: int, archive: str, is_boot: bool) -> None:
        self._folder, self._umask, self._archive = Path(folder), umask, archive
        self._is_boot = is_boot
        self._child = 0
        self._is_ending = False

    def run(self, told: int) -> int:
        """Supervise until the agent ends by itself or is told to end.

        Parameters
        ----------
        told
            The open file on which the first agent says that it listens, or why it does not.
        """
        become_last_oom_victim()
        archive_hash(self._archive)
        signal.signal(signal.SIGTERM, self._forward)
        pause = FIRST_PAUSE
        while not self._is_ending:
            born = time.monotonic()
            status = self._run_child(told)
            told = -1
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
                return 0
            is_steady = time.monotonic() - born > STEADY_SECONDS
            pause = FIRST_PAUSE if is_steady else min(LAST_PAUSE, pause * 2)
            at = time.strftime("%FT%TZ", time.gmtime())
            print(f"{at} the agent ended (status {status}); starting it again", flush=True)
            time.sleep(pause)
        return 0

    def _run_child(self, told: int) -> int:
        try:
            self._child = os.fork()
        except OSError:  # no memory, or too many processes: later
            traceback.print_exc()
            return FORK_FAILED
        if self._child == 0:
            os._exit(self._work(told))
        if told >= 0:
            os.close(told)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return status

    def _forward(self, number: int, frame: object) -> None:
        self._is_ending = True
        if self._child:
            os.kill(self._child, number)

    def _work(self, told: int) -> int:
        """Run one agent in the child; return its exit code."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

        listening = [told] if told >= 0 else []

        def ready(trouble: str) -> None:
            if listening:
                with contextlib.suppress(OSError):
                    os.write(told, trouble.encode() or READY)
                os.close(listening.pop())

        async def run() -> None:
            is_restart = told < 0
            is_boot = self._is_boot and not is_restart
            await Agent(self._folder, self._umask, self._archive, is_restart, is_boot).run(ready)

        try:
            asyncio.run(run())
        except BaseException:
            traceback.print_exc()
            if listening:
                with contextlib.suppress(OSError):
                    os.write(told, traceback.format_exc().strip().splitlines()[-1].encode())
            return 1
        return 0
