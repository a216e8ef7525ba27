"""What a clone on a machine needs beside git: git itself, and a lock between two runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from .sync_protocol import SyncFailure

INSTALL_SECONDS = 600.0
"""For a package manager: a fresh machine's own updates hold its lock for minutes."""

_MANAGERS = (
    (
        "apt-get",
        "apt-get -q update && apt-get -q -y -o DPkg::Lock::Timeout=300 "
        "install --no-install-recommends git ca-certificates",
    ),
    ("dnf", "dnf -q -y install git"),
    ("microdnf", "microdnf -y install git"),
    ("yum", "yum -q -y install git"),
    ("apk", "apk add --no-cache git ca-certificates"),
    ("zypper", "zypper -n install git"),
)


def install_git(is_allowed: bool) -> None:
    """Install git with the machine's package manager.

    Raises
    ------
    Trouble
        `git`, if that is not allowed or fails.
    """
    command = next((command for name, command in _MANAGERS if shutil.which(name)), "")
    if not is_allowed or not command:
        raise SyncFailure("git", "git is not installed")
    is_root = sys.platform != "win32" and os.geteuid() == 0
    way = ["sh", "-c", command] if is_root else ["sudo", "-n", "sh", "-c", command]
    try:
        done = subprocess.run(
            way,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SyncFailure("git", "git is not installed, and could not be") from None
    if done.returncode or shutil.which("git") is None:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else "no reason given"
        raise SyncFailure("git", f"git is not installed, and could not be: {why}")


class Lock:
    """A lock between two runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = open(self._path, "w", encoding="ascii")
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SyncFailure("busy", "another run is cloning it") from None

    def __exit__(self, *_: Any) -> None:
        self._file.close()
