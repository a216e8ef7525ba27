"""The agent's daemon: whoever gets the lock runs the agent, so there is one on a machine.

Clients start it with `serve`. `keep` waits at the lock and so sees at once that no agent is left:
the loops in which it runs, of the boot guard and of the agent's standby, bring the agent back.

Every connection to a machine runs `serve`, which finds the agent running nearly always. So what
only a start needs is imported once the lock is taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time

from . import ARCHIVE_PREFIX
from .lifecycle.locks import AGENT_LOCK, STANDBY_LOCK, open_lock, take_lock

assert sys.platform != "win32", "the agent runs on machines with POSIX"

HEALTHY_SECONDS = 120.0
"""An agent that ran for so long was no failed start: a supervisor gives those up earlier."""
READY_SECONDS = 15.0
LOG_BYTES = 1_000_000


def serve(folder: str, archive: str) -> int:
    """Start the daemon and wait until it listens; return 0 if it runs, now or already."""
    umask = _prepare(folder)
    lock = open_lock(folder, AGENT_LOCK)
    if not take_lock(lock):
        print("nbprov agent: runs already")
        return 0
    from .lifecycle.start_file import write_start

    write_start(folder, umask, archive)
    _remove_earlier_archives(folder, archive)
    answer = _start(folder, umask, archive, lock)
    if not answer:
        print("nbprov agent: started")
        return 0
    print(f"nbprov agent: did not start: {answer}", file=sys.stderr)
    return 1


def keep(folder: str, archive: str) -> int:
    """Run the agent, or wait until the one that runs has ended.

    Returns
    -------
    int
        0 if an agent ran until now. The caller starts this anew, by the `start` file, which may
        name another archive by then.
    """
    umask = _prepare(folder)
    lock = open_lock(folder, AGENT_LOCK)
    if not take_lock(lock):
        standby = open_lock(folder, STANDBY_LOCK)
        fcntl.flock(standby, fcntl.LOCK_EX)
        began = time.monotonic()
        fcntl.flock(lock, fcntl.LOCK_EX)
        return 0 if time.monotonic() - began > HEALTHY_SECONDS else 1
    from .lifecycle.start_file import AT_BOOT
    from .lifecycle.supervisor import AgentSupervisor

    is_boot = bool(os.environ.pop(AT_BOOT, ""))
    with contextlib.suppress(OSError):
        os.setsid()
    _become_daemon(folder)
    return AgentSupervisor(folder, umask, archive, is_boot).run(-1)


def _prepare(folder: str) -> int:
    """Make the agent's folder, and return the umask that there was."""
    umask = os.umask(0o077)
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(OSError):  # a disk that can only be read
        os.chmod(folder, 0o700)
    return umask


def _start(folder: str, umask: int, archive: str, lock: int) -> str:
    """Start the daemon; return why it does not listen, or an empty text."""
    import select

    from .lifecycle.supervisor import READY, AgentSupervisor

    heard, told = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        os.setsid()
        if os.fork() == 0:
            _become_daemon(folder)
            os._exit(AgentSupervisor(folder, umask, archive, False).run(told))
        os._exit(0)
    os.close(told)
    os.close(lock)
    answer = b""
    if select.select([heard], [], [], READY_SECONDS)[0]:
        answer = os.read(heard, 4096)
    if answer == READY:
        return ""
    return answer.decode("utf-8", "replace") or f"no answer in {READY_SECONDS:.0f} s"


def _remove_earlier_archives(folder: str, archive: str) -> None:
    """Remove the archives that came before this one: no agent runs while this one has the lock.

    Later ones stay, since a client may be about to replace an agent that starts at boot.
    """
    with contextlib.suppress(OSError):
        came = os.stat(archive).st_mtime
        for entry in list(os.scandir(folder)):
            is_archive = entry.name.startswith(ARCHIVE_PREFIX) and entry.name.endswith(".pyz")
            if is_archive and entry.path != archive and entry.stat().st_mtime < came:
                os.unlink(entry.path)


def _open_log(path: str) -> int:
    with contextlib.suppress(OSError):
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            os.replace(path, path + ".1")
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.open(os.devnull, os.O_WRONLY)  # the guards need no log


def _become_daemon(folder: str) -> None:
    import signal

    from .log import use_safe_log

    os.chdir(folder)
    quiet, loud = os.open(os.devnull, os.O_RDWR), _open_log(os.path.join(folder, "agent.log"))
    os.dup2(quiet, 0)
    os.dup2(loud, 1)
    os.dup2(loud, 2)
    use_safe_log()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
