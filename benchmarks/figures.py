"""What a measure gives back, and how a time is taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Setting:
    """What all measures of one run share.

    Attributes
    ----------
    catalogs
        Folder of price folders; None: the shipped prices.
    home
        An empty folder that stands in for nbprov's home, so that nothing of the user's is read or changed.
    """

    catalogs: Path | None
    home: Path

    def child(self, code: str, *arguments: str) -> Any:
        """Run code in a fresh interpreter and read the JSON on its last line."""
        environment = {**os.environ, "NBPROV_HOME": str(self.home)}
        done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False)
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
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    repeats: int
    target: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the median is under the target; None where there is none."""
        return None if self.target is None else self.value < self.target


def figure(name: str, unit: str, takes: list[float], target: float | None = None) -> Figure:
    """The figure of several takes."""
    return Figure(name, unit, round(median(takes), 3), round(min(takes), 3), round(max(takes), 3), len(takes), target)


def milliseconds(call: Callable[[], object], repeats: int) -> list[float]:
    """How long each of `repeats` calls takes."""
    takes = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        takes.append((time.perf_counter() - start) * 1000)
    return takes
