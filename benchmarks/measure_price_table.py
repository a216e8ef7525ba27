"""Measure the price table at 740,000 rows: the kernel's share, and what a browser makes of it.

The browser is Chromium, which runs the panel's own code over the bytes that the kernel sends; the
way between them is a server on loopback.
"""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, Setting, figure, milliseconds

from nbprov.api.price_query import Prices
from nbprov.catalog import Catalog, Query, shipped_folder
from nbprov.notebook import widget_assets
from nbprov.notebook.rendering.offer_columns import table_of_prices
from nbprov.notebook.rendering.table_packing import PackedTable

ROWS = 740_000
TAKES = 5
PAGE = Path(__file__).with_name("price_table_page.html")
CHROMIUM = ("/usr/bin/chromium", "/usr/bin/google-chrome")
MOST_KERNEL_MS = 300.0
MOST_FIRST_MS = 500.0
MOST_ALL_MS = 3_000.0
FRAME_MS = 1_000 / 60 + 0.5
"""A frame at 60 a second; browsers give its time in steps of a tenth of a millisecond and more."""


def measure(setting: Setting) -> list[Figure]:
    """Measure milliseconds; in the browser until the change has been drawn."""
    prices = Prices(Catalog.open([setting.catalogs or shipped_folder()]), Query())
    times = -(-ROWS // len(prices.rows))
    prices.rows = prices.rows.take(np.repeat(np.arange(len(prices.rows)), times)[:ROWS])
    off = {"azure": "no adapter yet"}
    make = partial(lambda: PackedTable(table_of_prices(prices, off)))
    takes = [
        figure(
            f"{ROWS:,} prices: columns and bytes, in the kernel",
            "ms",
            milliseconds(make, setting.takes(TAKES)),
            MOST_KERNEL_MS,
        )
    ]
    seen = _in_browser(make(), setting.takes(TAKES))
    named: tuple[tuple[str, str, float | None], ...] = (
        ("first", "the first page is drawn", MOST_FIRST_MS),
        ("all", "all rows can be used", MOST_ALL_MS),
        ("sort", "sorted by price", None),
        ("sort_words", "sorted by region", None),
        ("search", "searched for h100 europe", None),
        ("facet", "one choice of a facet", None),
        ("frame", "a frame while scrolling", FRAME_MS),
        ("frame_95", "a frame while scrolling, 95th percentile", None),
    )
    for key, words, most in named:
        takes.append(figure(f"{ROWS:,} prices: {words}", "ms", [one[key] for one in seen], most))
    return takes


def _in_browser(packed: PackedTable, takes: int) -> list[dict[str, float]]:
    from playwright.sync_api import sync_playwright

    found = next((path for path in CHROMIUM if Path(path).exists()), None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, _files(packed)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=found, headless=True)
            seen = []
            for _ in range(takes):
                page = browser.new_page(viewport={"width": 1240, "height": 900})
                page.goto(f"http://127.0.0.1:{server.server_port}/")
                page.wait_for_function("window.isReady")
                seen.append(page.evaluate("window.measure()"))
                page.close()
            browser.close()
            return seen
    finally:
        server.shutdown()
        server.server_close()


def _files(packed: PackedTable) -> dict[str, tuple[str, bytes]]:
    pages = list(packed.pages())
    head = {
        "table": packed.header,
        "pages": [
            {"start": page.start, "end": page.end, "sizes": [b.nbytes for b in page.buffers]}
            for page in pages
        ],
    }
    files = {
        "/": ("text/html", PAGE.read_bytes()),
        "/panel.js": (
            "text/javascript",
            widget_assets.packed(widget_assets.PRICE_TABLE).encode(),
        ),
        "/style.css": ("text/css", widget_assets.style().encode()),
        "/head.json": ("application/json", json.dumps(head).encode()),
    }
    for number, page in enumerate(pages):
        files[f"/page/{number}"] = ("application/octet-stream", b"".join(page.buffers))
    return files


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, files: dict[str, tuple[str, bytes]], *arguments: Any) -> None:
        self._files = files
        super().__init__(*arguments)

    def do_GET(self) -> None:
        kind, body = self._files.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in self._files else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""
