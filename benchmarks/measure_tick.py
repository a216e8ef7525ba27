"""From a change of a run to the message that brings it to the browser: single changes, and a burst of them."""

from __future__ import annotations

import json
import re
from statistics import quantiles

from figures import Figure, Setting, figure
from kernels import Kernel, fresh_kernel
from local_cloud import local_cloud, market

ATTEMPTS = 24
"""Rows of the panel that is brought up to date: a failover that has seen some places."""
SINGLE, SINGLE_EVERY = 30, 0.21
"""Changes that come one at a time; not a multiple of the publisher's interval, so that they fall anywhere in it."""
BURST, BURST_EVERY = 200, 0.01
TARGET_MS = 250.0

_LAUNCH = """%%provision bench --yes
resources: {accelerators: A100, infra: local}
"""
_SETTLE = "bench.settled(60); None"

# A run tells of its work by `_report`, as bring-up does with each line of setup; the clock is read just before.
_CHANGE = """
import threading, time
from nbprov.api import session

def tick(count, pause):
    def go():
        for number in range(count):
            time.sleep(pause)
            session().engine.thread.soon(lambda n=number: bench._report(f"tick {n} {time.time()!r} ."))
    threading.Thread(target=go, daemon=True).start()
"""
_TICK = re.compile(r"tick (\d+) ([\d.]+) \.")


def measure(setting: Setting) -> list[Figure]:
    """Latencies in milliseconds; the publisher's interval and the front end's ZMQ socket are in them, the browser's drawing is not."""
    home = setting.home
    with local_cloud(home, market(ATTEMPTS, refuses=True)), fresh_kernel(home) as kernel:
        for cell in ("%load_ext nbprov", _LAUNCH, _SETTLE, _CHANGE):
            kernel.run(cell)
        single = _latencies(kernel, setting.takes(SINGLE), SINGLE_EVERY)
        burst = _latencies(kernel, setting.takes(BURST), BURST_EVERY)
    slow = quantiles(burst, n=20)[-1]
    return [
        figure("a change reaches the browser's socket, one at a time", "ms", single, TARGET_MS),
        figure("a change reaches the browser's socket, 100 a second", "ms", burst, TARGET_MS),
        figure("a change reaches the browser's socket, 100 a second, 95th percentile", "ms", [slow], TARGET_MS),
    ]


def _latencies(kernel: Kernel, count: int, pause: float) -> list[float]:
    """How long after each change the first message arrives that carries it or a later one."""
    arrivals: dict[int, float] = {}
    last_known = -1

    def take(message: dict[str, object], arrived: float) -> bool:
        nonlocal last_known
        if message["msg_type"] != "comm_msg":
            return False
        found = _TICK.search(json.dumps(message["content"]))
        if found is not None:
            changed = _changed(kernel_times, int(found[1]), float(found[2]))
            for number in range(last_known + 1, int(found[1]) + 1):
                arrivals[number] = (arrived - changed.get(number, float(found[2]))) * 1000
            last_known = max(last_known, int(found[1]))
        return last_known == count - 1

    kernel_times: dict[int, float] = {}
    kernel.run(f"tick({count}, {pause})")
    kernel.listen(take)
    return [arrivals[number] for number in range(count)]


def _changed(times: dict[int, float], number: int, at: float) -> dict[int, float]:
    times[number] = at
    return times
