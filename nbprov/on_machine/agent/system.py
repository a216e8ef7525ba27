"""What the agent asks of the operating system: clocks, boots, processes, memory pressure."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_OOM_SCORE = Path("/proc/self/oom_score_adj")


def home() -> str:
    """Return the folder that relative paths of jobs and kernels start from."""
    return os.path.expanduser("~")


def boottime() -> float:
    """Return the seconds since the machine booted, with time suspended where the system knows."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_identity(folder: Path) -> str:
    """Return a text that changes with every start of the machine.

    It is the system's boot id and what the start script wrote: containers share the former.
    """
    parts = []
    for path in (Path("/proc/sys/kernel/random/boot_id"), folder / "boot.id"):
        with contextlib.suppress(OSError):
            parts.append(path.read_text().strip())
    return "/".join(parts)


def init_name() -> str:
    """Return the name of the first process; empty where it is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/1/comm").read_text()
    return ""


def is_disk_full(path: str) -> bool:
    """Return whether nothing more can be written below a folder, for want of room or of inodes."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, which may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_group(pid: int) -> None:
    """End a process group at once."""
    signal_group(pid, signal.SIGKILL)


def become_first_oom_victim() -> None:
    """Undo `become_last_oom_victim`, which children inherit."""
    with contextlib.suppress(OSError):
        _OOM_SCORE.write_text("0")


def become_last_oom_victim() -> None:
    """Let the system kill a job, not the agent that guards the machine, if memory runs out."""
    with contextlib.suppress(OSError):
        _OOM_SCORE.write_text("-900")


class ProcessEntry:
    """One row of /proc."""

    __slots__ = ("name", "pages", "parent", "pid", "session", "start", "ticks")

    def __init__(self, pid: int, stat: str) -> None:
        head, _, tail = stat.rpartition(")")
        fields = tail.split()
        self.pid, self.name = pid, head.partition("(")[2]
        self.parent, self.session, self.start = int(fields[1]), int(fields[3]), int(fields[19])
        self.ticks = sum(int(field) for field in fields[11:15])
        self.pages = int(fields[21])


def processes() -> dict[int, ProcessEntry]:
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


def _read(pid: int) -> ProcessEntry:
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        return ProcessEntry(pid, file.read())
