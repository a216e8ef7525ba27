"""What a soak takes down at each round, and whether it grows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WARM_UP = 0.25
"""Share of a soak that is not judged.

Modules are imported, pools and caches filled, connections opened for the first time.
"""

LEAST_SAMPLES = 8
"""Fewer judged samples than this say nothing about growth."""


AGENTS_SLACK = 12.0
"""MiB.

Each agent remembers its last 500 tasks, some 6 MiB, which takes a quarter of an hour to come
together; then it stays as it is.
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """One figure that must not grow.

    Attributes
    ----------
    slack
        What its median may grow by between the first and the last third of the judged samples: what
        comes and goes with a round (a thread that is ending, a page more in an arena) and is no
        leak.
    """

    name: str
    unit: str
    slack: float


WATCHED = (
    Watched("memory of the kernel", "MiB", 12.0),
    Watched("open files of the kernel", "", 3.0),
    Watched("threads of the kernel", "", 2.0),
    Watched("children of the kernel", "", 0.0),
    Watched("tasks of the engine's loop", "", 3.0),
    Watched("memory of the agents", "MiB", AGENTS_SLACK),
    Watched("open files of the agents", "", 2.0),
    Watched("threads of the agents", "", 1.0),
    Watched("processes on the machines", "", 1.0),
    Watched("memory of the cloud's daemon", "MiB", 4.0),
    Watched("open files of the cloud's daemon", "", 2.0),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """How a figure went over a soak."""

    watched: Watched
    first: float
    last: float
    greatest: float

    @property
    def is_leak(self) -> bool:
        return self.last - self.first > self.watched.slack


def judged(samples: Sequence[dict[str, float]]) -> list[Growth]:
    """Compare the last third with the first, the warm-up left out.

    Raises
    ------
    ValueError
        If there are too few samples to judge.

    Examples
    --------
    >>> steady = [{w.name: 5.0 for w in WATCHED} for _ in range(40)]
    >>> any(growth.is_leak for growth in judged(steady))
    False
    """
    rest = samples[int(len(samples) * WARM_UP) :]
    if len(rest) < LEAST_SAMPLES:
        raise ValueError(
            f"{len(rest)} samples after the warm-up: at least {LEAST_SAMPLES} are needed; soak"
            " for longer"
        )
    third = len(rest) // 3
    found = []
    for watched in WATCHED:
        values = [sample[watched.name] for sample in rest]
        found.append(
            Growth(
                watched,
                statistics.median(values[:third]),
                statistics.median(values[-third:]),
                max(values),
            )
        )
    return found


def table(growths: Sequence[Growth]) -> str:
    """The figures as a Markdown table."""
    lines = ["| what | at first | at last | most | may grow by |", "|---|--:|--:|--:|--:|"]
    for one in growths:
        unit = f" {one.watched.unit}" if one.watched.unit else ""
        mark = " **leak**" if one.is_leak else ""
        lines.append(
            f"| {one.watched.name} | {one.first:.1f}{unit} | {one.last:.1f}{unit}{mark} |"
            f" {one.greatest:.1f} | {one.watched.slack:g} |"
        )
    return "\n".join(lines)
