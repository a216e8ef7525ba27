"""Measure the engine's own share of an attempt.

It is the time beyond the cloud's answers, and the commits, of a launch that every place refuses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from figures import Figure, Setting, figure
from local_cloud import local_cloud, market

from nbprov.catalog import Catalog
from nbprov.clouds.base import Cloud
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import RunState
from nbprov.planning import EnabledCloud, plan
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.run.driver import RunDriver
from nbprov.spec import parse

PLACES = 50
FRESH = 5
TARGET_MS = 25.0
MOST_SECONDS = 60.0

SPEC = "resources: {accelerators: A100, infra: local}"
TIMED = frozenset({"quote", "submit", "poll", "list"})


class Stopwatch:
    """Hand out an adapter whose calls are timed.

    One attempt follows the other, so the times add up.
    """

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
    """Measure milliseconds beyond the adapter's calls, and commits, of each attempt."""
    with local_cloud(setting.home, market(PLACES, refuses=True)) as folder:
        homes = [setting.home / f"engine-{number}" for number in range(setting.takes(FRESH))]
        takes = [_refused_everywhere(home, Stopwatch(LocalCloud(folder))) for home in homes]
    over, commits, answers = zip(*takes, strict=True)
    return [
        figure("engine, an attempt, beyond the cloud's own answers", "ms", over, TARGET_MS),
        figure("engine, an attempt: commits to the ledger", "commits", commits, shown=True),
        figure("the local cloud's own answers to an attempt", "ms", answers),
    ]


class Commits:
    """Counts the commits of a ledger that wrote something.

    In WAL with synchronous=FULL each of these is one fsync.
    """

    def __init__(self) -> None:
        self.count = 0

    def watch(self, ledger: Ledger) -> Ledger:
        """Count this ledger's from now on."""
        connection = ledger.store._connection
        written = connection.total_changes

        def trace(statement: str) -> None:
            nonlocal written
            if statement == "COMMIT" and connection.total_changes != written:
                written = connection.total_changes
                self.count += 1

        connection.set_trace_callback(trace)
        return ledger


def _refused_everywhere(home: Path, watch: Stopwatch) -> tuple[float, float, float]:
    """Overhead (ms), commits and the cloud's own time (ms), each an attempt."""
    commits = Commits()
    adapter = cast(Cloud, watch)
    engine = Engine(home, clouds=lambda name: adapter, wrap_ledger=commits.watch)
    try:
        driver = _run(engine, adapter)
        watch.seconds, commits.count = 0.0, 0
        start = time.perf_counter()
        engine.thread.call(engine.launch(driver, folder="")).result()
        state = driver.finished.result(MOST_SECONDS)
        passed = time.perf_counter() - start
    finally:
        engine.shut_down()
    attempts = len(driver.view().attempts)
    if state is not RunState.FAILED or attempts != PLACES:
        raise RuntimeError(
            f"the launch ended as {state.value} after {attempts} attempts, not as failed after"
            f" {PLACES}"
        )
    return (
        (passed - watch.seconds) * 1000 / attempts,
        commits.count / attempts,
        watch.seconds * 1000 / attempts,
    )


def _run(engine: Engine, adapter: Cloud) -> RunDriver:
    spec = parse(SPEC)
    catalog = Catalog.open([]).with_offers(adapter.offers() or ())
    made = plan(spec, catalog, {adapter.name: EnabledCloud("bench", adapter.capabilities)})
    return engine.prepare_run("bench", spec, made)
