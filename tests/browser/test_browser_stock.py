"""The stock of a price table: asked while somebody sees it, with the bars of the last day."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from notebook_page import NotebookPage, panel
from pictures import Album
from playwright.sync_api import Locator, expect
from runpod_double import Double as RunPodDouble

LONG_MS = 60_000
LEVELS = re.compile(r"^(high|low|medium|none), ")
PRICES = "%prices L40S:1 --cloud runpod --on-demand"
AGAIN = "%prices L40S:1 --on-demand --cloud runpod"
BARS = '[data-bars]:not([data-bars=""])'
RENEW = "_.renew_column(lambda t: next(c for c in t.columns if c.key == 'stock')); print('renewed')"
# The same answers with what is known of a whole day.
WITH_BARS = """from dataclasses import replace
def with_bars(table):
    stock = next(column for column in table.columns if column.key == "stock")
    answers = [word.split("@")[:2] for word in stock.values.words]
    words = tuple("@".join([*told, "--0011223333"]) if any(told) else "" for told in answers)
    return replace(stock, values=replace(stock.values, words=words))
_.renew_column(with_bars)"""
# How wide a cell is, and how wide it has to be for a text with its bars.
WIDTHS = """(cell, text) => {
    const drawn = cell.offsetWidth, before = cell.textContent;
    cell.textContent = text;
    cell.style.width = "max-content";
    const needed = cell.offsetWidth;
    cell.textContent = before;
    cell.style.width = "";
    return [drawn, needed];
}"""
# What earlier kernels were told of one place, in the last hours.
YESTERDAY = """import time
from nbprov import api
from nbprov.model.stock import Stock, StockLevel
engine, pool = api.session().context.engine, _.prices[0].pool
for hours, level in enumerate(["none", "none", "low", "low", "high", "high"]):
    told = Stock(time.time() - 7200 * (7 - hours), pool, StockLevel(level))
    engine.ledger.observations.record_probes([told])"""


def check_width(cell: Locator) -> None:
    """Check that a cell has room for an old answer with its bars, and little more."""
    drawn, needed = cell.evaluate(WIDTHS, "none, 59 min ago")
    assert needed <= drawn < 1.25 * needed


@pytest.fixture
def env(nbprov_home: Path) -> Iterator[dict[str, str]]:
    folder = nbprov_home.parent / f"{nbprov_home.name}r"
    folder.mkdir()
    with closing(RunPodDouble(machines=folder)) as double:
        yield double.env


def test_stock_comes_into_the_table_while_it_is_seen(
    open_notebook: Callable[..., NotebookPage], env: dict[str, str], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", PRICES, RENEW, WITH_BARS, YESTERDAY, AGAIN], env)
    notebook.run("%load_ext")
    prices = panel(notebook.run(PRICES), "Prices")
    told = prices.get_by_role("gridcell").filter(has_text=LEVELS)
    none = told.filter(has_text=re.compile("^none"))
    expect(told.first).to_be_visible(timeout=LONG_MS)
    expect(none.first).to_be_visible()
    prices.locator(".nbprov-menu-button").filter(has_text="stock").click()
    prices.get_by_role("checkbox", name=re.compile("stock: high")).click()
    expect(none).to_have_count(0)
    expect(told.first).to_have_text(re.compile("^high"))
    # What was chosen stays when the next answers come, and so does the order.
    notebook.run(RENEW)
    expect(notebook.cell(RENEW).locator(".jp-OutputArea-output")).to_contain_text("renewed")
    expect(none).to_have_count(0)
    expect(told.first).to_have_text(re.compile("^high"))
    # The column was drawn without bars, and gets room for them when they come.
    expect(prices.locator(BARS)).to_have_count(0)
    notebook.run("from dataclasses")
    expect(prices.locator(BARS).first).to_be_visible()
    check_width(prices.locator(f'[role="gridcell"]{BARS}').first)
    notebook.run("import time")
    again = panel(notebook.run(AGAIN), "Prices")
    bars = again.locator(BARS)
    expect(bars.first).to_be_visible(timeout=LONG_MS)
    assert "▁▁▃▃▇▇" in (bars.first.get_attribute("data-bars") or "")
    expect(bars.first).to_have_attribute("title", re.compile(r"in stock at \d+ of \d+ times"))
    check_width(again.locator(f'[role="gridcell"]{BARS}').first)
    album.take("stock-while-seen", notebook.cell(AGAIN))
