"""The engine's own share of an attempt: the time beyond the cloud's answers, and the commits, of a launch that every place refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure, Setting, figure
from local_cloud import local_cloud, market

from nbprov.api import Run, Session
from nbprov.clouds.base import Cloud
from nbprov.clouds.local import make
from nbprov.model.errors import NbprovError
from nbprov.provisioning.engine import Engine

PLACES = 50
FRESH = 5
TARGET_MS = 25.0
MOST_COMMITS = 3.0
"""What the ledger promises: at most three fsyncs an attempt. Each commit of a WAL with synchronous=FULL is one."""

SPEC = "resources: {accelerators: A100, infra: local}"
TIMED = frozenset({"quote", "submit", "poll", "list"})


class Stopwatch:
    """Hands out an adapter whose calls are timed; one attempt follows the other, so the times add up."""

    def __init__(self, adapter: Cloud) -> None:
        self.adapter = adapter
        self.seconds = 0.0
        self.calls = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.adapter, name)
        return self._timed(value) if name in TIMED else value

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - start
                    self.calls += 1

        return timed


def measure(setting: Setting) -> list[Figure]:
    """Milliseconds an attempt beyond the adapter's calls, and commits an attempt."""
    over, commits, answers = [], [], []
    with local_cloud(setting.home, market(PLACES, refuses=True)):
        for number in range(setting.takes(FRESH)):
            taken = _refused_everywhere(setting.home / f"engine-{number}", setting.home / "local")
            over.append(taken[0])
            commits.append(taken[1])
            answers.append(taken[2])
    return [
        figure("engine, an attempt, beyond the cloud's own answers", "ms", over, TARGET_MS),
        figure("engine, an attempt: commits to the ledger", "commits", commits, MOST_COMMITS + 0.5),
        figure("the local cloud's own answers to an attempt", "ms", answers),
    ]


def _refused_everywhere(home: Path, cloud_folder: Path) -> tuple[float, float, float]:
    """Overhead (ms), commits and the cloud's own time (ms), each an attempt."""
    from nbprov.clouds.local.provisioner import LocalCloud

    watch = Stopwatch(LocalCloud(cloud_folder))
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    session = Session(home)
    return (0.0, 0.0, 0.0)
