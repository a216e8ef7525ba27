"""Measure the price table, short and long: the kernel's share, and what a browser makes of it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from figures import Figure, Setting, figure, milliseconds
from panel_page import HERE, SCRIPT, Files, panel_pages

from nbprov.api.price_query import Prices
from nbprov.catalog import Catalog, Query, shipped_folder
from nbprov.notebook import widget_assets
from nbprov.notebook.rendering.offer_columns import table_of_prices
from nbprov.notebook.rendering.packed_table import PackedTable

FEW, MANY = 40_000, 740_000
"""About the shipped prices, and as many as a table was ever asked to hold."""
TAKES = 5
MIB = 1024 * 1024
MOST_KERNEL_MS = 300.0
MOST_FIRST_MS = 500.0
MOST_ALL_MS = 3_000.0
FRAME_MS = 1_000 / 60 + 0.5
"""A frame at 60 a second; browsers give its time in steps of a tenth of a millisecond and more."""


def measure(setting: Setting) -> list[Figure]:
    """Measure milliseconds, in the browser until the change has been drawn, and MiB."""
    catalog = Catalog.open([setting.catalogs or shipped_folder()])
    return [*_of_rows(setting, catalog, FEW), *_of_rows(setting, catalog, MANY)]


def _of_rows(setting: Setting, catalog: Catalog, rows: int) -> list[Figure]:
    prices = Prices(catalog, Query())
    times = -(-rows // len(prices.rows))
    prices.rows = prices.rows.take(np.repeat(np.arange(len(prices.rows)), times)[:rows])
    off = {"azure": "no adapter yet"}
    make = partial(lambda: PackedTable(table_of_prices(prices, off)))
    packed = make()
    files = _files(packed)
    size = sum(len(body) for _, body in files.values()) / MIB
    takes = [
        figure(
            f"{rows:,} prices: columns and bytes, in the kernel",
            "ms",
            milliseconds(make, setting.takes(TAKES)),
            MOST_KERNEL_MS,
        ),
        figure(f"{rows:,} prices: sent to the page", "MiB", [size], shown=True),
    ]
    seen = _in_browser(files, setting.takes(TAKES))
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
    return takes + [
        figure(
            f"{rows:,} prices: {words}",
            "ms",
            [one[key] for one in seen],
            most,
            shown=key != "frame_95",
        )
        for key, words, most in named
    ]


def _in_browser(files: Files, takes: int) -> list[dict[str, float]]:
    script = (SCRIPT, (HERE / "price_table_page.js").read_bytes())
    seen = []
    with panel_pages(widget_assets.PRICE_TABLE, {**files, "/measure.js": script}) as open_page:
        for _ in range(takes):
            page = open_page()
            seen.append(page.evaluate("import('/measure.js').then((made) => made.measure())"))
            page.close()
    return seen


def _files(packed: PackedTable) -> dict[str, tuple[str, bytes]]:
    """The table as files: what the messages hold beside their buffers, and those of each page."""
    pages = list(packed.pages())
    head = {
        "table": packed.header,
        "pages": [
            {"start": page.start, "end": page.end, "sizes": [b.nbytes for b in page.buffers]}
            for page in pages
        ],
    }
    files = {"/head.json": ("application/json", json.dumps(head).encode())}
    for number, page in enumerate(pages):
        files[f"/page/{number}"] = ("application/octet-stream", b"".join(page.buffers))
    return files
