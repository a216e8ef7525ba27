"""Reads the figures of a soak off the processes themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

MEBIBYTE = 1024.0 * 1024.0


def processes_of(home: Path) -> list[psutil.Process]:
    """The processes of a home's `local` cloud.

    Its daemon, its machines and all that runs on them.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            told = [*process.cmdline(), *process.environ().values()]
            if any(str(home / "local") in text for text in told):
                found.append(process)
    return found


def sample(kernel: int, home: Path, tasks: int) -> dict[str, float]:
    """One reading.

    Parameters
    ----------
    kernel
        Process id of the kernel.
    tasks
        Tasks of the engine's loop, as the kernel itself counts them.
    """
    process = psutil.Process(kernel)
    around = [p for p in processes_of(home) if p.pid != kernel]
    agents = [p for p in around if _runs(p, "nbprov-agent-", "serve")]
    daemons = [p for p in around if _runs(p, "nbprov.clouds.local")]
    return {
        "memory of the kernel": memory([process]),
        "open files of the kernel": process.num_fds(),
        "threads of the kernel": process.num_threads(),
        "children of the kernel": len(process.children(recursive=True)),
        "tasks of the engine's loop": tasks,
        "memory of the agents": memory(agents),
        "open files of the agents": total(agents, "num_fds"),
        "threads of the agents": total(agents, "num_threads"),
        "processes on the machines": len(around) - len(daemons),
        "memory of the cloud's daemon": memory(daemons),
        "open files of the cloud's daemon": total(daemons, "num_fds"),
    }


def memory(processes: Iterable[psutil.Process]) -> float:
    """MiB that are their own: what would be free if they ended."""
    used = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used += process.memory_full_info().uss / MEBIBYTE
    return used


def total(processes: Iterable[psutil.Process], method: str) -> float:
    """A count summed over processes; one that has just ended counts nothing."""
    count = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            count += getattr(process, method)()
    return float(count)


def _runs(process: psutil.Process, *words: str) -> bool:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return all(word in line for word in words)
