"""A price table of the catalogue's length and more is sorted and scrolled with few rows in the
page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from notebook_page import NotebookPage, column, header, panel
from playwright.sync_api import Locator, expect

ROWS = 40_000
LONGER = (
    f"from nbprov.notebook.panels.price_table import PriceTable\noffers = _.prices.offers()\n"
    f"PriceTable((offers * 2)[:{ROWS}])"
)
MOST_DRAWN = 100


@pytest.mark.firefox
def test_forty_thousand_rows(open_notebook: Callable[..., NotebookPage]) -> None:
    """The last row is one key press away, and sorting puts the most expensive first."""
    notebook = open_notebook(["%load_ext nbprov", "%prices", LONGER])
    notebook.run("%load_ext")
    everything = panel(notebook.run("%prices"), "Prices")
    heading = everything.locator(".nbprov-title").text_content() or ""
    told = re.search(r"([\d,]+) offers", heading)
    assert told is not None, heading
    expect(_grid(everything)).to_have_attribute(
        "aria-rowcount", str(int(told[1].replace(",", "")) + 1)
    )
    prices = panel(notebook.run("from nbprov"), "Prices")
    expect(_grid(prices)).to_have_attribute("aria-rowcount", str(ROWS + 1))
    _go_to_the_end(notebook, prices)
    dearest = max(_dollars(text) for text in column(prices, "$/h"))
    for _ in range(2):
        header(prices, "$/h").locator("button").click()
    notebook.page.keyboard.press("Control+Home")
    expect(prices.locator('[role="row"][aria-rowindex="2"]')).to_be_in_viewport()
    assert _dollars(column(prices, "$/h")[0]) >= dearest
    _grid(prices).evaluate("element => { element.scrollTop = element.scrollHeight / 2; }")
    expect(prices.locator(f'[role="row"][aria-rowindex="{ROWS // 2 + 5}"]')).to_be_in_viewport()
    assert _drawn(prices) < MOST_DRAWN


def _go_to_the_end(notebook: NotebookPage, prices: Locator) -> None:
    assert _drawn(prices) < MOST_DRAWN
    prices.locator('[role="row"][aria-rowindex="2"] [role="gridcell"]').first.click()
    notebook.page.keyboard.press("Control+End")
    focused = prices.locator('[role="gridcell"]:focus')
    expect(focused.locator("xpath=..")).to_have_attribute("aria-rowindex", str(ROWS + 1))
    expect(focused).to_be_in_viewport()
    assert _drawn(prices) < MOST_DRAWN


def _grid(prices: Locator) -> Locator:
    return prices.locator('[role="grid"]')


def _drawn(prices: Locator) -> int:
    return prices.locator('.nbprov-body [role="row"]').count()


def _dollars(text: str) -> float:
    return float(text.strip("$").replace(",", ""))
