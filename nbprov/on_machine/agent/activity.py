"""Activity of the machine: ssh sessions, CPU and GPU use."""

from __future__ import annotations

import contextlib
import os
import re
import time

from . import ARCHIVE_PREFIX
from .system import ProcessEntry, boottime, processes
from .tasks.scripts import command_output

GPU_SECONDS = 10.0
"""How often nvidia-smi is asked at most, and how long it may take."""
CPU_SECONDS = 1.0
"""CPU use is measured over at least this long: in less, answering a question looks like work."""
SSH_SERVERS = ("sshd", "sshd-session", "dropbear")
RESTING_SYNC = "nbprov-resting"
"""The name of a sync program that waits for the next sync, and ends by itself."""
FEW_TICKS = 200
PAGE = os.sysconf("SC_PAGE_SIZE")
_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


class Activity:
    """Measures what this machine does. Only what belongs to it is counted.

    Machines that share one system, as those of the `local` cloud do, mark their processes with the
    variable NBPROV_INSTANCE. In a container /proc shows its own processes only; so use is summed
    over processes and not read from the system's totals.

    Attributes
    ----------
    sessions
        Ssh sessions, those of nbprov's own channels aside.
    cores
        CPU use, in cores.
    gpu_percent
        Use of the busiest GPU; None where there is no real one.
    gpus
        The lines of `nvidia-smi -L`.
    gpu_loads
        Of each GPU its use in percent, its memory in use and its memory, in MiB; None for what it
        does not tell.
    resident
        Bytes that the processes hold in memory; what they share counts for each.
    """

    def __init__(self) -> None:
        marker = os.environ.get("NBPROV_INSTANCE", "")
        self._marker = b"NBPROV_INSTANCE=" + marker.encode() if marker else b""
        self._marked: dict[tuple[int, int], bool] = {}
        self._before: tuple[float, dict[int, int]] | None = None
        self._gpu_read = 0.0
        self.sessions, self.cores = 0, 0.0
        self.gpu_percent: float | None = None
        self.gpus: list[str] = []
        self.gpu_loads: list[list[float | None]] = []
        self.resident = 0

    @property
    def is_marked(self) -> bool:
        """Whether other machines share this system, so that only marked processes are its own."""
        return bool(self._marker)

    @property
    def gpu_count(self) -> int:
        """How many GPUs are seen."""
        return sum(1 for line in self.gpus if line.startswith("GPU "))

    def measure(self, bridges: set[int]) -> None:
        """Count ssh sessions, and CPU use since the last time.

        Parameters
        ----------
        bridges
            The sessions of the agent's own channels.
        """
        every = processes()
        ours = {pid: process for pid, process in every.items() if self._is_ours(process)}
        self._marked = {key: value for key, value in self._marked.items() if key[0] in every}
        self.resident = sum(process.pages for process in ours.values()) * PAGE
        self.sessions = sum(
            1
            for process in ours.values()
            if _is_session(process, every) and process.session not in bridges
        )
        now = boottime()
        if self._before is not None and now - self._before[0] < CPU_SECONDS:
            return
        ticks = {pid: process.ticks for pid, process in ours.items() if pid != os.getpid()}
        if self._before is not None:
            since, earlier = self._before
            # A new process with many ticks was there before, and only now became known as ours.
            used = sum(
                count - earlier.get(pid, 0)
                for pid, count in ticks.items()
                if pid in earlier or count < FEW_TICKS
            )
            self.cores = max(0.0, used / os.sysconf("SC_CLK_TCK") / (now - since))
        self._before = (now, ticks)

    def forget(self) -> None:
        """Take the machine for idle, since what was measured last may be over."""
        self.sessions, self.cores = 0, 0.0

    async def measure_gpus(self) -> None:
        """Ask nvidia-smi, where there is one, unless it was asked just now.

        Use counts only where there is a real device: a simulated one tells of another machine.
        """
        if time.monotonic() - self._gpu_read < GPU_SECONDS and self._gpu_read:
            return
        self._gpu_read = time.monotonic()
        loads: list[list[float | None]] = []
        try:
            self.gpus = (await command_output("nvidia-smi", "-L", seconds=GPU_SECONDS)).splitlines()
            loads = await _gpu_loads() if self.gpus else []
        finally:
            self.gpu_loads = loads
            used = [load[0] for load in loads if load and load[0] is not None]
            is_real = has_nvidia_device() and not self._marker
            self.gpu_percent = max(used) if used and is_real else None

    def _is_ours(self, process: ProcessEntry) -> bool:
        if not self._marker:
            return True
        key = (process.pid, process.start)
        if key not in self._marked:
            try:
                with open(f"/proc/{process.pid}/environ", "rb") as file:
                    self._marked[key] = self._marker in file.read().split(b"\0")
            except OSError:
                self._marked[key] = False
        return self._marked[key]


async def _gpu_loads() -> list[list[float | None]]:
    text = await command_output(
        "nvidia-smi",
        "--query-gpu=utilization.gpu,memory.used,memory.total",
        "--format=csv,noheader,nounits",
        seconds=GPU_SECONDS,
    )
    return [
        [float(word) if _NUMBER.match(word) else None for word in line.split(", ")]
        for line in text.splitlines()
    ]


def _is_session(process: ProcessEntry, every: dict[int, ProcessEntry]) -> bool:
    parent = every.get(process.parent)
    if parent is None or parent.name not in SSH_SERVERS:
        return False
    if process.name in SSH_SERVERS or process.name == RESTING_SYNC:
        return False
    with contextlib.suppress(OSError), open(f"/proc/{process.pid}/cmdline", "rb") as file:
        return ARCHIVE_PREFIX.encode() not in file.read()
    return False


def has_nvidia_device() -> bool:
    """Return whether the system has an NVIDIA driver, or that of WSL."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")
