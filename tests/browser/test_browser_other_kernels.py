"""Panels that Voila serves follow what the kernel of another notebook does, without a reload."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import TOKEN, Lab
from local_cloud import machines, set_market
from notebook_page import NotebookPage, panel, state
from playwright.sync_api import Browser, Locator, Page, expect

LONG_MS = 60_000
CELLS = ["%load_ext nbprov", "%nbprov dashboard", "%clusters"]
LAUNCH = "%%provision dev --yes\nresources: {accelerators: A100, infra: local}"
DOWN = "%nbprov down dev"
UNDER_WAY = "launches in progress"
WRITE_DOWN = """panels => {
    window.written = panels.map(() => []);
    panels.forEach((panel, number) => {
        const write = () => window.written[number].push(panel.innerText);
        const how = { childList: true, subtree: true, characterData: true };
        new MutationObserver(write).observe(panel, how);
    });
}"""
"""Keeps every text that panels had from now on."""


@pytest.fixture
def served(lab: Lab, browser: Browser, nbprov_home: Path) -> Iterator[Page]:
    """A page of Voila whose own kernel shows the dashboard and the clusters."""
    lab.add_kernel("served", {"NBPROV_HOME": str(nbprov_home)})
    file = lab.add_notebook("served.ipynb", "served", CELLS)
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    page.goto(f"{lab.url}/voila/render/{file.name}?token={TOKEN}", timeout=LONG_MS)
    yield page
    page.close()


def rows(table: Locator) -> Locator:
    """Return the rows of clusters."""
    return table.get_by_role("table", name="Clusters").locator("tbody > tr:not([class])")


def test_a_launch_of_another_kernel_comes_into_the_open_page_and_leaves_it(
    open_notebook: Callable[..., NotebookPage], served: Page, tmp_path: Path
) -> None:
    board, table = (panel(served.locator("body"), "Clusters").nth(n) for n in range(2))
    title = board.locator(".nbprov-title")
    expect(title).to_have_text("nbprov: no cluster is live", timeout=LONG_MS)
    expect(table.locator(".nbprov-title")).to_have_text("no clusters")
    spent = board.locator(".nbprov-figure", has_text="today, simulated")
    expect(spent).to_have_count(0)
    served.evaluate(WRITE_DOWN, [board.element_handle(), table.element_handle()])

    notebook = open_notebook(["%load_ext nbprov", LAUNCH, DOWN])
    set_market(notebook.home, accept=2.0, boot=2.0, stocked=True)
    notebook.run("%load_ext")
    launch = panel(notebook.run("%%provision"), "Provision")
    for part in (board, table):
        expect(rows(part)).to_contain_text("running")
        expect(rows(part)).to_contain_text("local/")
    expect(title).to_have_text("nbprov: 1 cluster live")
    expect(board).not_to_contain_text(UNDER_WAY)
    expect(board.get_by_role("group", name="Load of dev")).to_contain_text(re.compile(r"CPU\d+ %"))
    served.screenshot(path=tmp_path / "running.png")
    # What was there before, however short it was.
    was_on_board, was_in_table = served.evaluate("window.written")
    assert any("1 cluster launching" in told and UNDER_WAY in told for told in was_on_board)
    assert any("1 cluster launching, $" in told for told in was_in_table)
    expect(state(launch)).to_have_text("ready")

    notebook.run(DOWN)
    assert machines(notebook.home) == 0
    # The dashboard lists what is on the bill, and counts the rest as spent today. The table keeps
    # the row, since one that vanishes would leave the person wondering.
    expect(title).to_have_text("nbprov: no cluster is live")
    expect(rows(board)).to_have_count(0)
    expect(spent).to_contain_text(re.compile(r"\$\d"))
    expect(spent).not_to_contain_text("/h now")
    expect(rows(table)).to_contain_text("ended")
    served.screenshot(path=tmp_path / "ended.png")
    assert served.evaluate("window.written[0] !== undefined"), "the page was reloaded"
