"""Measure 10,000 changes of a launch within a second, and check that its panel ends as it did."""

from __future__ import annotations

import json
import re
from queue import Empty
from typing import Any

from figures import Figure, Setting, figure
from kernels import Kernel, Message
from live_launch import END, live_launch
from panel_page import PanelPage, panel_pages

from nbprov.notebook import widget_assets
from nbprov.runtime.publisher import INTERVAL

CHANGES, SECONDS = 10_000, 1.0
TAKES = 3
MOST_MESSAGES = 2 * SECONDS / INTERVAL
"""Twice what the publisher sends meanwhile: a busy kernel takes longer than the second."""
QUIET_SECONDS = 1.0
"""Nothing of a panel is sent later than this: six of the publisher's intervals."""
MOST_DRAWN_MS = 100.0

# The panel of the launch as its displays know it, and a second one of the launch as it is now.
_PANELS = """
import json, time
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.run_panel import RunPanel
shown = next(follower._display.panel for follower in DisplayFollower._open)
"""
_SHOWN = "print(json.dumps(shown.state()))"
_TRUTH = "print(json.dumps({**shown.state(), **RunPanel(bench.view()).state(), 'actions': %s}))"
_PROCESSOR = "print(time.process_time())"
_TOOK = "print(stamps[-1] - stamps[0])"


class FinalStateError(Exception):
    """The page does not show what became of the launch."""


def measure(setting: Setting) -> list[Figure]:
    """Measure numbers of messages, the kernel's processor and the page's time to draw.

    Raises
    ------
    FinalStateError
        If the page ends otherwise than the launch.
    """
    takes = setting.takes(TAKES)
    bursts: list[tuple[list[Message], float]] = []
    took: list[float] = []
    with live_launch(setting.home) as kernel:
        kernel.run(_PANELS)
        first = json.loads(kernel.run(_SHOWN).text)
        for _ in range(takes):
            bursts.append(_burst(kernel))
            took.append(float(kernel.run(_TOOK).text))
        last = _end(kernel)
        truth = json.loads(kernel.run(_TRUTH % repr(_states(last)[-1]["actions"])).text)
    drawn = _drawn(first, [*(m for found, _ in bursts for m in found), *last], truth)
    of = f"{CHANGES:,} changes of a launch in {SECONDS:g} s"
    counts = [float(len(found)) for found, _ in bursts]
    return [
        figure(f"{of}: how long they took", "s", took),
        figure(f"{of}: messages", "messages", counts, MOST_MESSAGES),
        figure(f"{of}: processor time of the kernel", "ms", [ms for _, ms in bursts], shown=True),
        figure(f"{of}: a message is drawn", "ms", drawn, MOST_DRAWN_MS),
    ]


def _burst(kernel: Kernel) -> tuple[list[Message], float]:
    """The messages of a burst, the last of which has its last change, and the processor's ms."""
    found: list[Message] = []

    def take(message: Message, _: float) -> bool:
        if message["msg_type"] == "comm_msg":
            found.append(message["content"]["data"])
            return f'"tick {CHANGES} of' in json.dumps(found[-1])
        return False

    before = float(kernel.run(_PROCESSOR).text)
    kernel.run(f"tick({CHANGES}, {SECONDS / CHANGES})")
    kernel.listen(take)
    after = float(kernel.run(_PROCESSOR).text)
    return found, (after - before) * 1000


def _end(kernel: Kernel) -> list[Message]:
    """The messages of the launch's end, until there are no more."""
    found: list[Message] = []
    request, is_over = kernel.client.execute(END), False
    while True:
        try:
            message = kernel.client.get_iopub_msg(timeout=QUIET_SECONDS)
        except Empty:
            if is_over:
                return found
            continue
        if message["msg_type"] == "comm_msg":
            found.append(message["content"]["data"])
        if message["parent_header"].get("msg_id") == request:
            is_over |= message["content"].get("execution_state") == "idle"


def _states(messages: list[Message]) -> list[dict[str, Any]]:
    """The whole states; of one that is cut short for the saved notebook the whole comes after."""
    told = [m["content"] if m["method"] == "custom" else m["state"] for m in messages]
    return [one["state"] for one in told if "state" in one and not one["state"].get("is_cut")]


def _drawn(first: dict[str, Any], messages: list[Message], truth: dict[str, Any]) -> list[float]:
    """How long a page takes to draw each message; its end is compared with the truth."""
    last = _states(messages)[-1]
    differing = sorted(key for key in truth if truth[key] != last[key] and key != "now")
    if differing:
        raise FinalStateError(f"the last message differs from the launch in {differing}")
    with panel_pages(widget_assets.RUN_PANEL) as open_page:
        followed, fresh = PanelPage(open_page()), PanelPage(open_page())
        followed.show(first)
        drawn = [followed.receive(json.dumps(message)) for message in messages]
        fresh.show(truth)
        seen, wanted = (re.sub(r"\s+", " ", one.text()) for one in (followed, fresh))
        if seen != wanted:
            raise FinalStateError(f"the page shows {seen!r} and not {wanted!r}")
    return drawn
