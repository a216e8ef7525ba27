"""The load of the machine over the last minute, for a person who looks."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import shutil

from .activity import Activity
from .json_types import Json
from .system import boottime, home

SAMPLE_SECONDS = 4.0
"""The least time between two samples; the guards look every 5 s or oftener."""
SAMPLES = 13
CGROUPS = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)
"""Where a container's memory is told, and how much of it is only a cache."""


class LoadHistory:
    """Samples of what the machine does, taken from the guards' own looks."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._samples: collections.deque[tuple[float, Json]] = collections.deque(maxlen=SAMPLES)

    def note(self) -> None:
        """Keep what was measured just now."""
        now = boottime()
        if self._samples and now - self._samples[-1][0] < SAMPLE_SECONDS:
            return
        measured = self._activity
        memory = measured.resident if measured.is_marked else memory_used()
        sample = {"cores": measured.cores, "memory": memory, "gpus": measured.gpu_loads}
        self._samples.append((now, sample))

    def told(self) -> Json:
        """Return the samples with their ages in seconds, oldest first, and the machine's size."""
        now, disk = boottime(), shutil.disk_usage(home())
        return {
            "samples": [{"age": now - at, **sample} for at, sample in self._samples],
            "cpus": os.cpu_count(),
            "memory": _of_file("/proc/meminfo", "MemTotal:") * 1024,
            "disk_used": disk.used,
            "disk_total": disk.total,
        }


def memory_used() -> int:
    """Return the bytes in use, caches aside: of the container, else of the system."""
    for usage, stat, cache in CGROUPS:
        with contextlib.suppress(OSError, ValueError), open(usage) as file:
            return max(0, int(file.read()) - _of_file(stat, cache))
    free = _of_file("/proc/meminfo", "MemAvailable:")
    return (_of_file("/proc/meminfo", "MemTotal:") - free) * 1024


def _of_file(path: str, name: str) -> int:
    with contextlib.suppress(OSError), open(path) as file:
        found = re.search(rf"(?m)^{re.escape(name)}\s+(\d+)", file.read())
        return int(found.group(1)) if found else 0
    return 0
