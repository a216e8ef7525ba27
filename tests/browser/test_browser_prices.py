"""A person chooses among prices: searches, narrows down, groups, compares, and takes a cell."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from notebook_page import NotebookPage, column, panel
from pictures import Album
from playwright.sync_api import Locator, expect

MANY = """
import numpy as np
from nbprov.notebook.magics.prices import PriceResult
everything = nbprov.prices()
everything.rows = everything.rows.take(np.repeat(np.arange(len(everything)), 23))
PriceResult(everything, "many")
"""

FOLDED = """
from nbprov.notebook.magics.prices import PriceResult
PriceResult(nbprov.prices("H100:8"), "some", {"aws": "no key"})
"""


def _grid(prices: Locator) -> Locator:
    return prices.locator('[role="grid"]')


def _rows(prices: Locator) -> int:
    foot = prices.locator(".nbprov-foot")
    expect(foot).to_have_text(re.compile(r"^[\d,]+ "))
    told = foot.text_content() or ""
    found = re.match(r"[\d,]+", told)
    assert found is not None, told
    return int(found[0].replace(",", ""))


@pytest.mark.firefox
def test_a_person_finds_compares_and_takes_a_machine(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """Words, facets and groups narrow the table down; chosen rows become a cell and a copy."""
    notebook = open_notebook(["%load_ext nbprov", "%prices", "offers.shape"])
    notebook.run("%load_ext")
    prices = panel(notebook.run("%prices"), "Prices")
    expect(_grid(prices)).to_be_visible()
    everything = _rows(prices)

    # Words that mean something: the GPU and the continent, and not letters somewhere.
    search = prices.get_by_role("searchbox", name="Show only rows that match these words")
    search.fill("h100 europe")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d+ of "))
    found = _rows(prices)
    assert 0 < found < everything
    assert all("H100" in gpu for gpu in column(prices, "GPU"))
    search.fill("h100 germany")
    expect(prices.locator(".nbprov-foot")).not_to_have_text(re.compile(f"^{found} of"))

    # Facets with counts; a choice is a chip that can be taken away.
    search.fill("h100")
    clouds = prices.locator(".nbprov-menu-button").filter(has_text="cloud")
    clouds.click()
    choice = prices.locator(".nbprov-choice", has_text="runpod")
    told = int((choice.locator(".nbprov-many").text_content() or "").replace(",", ""))
    choice.locator("input").check()
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(f"^{told:,} of "))
    notebook.page.keyboard.press("Escape")
    expect(clouds).to_be_focused()
    assert set(column(prices, "cloud")) == {"runpod"}
    album.take("prices-facets", prices)

    # Rows become a cell; the keyboard adds the next one.
    first = prices.locator('[role="row"][aria-rowindex="2"] [role="gridcell"]').first
    first.click()
    expect(prices.locator(".nbprov-cell-text")).to_contain_text("cloud: runpod")
    notebook.page.keyboard.press("Shift+ArrowDown")
    expect(prices.locator(".nbprov-picked")).to_have_text("2 chosen")
    expect(prices.locator(".nbprov-cell-text")).to_contain_text("any_of:")
    album.take("prices-picked", prices.locator(".nbprov-table"), prices.locator(".nbprov-picks"))
    prices.get_by_role("button", name="Compare").click()
    expect(prices.locator(".nbprov-compared th[scope=row]").first).to_have_text("GPU")

    # Ctrl-C copies the rows; the DataFrame holds what matches.
    prices.locator('[role="row"][aria-rowindex="3"] [role="gridcell"]').first.click()
    notebook.page.keyboard.press("Control+c")
    expect(prices.locator(".nbprov-status")).to_have_text("1 row copied")
    copied = notebook.clipboard()
    assert copied.splitlines()[0].startswith("GPU\t$/GPU-h\t$/h\t$/month")
    assert len(copied.splitlines()) == 2
    prices.get_by_role("button", name="DataFrame").click()
    expect(prices.locator(".nbprov-status")).to_contain_text("offers is a DataFrame")
    expect(notebook.run("offers.shape")).to_contain_text(f"({told}, ")

    # Groups are lines that open.
    prices.get_by_role("button", name="Clear").click()
    prices.get_by_label("Group the rows").select_option("gpu")
    line = prices.locator(".nbprov-group").first
    expect(line).to_contain_text(re.compile(r"▸ .*, from \$.* a GPU-hour"))
    line.click()
    expect(line).to_contain_text("▾")
    clouds.click()
    expect(prices.locator(".nbprov-choice", has_text="runpod")).to_be_visible()
    # Not the whole panel, which is higher than the window with the comparison.
    tools = prices.locator(".nbprov-price-tools")
    album.take("prices-groups", tools, prices.locator(".nbprov-table"))
    notebook.page.keyboard.press("Escape")


def test_what_cannot_be_launched_is_one_line_a_cloud(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    """Launchable rows come first; a cloud that is not set up is folded into a line with why."""
    notebook = open_notebook(["%load_ext nbprov\nimport nbprov", FOLDED])
    notebook.run("%load_ext")
    prices = panel(notebook.run("from nbprov.notebook.magics"), "Prices")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile("offers"))
    assert "aws" not in column(prices, "cloud")
    _grid(prices).evaluate("element => { element.scrollTop = element.scrollHeight; }")
    line = prices.locator(".nbprov-group")
    expect(line).to_contain_text(re.compile(r"aws is not set up \(no key\): \d+ offers, from \$"))
    expect(prices.locator(".nbprov-off")).to_have_count(0)
    line.click()
    expect(line).to_contain_text("▾")
    notebook.page.keyboard.press("ArrowDown")
    expect(prices.locator(".nbprov-off").first).to_be_visible()


def test_hundreds_of_thousands_of_rows_arrive_sort_and_scroll(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    """740,000 rows: the first page is there before the rest, and the last row can be seen."""
    notebook = open_notebook(["%load_ext nbprov\nimport nbprov", MANY])
    notebook.run("%load_ext")
    prices = panel(notebook.run("import numpy"), "Prices")
    expect(prices.locator('[role="row"][aria-rowindex="2"]')).to_be_visible()
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d{3},\d{3} offers"))
    rows = _rows(prices)
    assert rows > 700_000
    prices.get_by_role("searchbox").first.fill("spot a100")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile("of"))
    prices.get_by_role("button", name="Clear").click()
    prices.locator('[role="row"][aria-rowindex="2"] [role="gridcell"]').first.click()
    notebook.page.keyboard.press("Control+End")
    focused = prices.locator('[role="gridcell"]:focus')
    expect(focused.locator("xpath=..")).to_have_attribute("aria-rowindex", str(rows + 1))
    expect(focused).to_be_in_viewport()
