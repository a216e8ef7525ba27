"""System calls that differ between platforms, so that no other module has to check the platform."""

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
    """Return the id of this process's user; -1 on platforms without user ids."""
    if sys.platform != "win32":
        return os.getuid()
    else:
        return -1


def login_name() -> str:
    """Return the user of machines: the one who runs the daemon."""
    if sys.platform != "win32":
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return "nbprov"
    else:
        return getpass.getuser()


def accounts(home: Path, shell: str, guest_id: int) -> str:
    """Return an account file (like /etc/passwd) that gives this user another home and shell.

    It holds every name of the user, under the id that the user has in the machine.
    """
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
        ids = f"{guest_id}:{_guest_group(guest_id)}"
        mine = [f"{name}:x:{ids}:nbprov:{home}:{shell}" for name in names]
        ours = (os.getuid(), guest_id)
        others = [p for p in pwd.getpwall() if p.pw_uid not in ours and p.pw_name not in names]
        lines = [
            f"{p.pw_name}:x:{p.pw_uid}:{p.pw_gid}:{p.pw_gecos}:{p.pw_dir}:{p.pw_shell}"
            for p in others
        ]
        if all(p.pw_name != "sshd" for p in others):
            lines.append("sshd:x:65533:65533:sshd:/run/sshd:/usr/sbin/nologin")
        return "\n".join([*mine, *lines]) + "\n"
    else:
        raise _missing("account file")


def _guest_group(guest_id: int) -> int:
    if sys.platform != "win32":
        return os.getgid() if guest_id == os.getuid() else guest_id
    else:
        return guest_id


def kill(pid: int) -> None:
    """Kill a process at once; one that is gone is skipped."""
    if sys.platform != "win32":
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        raise _missing("SIGKILL")


def collect(pid: int) -> bool:
    """Reap a child that has ended; return False if it still runs."""
    if sys.platform != "win32":
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            return True
    else:
        raise _missing("waitpid")


def fork() -> int:
    """Continue as two processes; return 0 in the child and the child's id in the parent."""
    if sys.platform != "win32":
        return os.fork()
    else:
        raise _missing("fork")


def unix_socket() -> socket.socket:
    """Return a socket for talking to a process on this computer by a path."""
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
    """Lock an open file for as long as it is open; return False if another process has the lock."""
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
