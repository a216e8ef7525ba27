"""The agent's daemon: it is started once a machine, and started again if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import select
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path

from . import ARCHIVE_PREFIX
from .agent import Agent
from .system import become_last_oom_victim

assert sys.platform != "win32"

AT_BOOT = "NBPROV_AT_BOOT"
"""Set by the `start` file: the machine starts the agent, not a person."""
READY_SECONDS = 15.0
LOG_BYTES = 1_000_000
FIRST_PAUSE = 0.5
LAST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""An agent that ran for so long is started again without a growing pause."""
READY = b"ready"


def serve(folder_name: str, archive: str) -> int:
    """Start the daemon and wait until it listens; return 0 if it runs, now or already."""
    folder = Path(folder_name)
    umask = os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    lock = os.open(str(folder / "agent.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    if not _take_lock(lock):
        # A boot guard that was armed since then must learn of it.
        with contextlib.suppress(OSError):
            (folder / "agent.started").touch()
        print("nbprov agent: runs already")
        return 0
    write_start(folder, umask, archive)
    _remove_earlier_archives(folder, archive)
    is_boot = bool(os.environ.pop(AT_BOOT, ""))
    heard, told = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        os.setsid()
        if os.fork() == 0:
            _become_daemon(folder)
            os._exit(Supervisor(folder, umask, archive, is_boot).run(told))
        os._exit(0)
    os.close(told)
    os.close(lock)
    answer = b""
    if select.select([heard], [], [], READY_SECONDS)[0]:
        answer = os.read(heard, 4096)
    if answer == READY:
        print("nbprov agent: started")
        return 0
    why = answer.decode("utf-8", "replace") or f"no answer in {READY_SECONDS:.0f} s"
    print(f"nbprov agent: did not start: {why}", file=sys.stderr)
    return 1


def write_start(folder: Path, umask: int, archive: str) -> None:
    """Leave the command with which the start script starts the agent again after a reboot.

    It starts it as now, and with no variable but PATH.
    """
    command = (sys.executable or "python3", "-I", "-S", archive, "serve", str(folder))
    path = shlex.quote(os.environ.get("PATH", os.defpath))
    lines = [
        "#!/bin/sh",
        "# nbprov: the agent's start at boot.",
        f"umask {umask:03o}; cd",
        f"PATH={path}; export PATH",
        f"{AT_BOOT}=1 exec {' '.join(map(shlex.quote, command))}",
    ]
    fresh = folder / "start.new"
    try:
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(folder / "start")
    except OSError as error:
        print(f"nbprov agent: will not return after a reboot: {error}", file=sys.stderr)


def _remove_earlier_archives(folder: Path, archive: str) -> None:
    """Remove the archives that came before this one: no agent runs while this one has the lock.

    Later ones stay, since a client may be about to replace an agent that starts at boot.
    """
    with contextlib.suppress(OSError):
        came = os.stat(archive).st_mtime
        for path in folder.glob(ARCHIVE_PREFIX + "*.pyz"):
            if str(path) != archive and path.stat().st_mtime < came:
                path.unlink()


def _take_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _become_daemon(folder: Path) -> None:
    os.chdir(str(folder))
    log = folder / "agent.log"
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(folder / "agent.log.1")
    quiet = os.open(os.devnull, os.O_RDONLY)
    loud = os.open(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(quiet, 0)
    os.dup2(loud, 1)
    os.dup2(loud, 2)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


class Supervisor:
    """Runs the agent in a child process, and starts it again if it dies.

    A machine without its agent has no guards.
    """

    def __init__(self, folder: Path, umask: int, archive: str, is_boot: bool) -> None:
        self._folder, self._umask, self._archive = folder, umask, archive
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
        self._child = os.fork()
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

        def ready() -> None:
            if told >= 0:
                with contextlib.suppress(OSError):
                    os.write(told, READY)
                os.close(told)

        async def run() -> None:
            is_restart = told < 0
            is_boot = self._is_boot and not is_restart
            await Agent(self._folder, self._umask, self._archive, is_restart, is_boot).run(ready)

        try:
            asyncio.run(run())
        except BaseException:
            traceback.print_exc()
            if told >= 0:
                with contextlib.suppress(OSError):
                    os.write(told, traceback.format_exc().strip().splitlines()[-1].encode())
            return 1
        return 0
