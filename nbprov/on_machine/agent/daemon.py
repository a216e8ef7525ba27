"""The agent's daemon: it is started once a machine, under a lock.

Every connection to a machine runs `serve`, which finds the agent running nearly always. So what
only a start needs is imported once the lock is taken.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys

from . import ARCHIVE_PREFIX

assert sys.platform != "win32", "the agent runs on machines with POSIX"

AT_BOOT = "NBPROV_AT_BOOT"
"""Set by the `start` file: the machine starts the agent, not a person."""
READY_SECONDS = 15.0
LOG_BYTES = 1_000_000


def serve(folder: str, archive: str) -> int:
    """Start the daemon and wait until it listens; return 0 if it runs, now or already."""
    umask = os.umask(0o077)
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(OSError):  # a disk that can only be read
        os.chmod(folder, 0o700)
    lock = _open_lock(os.path.join(folder, "agent.lock"))
    if not _take_lock(lock):
        # A boot guard that was armed since then must learn of it.
        with contextlib.suppress(OSError), open(os.path.join(folder, "agent.started"), "a"):
            os.utime(os.path.join(folder, "agent.started"))
        print("nbprov agent: runs already")
        return 0
    write_start(folder, umask, archive)
    _remove_earlier_archives(folder, archive)
    answer = _start(folder, umask, archive, lock)
    if not answer:
        print("nbprov agent: started")
        return 0
    print(f"nbprov agent: did not start: {answer}", file=sys.stderr)
    return 1


def _start(folder: str, umask: int, archive: str, lock: int) -> str:
    """Start the daemon; return why it does not listen, or an empty text."""
    import select

    from .supervisor import READY, AgentSupervisor

    is_boot = bool(os.environ.pop(AT_BOOT, ""))
    heard, told = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        os.setsid()
        if os.fork() == 0:
            _become_daemon(folder)
            os._exit(AgentSupervisor(folder, umask, archive, is_boot).run(told))
        os._exit(0)
    os.close(told)
    os.close(lock)
    answer = b""
    if select.select([heard], [], [], READY_SECONDS)[0]:
        answer = os.read(heard, 4096)
    if answer == READY:
        return ""
    return answer.decode("utf-8", "replace") or f"no answer in {READY_SECONDS:.0f} s"


def write_start(folder: str, umask: int, archive: str) -> None:
    """Leave the command with which the start script starts the agent again after a reboot.

    It starts it as now, and with no variable but PATH.
    """
    import shlex

    command = (sys.executable or "python3", "-I", "-S", archive, "serve", folder)
    path = shlex.quote(os.environ.get("PATH", os.defpath))
    lines = [
        "#!/bin/sh",
        "# nbprov: the agent's start at boot.",
        f"umask {umask:03o}; cd",
        f"PATH={path}; export PATH",
        f"{AT_BOOT}=1 exec {' '.join(map(shlex.quote, command))}",
    ]
    fresh, text = os.path.join(folder, "start.new"), "\n".join(lines) + "\n"
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "start")) as known:
        if known.read() == text:
            return
    try:
        with open(fresh, "w") as file:
            file.write(text)
        os.replace(fresh, os.path.join(folder, "start"))
    except OSError as error:
        print(f"nbprov agent: will not return after a reboot: {error}", file=sys.stderr)


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


def _open_lock(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return os.open(path, os.O_RDONLY)  # on a disk that can only be read it locks as well


def _take_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


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
