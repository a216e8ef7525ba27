"""What the agent asks of the operating system: clocks, boots, process groups, memory pressure."""

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
