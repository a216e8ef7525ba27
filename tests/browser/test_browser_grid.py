"""A price table as long as the catalogue: drawn, sorted and scrolled with a handful of rows in the page."""

from __future__ import annotations

import re
from collections.abc import Callable

from notebook_page import NotebookPage, column, header, panel
from playwright.sync_api import expect

ROWS = 40_000
MOST_DRAWN = 100


def test_forty_thousand_rows(open_notebook: Callable[..., NotebookPage]) -> None:
    """The last row is a key press away; sorting puts the dearest first and the cheapest last."""
    notebook = open_notebook(["%load_ext nbprov", "%prices"])
    notebook.run("%load_ext")
    prices = panel(notebook.run("%prices"), "Prices")
    grid = prices.locator('[role="grid"]')
    expect(grid).to_have_attribute("aria-rowcount", str(ROWS + 1))
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^40,000 offers"))
    drawn = prices.locator('.nbprov-body [role="row"]')
    assert drawn.count() < MOST_DRAWN
    cheapest = _dollars(column(prices, "$/h")[0])
    prices.locator('[role="row"][aria-rowindex="2"] [role="gridcell"]').first.click()
    keys = notebook.page.keyboard
    keys.press("Control+End")
    focused = prices.locator('[role="gridcell"]:focus')
    expect(focused.locator("xpath=..")).to_have_attribute("aria-rowindex", str(ROWS + 1))
    expect(focused).to_be_in_viewport()
    dearest = _dollars(column(prices, "$/h")[-1])
    assert dearest > cheapest
    for _ in range(2):
        header(prices, "$/h").locator("button").click()
    keys.press("Control+Home")
    expect(prices.locator('[role="row"][aria-rowindex="2"]')).to_be_in_viewport()
    assert _dollars(column(prices, "$/h")[0]) == dearest
    grid.evaluate("element => { element.scrollTop = element.scrollHeight / 2; }")
    expect(prices.locator(f'[role="row"][aria-rowindex="{ROWS // 2}"]')).to_be_in_viewport()
    assert drawn.count() < MOST_DRAWN
    heights = prices.evaluate("root => [root.offsetHeight, root.scrollHeight]")
    assert heights[1] < 2 * heights[0]


def _dollars(text: str) -> float:
    return float(text.strip("$").replace(",", ""))
