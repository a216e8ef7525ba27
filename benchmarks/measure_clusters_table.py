"""Measure the clusters table with few and many clusters, from the ledger to the drawn page."""

from __future__ import annotations

import time
from collections.abc import Callable

from figures import Figure, Setting, figure, milliseconds
from known_clusters import KnownClusters, known_clusters
from panel_page import PanelPage, panel_pages, recorded_messages
from playwright.sync_api import Page

from nbprov.notebook import widget_assets
from nbprov.notebook.panels.clusters_table import ClustersTable
from nbprov.runtime.publisher import INTERVAL

COUNTS = (10, 100)
TAKES = 9
KIB = 1024
MOST_VIEW_MS = INTERVAL * 1000
"""The publisher's interval, or the engine's thread would do nothing else while things change."""
MOST_FIRST_MS = 500.0
MOST_TICK_MS = 100.0
"""What still feels immediate to a person who presses a button meanwhile; two frames of it pass
before a change counts as drawn."""


def measure(setting: Setting) -> list[Figure]:
    """Measure milliseconds of the kernel's processor and of the page, and the size of a message."""
    figures: list[Figure] = []
    with panel_pages(widget_assets.CLUSTERS_TABLE) as open_page:
        for count in COUNTS:
            with known_clusters(setting.home / f"clusters-{count}", count) as known:
                figures += _of_clusters(known, open_page, setting.takes(TAKES))
    return figures


def _of_clusters(known: KnownClusters, open_page: Callable[[], Page], takes: int) -> list[Figure]:
    count = len(known.names)
    for name in known.names:
        known.set_load(name, 0)
    turns = iter(range(1, takes + 1))
    with recorded_messages() as messages:
        panel = ClustersTable(known.session.clusters())
        panel.widget_bundle()
        first = panel.state()
        messages.clear()

        def tick() -> None:
            known.set_load(known.names[0], next(turns))
            panel.update(known.session.clusters())

        built = milliseconds(tick, takes, time.thread_time)
    if len(messages) != takes:
        raise RuntimeError(f"{len(messages)} messages for {takes} changes")
    drawn, ticks = [], []
    for message in messages:  # one page at a time, since each has timers of its own
        page = PanelPage(open_page())
        drawn.append(page.show(first))
        ticks.append(page.receive(message))
        page.page.close()
    of = f"{count} clusters"
    return [
        figure(f"{of}: processor time of a view and its message", "ms", built, MOST_VIEW_MS),
        figure(f"{of}: a message", "KiB", [len(m) / KIB for m in messages], shown=True),
        figure(f"{of}: the table is drawn", "ms", drawn, MOST_FIRST_MS),
        figure(f"{of}: a change of one of them is drawn", "ms", ticks, MOST_TICK_MS),
    ]
