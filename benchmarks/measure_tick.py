"""Measure the time from a change of a run to the message that brings it to the browser.

Single changes and a burst of changes are measured.
"""

from __future__ import annotations

import json
import re
from statistics import quantiles

from figures import Figure, Setting, figure
from kernels import Kernel, Message, fresh_kernel
from local_cloud import local_cloud, market

ATTEMPTS = 24
"""Rows of the panel that is brought up to date.

A launch in mid-flight that was refused in so many places and waits for a machine.
"""
SINGLE, SINGLE_EVERY = 30, 0.21
"""Changes that come one at a time.

Further apart than the publisher's interval, so that none waits for it.
"""
BURST, BURST_EVERY = 200, 0.01
TARGET_MS = 250.0

_LAUNCH = """%%provision bench --yes
resources: {accelerators: A100, infra: local}
"""
_UNTIL_IT_STICKS = f"""
import time
while len(bench.view().attempts) <= {ATTEMPTS} and not bench.done:
    time.sleep(0.05)
assert not bench.done, bench.view().message
"""
_END = "bench.cancel(); bench.settled(60); None"

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
        for _ in range(count):
            time.sleep(pause)
            session().engine.thread.soon(change)
    threading.Thread(target=go, daemon=True).start()

stamps = []
"""
_TICK = re.compile(r"tick (\d+) of the benchmark")


def measure(setting: Setting) -> list[Figure]:
    """Measure latencies in milliseconds.

    They include the publisher's interval and the front end's ZMQ socket, but not the browser's
    drawing.
    """
    home = setting.home
    with (
        local_cloud(home, market(ATTEMPTS + 1, refuses=True, sticks=True)),
        fresh_kernel(home) as kernel,
    ):
        for cell in ("%load_ext nbprov", _LAUNCH, _UNTIL_IT_STICKS, _CHANGE):
            kernel.run(cell)
        single = _latencies(kernel, setting.takes(SINGLE), SINGLE_EVERY)
        burst = _latencies(kernel, setting.takes(BURST), BURST_EVERY)
        kernel.run(_END)
    slow = quantiles(burst, n=20)[-1]
    return [
        figure("a change reaches the browser's socket, one at a time", "ms", single, TARGET_MS),
        figure("a change reaches the browser's socket, 100 a second", "ms", burst, TARGET_MS),
        figure(
            "a change reaches the browser's socket, 100 a second, 95th percentile",
            "ms",
            [slow],
            TARGET_MS,
        ),
    ]


def _latencies(kernel: Kernel, count: int, pause: float) -> list[float]:
    """How long after each change the first message arrives that carries it or a later one."""
    arrivals: list[float] = []

    def take(message: Message, arrived: float) -> bool:
        found = (
            _TICK.search(json.dumps(message["content"], default=str))
            if message["msg_type"] == "comm_msg"
            else None
        )
        if found is not None:
            arrivals.extend([arrived] * (int(found[1]) - len(arrivals)))
        return len(arrivals) >= count

    kernel.run(f"tick({count}, {pause})")
    kernel.listen(take)
    changed = json.loads(kernel.run("print(json.dumps(stamps))").text)
    return [(arrival - change) * 1000 for arrival, change in zip(arrivals, changed, strict=True)]
