"""The supervisor: runs the agent in a child process, and starts it again if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path

from ..agent import Agent, archive_hash
from ..system import become_last_oom_victim

assert sys.platform != "win32", "the agent runs on machines with POSIX"

FIRST_PAUSE = 0.5
LAST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""An agent that ran for so long is started again without a growing pause."""
MOST_FAILURES = 5
"""So many agents in a row may end before their first look at the guards."""
STUCK_SECONDS = 300.0
"""An agent that looked at no guard for so long guards nothing; it looks every 5 s."""
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
        self._runs = 0
        self._is_healthy = False

    def run(self, told: int) -> int:
        """Supervise until the agent ends because it was told to.

        Parameters
        ----------
        told
            The open file on which the first agent says that it listens, or why it does not;
            negative where nobody wants to know.

        Returns
        -------
        int
            1 if no agent could be started: those who wait for the lock try it anew, from the disk.
        """
        become_last_oom_victim()
        archive_hash(self._archive)
        # Not SIG_IGN, which jobs would inherit. The agent is told of its end, and tells by its own.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _ignore)
        pause, failures = FIRST_PAUSE, 0
        while failures < MOST_FAILURES:
            born = time.monotonic()
            status = self._run_child(told)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
                return 0
            told, self._runs = -1, self._runs + 1
            failures = 0 if self._is_healthy else failures + 1
            is_steady = time.monotonic() - born > STEADY_SECONDS
            pause = FIRST_PAUSE if is_steady else min(LAST_PAUSE, pause * 2)
            at = time.strftime("%FT%TZ", time.gmtime())
            print(f"{at} the agent ended (status {status}); starting it again", flush=True)
            time.sleep(pause)
        return 1

    def _run_child(self, told: int) -> int:
        """Run one agent to its end; return its status. One that is stuck is ended."""
        self._is_healthy = False
        heard, beat = os.pipe()
        try:
            child = os.fork()
        except OSError:  # no memory, or too many processes: later
            traceback.print_exc()
            os.close(heard)
            os.close(beat)
            return FORK_FAILED
        if child == 0:
            os.close(heard)
            os._exit(self._work(told, beat))
        os.close(beat)
        if told >= 0:
            os.close(told)
        while True:
            if not select.select([heard], [], [], STUCK_SECONDS)[0]:
                print(f"the agent looked at no guard for {STUCK_SECONDS:.0f} s", flush=True)
                os.kill(child, signal.SIGKILL)
                break
            if not os.read(heard, 4096):
                break
            self._is_healthy = True
        os.close(heard)
        return os.waitpid(child, 0)[1]

    def _work(self, told: int, beat: int) -> int:
        """Run one agent in the child; return its exit code."""
        listening = [told] if told >= 0 else []

        def ready(trouble: str) -> None:
            if listening:
                with contextlib.suppress(OSError):
                    os.write(told, trouble.encode() or READY)
                os.close(listening.pop())

        os.set_blocking(beat, False)

        def looked() -> None:
            with contextlib.suppress(OSError):  # full, or the supervisor is gone
                os.write(beat, b".")

        async def run() -> None:
            is_restart = self._runs > 0
            is_boot = self._is_boot and not is_restart
            agent = Agent(self._folder, self._umask, self._archive, is_restart, is_boot)
            agent.watch.on_look = looked
            await agent.run(ready)

        try:
            asyncio.run(run())
        except BaseException:
            traceback.print_exc()
            if listening:
                with contextlib.suppress(OSError):
                    os.write(told, traceback.format_exc().strip().splitlines()[-1].encode())
            return 1
        return 0


def _ignore(number: int, frame: object) -> None:
    return
