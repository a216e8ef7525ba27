"""Measure what a page holds more of after a dashboard has been open in it for an hour.

The page's clock is set by hand: its timers run as in an hour, as fast as the page draws.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace

from figures import Figure, Setting, figure
from known_clusters import KnownClusters, known_clusters
from panel_page import PanelPage, panel_pages, recorded_messages
from playwright.sync_api import Page

from nbprov.api.reports.dashboard_data import overview
from nbprov.notebook import widget_assets
from nbprov.notebook.panels.dashboard import Dashboard
from nbprov.notebook.panels.dashboard_view import DashboardView, view_of

CLUSTERS = 10
LOOK_SECONDS = 5
"""The page asks so often for the load of the machines, and gets a message with what changed."""
HOUR, MINUTE = 3600 // LOOK_SECONDS, 60 // LOOK_SECONDS
"""Looks."""
WARM_UP = 5 * MINUTE
"""Looks before the first reading: by then everything has been drawn and its code compiled."""
MOST_HEAP_KIB = 1024.0
"""An hour's growth with which a page that is open for a week stays under 170 MiB more."""
MOST_NODES = 100.0
"""Fewer than those of one cluster, of which sixty come and go."""
TASK = {"kind": "job", "code": "", "words": "ok", "started": 0, "ended": 5}


@dataclass(frozen=True)
class Holdings:
    """What a page holds once its garbage is collected."""

    heap_kib: float
    nodes: float
    listeners: float


def measure(setting: Setting) -> list[Figure]:
    """Measure KiB and numbers of nodes and listeners; less than nothing counts as nothing."""
    with (
        recorded_messages() as messages,
        panel_pages(widget_assets.CLUSTERS_TABLE) as open_page,
        known_clusters(setting.home / "open-page", CLUSTERS) as known,
    ):
        page = open_page()
        page.clock.install()
        board = _Board(known, PanelPage(page), messages)
        warm, end = (MINUTE, 5 * MINUTE) if setting.quick else (WARM_UP, HOUR)
        for turn in range(warm):
            board.look(turn)
        before = _holdings(page)
        for turn in range(warm, warm + end):
            board.look(turn)
        after = _holdings(page)
    of = f"a dashboard that is open for {end * LOOK_SECONDS // 60} minutes"
    heap, nodes, listeners = (
        max(0.0, late - early) for late, early in zip(astuple(after), astuple(before), strict=True)
    )
    return [
        figure(f"{of}: heap", "KiB", [heap], MOST_HEAP_KIB),
        figure(f"{of}: nodes", "nodes", [nodes], MOST_NODES),
        figure(f"{of}: listeners", "listeners", [listeners]),
        figure(f"{of}: heap at its end", "KiB", [after.heap_kib], shown=True),
    ]


class _Board:
    """A dashboard with what happens around it."""

    def __init__(self, known: KnownClusters, page: PanelPage, messages: list[str]) -> None:
        self._known, self._page, self._messages = known, page, messages
        self._panel = Dashboard(self._view(0), on_down=print, on_stop=print, on_tasks=print)
        self._panel.widget_bundle()
        page.show(self._panel.state())
        for name in known.names:
            self._read_tasks(name)

    def _view(self, turn: int) -> DashboardView:
        session = self._known.session
        view = view_of(overview(session.context, session.services))
        return replace(view, now=view.now + LOOK_SECONDS * turn)

    def look(self, turn: int) -> None:
        """Let the time until the next look pass, and draw what it brings."""
        known = self._known
        if turn % MINUTE == 1:
            known.end_oldest()
            known.add()
        if turn % MINUTE == 2:
            self._read_tasks(known.names[-1])
        for name in known.names:
            known.set_load(name, turn)
        self._messages.clear()
        self._panel.update(self._view(turn))
        self._page.page.clock.run_for(LOOK_SECONDS * 1000)
        for message in self._messages:
            self._page.receive(message)

    def _read_tasks(self, name: str) -> None:
        """Open the jobs and cells of a cluster, and close them."""
        toggle = self._page.page.get_by_role("button", name=f"jobs, cells, log of {name}")
        toggle.dispatch_event("click")
        tasks = [{**TASK, "id": f"count-{number}"} for number in range(5)]
        told = {"type": "tasks", "view": "", "name": name, "tasks": tasks, "problem": ""}
        self._page.receive(json.dumps({"method": "custom", "content": told}))
        toggle.dispatch_event("click")


def _holdings(page: Page) -> Holdings:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    for _ in range(2):  # what the first collection finishes, the second one takes
        devtools.send("HeapProfiler.collectGarbage")
    found = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
    devtools.detach()
    return Holdings(found["JSHeapUsedSize"] / 1024, found["Nodes"], found["JSEventListeners"])
