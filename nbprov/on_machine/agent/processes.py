"""Processes of the machine as /proc shows them."""

from __future__ import annotations

import contextlib
import os


class Process:
    """One row of /proc."""

    __slots__ = ("name", "parent", "pid", "session", "start", "ticks")

    def __init__(self, pid: int, stat: str) -> None:
        head, _, tail = stat.rpartition(")")
        fields = tail.split()
        self.pid, self.name = pid, head.partition("(")[2]
        self.parent, self.session, self.start = int(fields[1]), int(fields[3]), int(fields[19])
        self.ticks = sum(int(field) for field in fields[11:15])


def processes() -> dict[int, Process]:
    """Return every process by its id; none where there is no /proc."""
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[int(name)] = _read(int(name))
    return found


def process_start(pid: int) -> int:
    """Return when a process started, in ticks since the boot; 0 if it is not there.

    Together with the id it names a process for good: ids are used again.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _read(pid).start
    return 0


def _read(pid: int) -> Process:
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        return Process(pid, file.read())
