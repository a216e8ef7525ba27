"""The result of a measure, and the way times are taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

QUICK_TAKES = 2
"""Takes of every figure in a quick run: enough to see that it works, too few to believe."""

PEAK = """
def peak_mib():
    import resource, sys
    try:
        # Not ru_maxrss: Linux lets a child begin with the peak of the process that started it.
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except OSError:
        per_mib = 1024 * 1024 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib
"""
"""Python source of `peak_mib()`: the most memory the process has held so far, in MiB.

For processes that are measured; POSIX only.
"""


@dataclass(frozen=True)
class Setting:
    """The settings that all measures of one run share.

    Attributes
    ----------
    catalogs
        Folder of price folders; None: the shipped prices.
    home
        An empty folder that stands in for nbprov's home, so that nothing of the user's is read or
        changed.
    quick
        Take each figure `QUICK_TAKES` times only.
    """

    catalogs: Path | None
    home: Path
    quick: bool = False

    def takes(self, wanted: int) -> int:
        """Return how often to take a figure that asks for this many takes."""
        return min(wanted, QUICK_TAKES) if self.quick else wanted

    def child(self, code: str, *arguments: str) -> Any:
        """Run code in a fresh interpreter and read the JSON on its last line."""
        environment = {**os.environ, "NBPROV_HOME": str(self.home)}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"a measured process failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes
    ----------
    value
        The median of `repeats` takes; `low` and `high` are the least and the greatest.
    target
        What it should stay under; None where none is set.
    shown
        Whether the README's table has it; one with a target always is there.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    repeats: int
    target: float | None = None
    shown: bool = False

    @property
    def is_met(self) -> bool | None:
        """Whether the median is under the target; None where there is none."""
        return None if self.target is None else self.value < self.target

    @property
    def ratio(self) -> float | None:
        """The median as a share of the target; None where there is none."""
        return None if self.target is None else round(self.value / self.target, 3)


def figure(
    name: str,
    unit: str,
    takes: Sequence[float],
    target: float | None = None,
    *,
    shown: bool = False,
) -> Figure:
    """Return the figure of several takes.

    Examples
    --------
    >>> figure("a wait", "ms", [3.0, 1.0, 2.0], 4.0).ratio
    0.5
    """
    return Figure(
        name,
        unit,
        round(median(takes), 3),
        round(min(takes), 3),
        round(max(takes), 3),
        len(takes),
        target,
        shown,
    )


def milliseconds(
    call: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return how long each of `repeats` calls takes by a clock that tells seconds."""
    takes = []
    for _ in range(repeats):
        start = clock()
        call()
        takes.append((clock() - start) * 1000)
    return takes
