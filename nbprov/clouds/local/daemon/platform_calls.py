"""The few calls of the operating system that not every platform has, so that nothing else here needs to ask which one this is."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO

IS_LINUX: bool = sys.platform == "linux"
IS_WINDOWS: bool = sys.platform == "win32"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _missing(what: str) -> OSError:
    return OSError(f"this platform has no {what}")


def user_id() -> int:
    """The id of the user who runs this process; -1 where users have none."""
    if sys.platform != "win32":
        return os.getuid()
    else:
        return -1


def login_name() -> str:
    """The account as which one logs in to machines: the one that runs the daemon."""
    if sys.platform != "win32":
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return "nbprov"
    else:
        return getpass.getuser()


def accounts(home: Path, shell: str) -> str:
    """An account file (as /etc/passwd) that gives this user another home and shell, under every name the user goes by."""
    if sys.platform != "win32":
        import pwd

        names = dict.fromkeys(
            n
            for n in (
                login_name(),
                os.environ.get("USER", ""),
                os.environ.get("LOGNAME", ""),
                "nbprov",
            )
            if n
        )
        mine = [f"{name}:x:{os.getuid()}:{os.getgid()}:nbprov:{home}:{shell}" for name in names]
        others = [p for p in pwd.getpwall() if p.pw_uid != os.getuid() and p.pw_name not in names]
        lines = [
            f"{p.pw_name}:x:{p.pw_uid}:{p.pw_gid}:{p.pw_gecos}:{p.pw_dir}:{p.pw_shell}"
            for p in others
        ]
        if all(p.pw_name != "sshd" for p in others):
            lines.append("sshd:x:65533:65533:sshd:/run/sshd:/usr/sbin/nologin")
        return "\n".join([*mine, *lines]) + "\n"
    else:
        raise _missing("account file")


def kill(pid: int) -> None:
    """End a process at once; one that is gone is passed over."""
    if sys.platform != "win32":
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        raise _missing("SIGKILL")


def collect(pid: int) -> bool:
    """Collect a child that has ended; False where it still runs."""
    if sys.platform != "win32":
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            return True
    else:
        raise _missing("waitpid")


def fork() -> int:
    """Go on as two processes: 0 in the child, the child's id in the parent."""
    if sys.platform != "win32":
        return os.fork()
    else:
        raise _missing("fork")


def unix_socket() -> socket.socket:
    """A socket for talking to a process on this computer by a path."""
    if sys.platform != "win32":
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        raise _missing("unix sockets")


async def serve_unix(serve: Serve, path: Path, limit: int) -> asyncio.Server:
    """Listen on a unix socket."""
    if sys.platform != "win32":
        return await asyncio.start_unix_server(serve, path, limit=limit)
    else:
        raise _missing("unix sockets")


def on_terminate(call: Callable[[], None]) -> None:
    """Call back on the running loop when this process is asked to end."""
    if sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, call)


def lock(file: IO[bytes]) -> bool:
    """Lock an open file for as long as it is open; False where another process holds the lock."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True
