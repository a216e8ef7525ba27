"""Measure the time from a change of a run to the message that brings it to the browser.

Single changes and a burst of changes are measured.
"""

from __future__ import annotations

import json
import re
from statistics import quantiles

from figures import Figure, Setting, figure
from kernels import Kernel, Message
from live_launch import END, live_launch

SINGLE, SINGLE_EVERY = 30, 0.21
"""Changes that come one at a time.

Further apart than the publisher's interval, so that none waits for it.
"""
BURST, BURST_EVERY = 200, 0.01
TARGET_MS = 250.0

_TICK = re.compile(r"tick (\d+) of the benchmark")


def measure(setting: Setting) -> list[Figure]:
    """Measure latencies in milliseconds.

    They include the publisher's interval and the front end's ZMQ socket, but not the browser's
    drawing.
    """
    with live_launch(setting.home) as kernel:
        single = _latencies(kernel, setting.takes(SINGLE), SINGLE_EVERY)
        burst = _latencies(kernel, setting.takes(BURST), BURST_EVERY)
        kernel.run(END)
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
