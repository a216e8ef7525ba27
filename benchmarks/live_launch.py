"""A launch in mid-flight in a kernel, and changes of it at a given rate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kernels import Kernel, fresh_kernel
from local_cloud import local_cloud, market

ATTEMPTS = 24
"""Rows of the panel that is brought up to date.

The launch was refused in so many places and waits for a machine.
"""
END = "bench.cancel(); bench.settled(60); None"

_LAUNCH = """%%provision bench --yes
resources: {accelerators: A100, infra: local}
"""
_UNTIL_IT_STICKS = f"""
import time
while len(bench.view().attempts) <= {ATTEMPTS} and not bench.done:
    time.sleep(0.05)
assert not bench.done, bench.view().message
"""

# A run tells of its work by `_progress.report`, as bring-up does with each line of setup; the
# clock is read just before.
_CHANGE = """
import json, threading, time
from nbprov.api import session

def tick(count, pause):
    stamps.clear()
    def change():
        stamps.append(time.time())
        bench._progress.report(f"tick {len(stamps)} of the benchmark")
    def go():
        due = time.monotonic()
        for _ in range(count):
            due += pause
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            session().engine.thread.soon(change)
    threading.Thread(target=go, daemon=True).start()

stamps = []
"""


@contextlib.contextmanager
def live_launch(home: Path) -> Iterator[Kernel]:
    """Yield a kernel in which `bench` is being launched.

    `tick(count, pause)` changes it, and `stamps` holds when.
    """
    with (
        local_cloud(home, market(ATTEMPTS + 1, refuses=True, sticks=True)),
        fresh_kernel(home) as kernel,
    ):
        for cell in ("%load_ext nbprov", _LAUNCH, _UNTIL_IT_STICKS, _CHANGE):
            kernel.run(cell)
        yield kernel
