"""The story of the quickstart in real JupyterLab: from prices to a machine, its use, and its
end."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable

import pytest
from lab import QUICKSTART
from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, column, header, output, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

ACCEPT_SECONDS = 0.5
BOOT_SECONDS = 2.5
REFUSED = ["out of stock", "out of stock", "out of stock", "over your quota", "out of stock"]
ATTEMPTS = len(REFUSED) + 1


@pytest.mark.firefox
def test_quickstart(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """Every step of a person, with what they see at each one."""
    notebook = open_notebook(QUICKSTART)
    set_market(notebook.home, accept=ACCEPT_SECONDS, boot=BOOT_SECONDS)
    assert notebook.run("%load_ext nbprov").text_content() == ""
    _look_at_prices(notebook, album)
    _launch(notebook, album)
    _use(notebook)
    _look_at_clusters(notebook, album)
    _provision_again(notebook)
    _down(notebook)


def _look_at_prices(notebook: NotebookPage, album: Album) -> None:
    prices = panel(notebook.run("%prices A100"), "Prices")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d+ offers$"))
    album.take("price-table", notebook.cell("%prices A100"))
    given = column(prices, "type")
    dollars = header(prices, "$/h")
    for order, reverse in (("ascending", False), ("descending", True)):
        dollars.locator("button").click()
        expect(dollars).to_have_attribute("aria-sort", order)
        amounts = [float(text.strip("$").replace(",", "")) for text in column(prices, "$/h")]
        assert amounts == sorted(amounts, reverse=reverse)
    dollars.locator("button").click()
    expect(dollars).to_have_attribute("aria-sort", "none")
    assert column(prices, "type") == given
    search = prices.get_by_label("Show only rows that match these words")
    search.fill("gcp spot")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d+ of \d+ offers$"))
    assert set(column(prices, "cloud")) == {"gcp"}
    assert set(column(prices, "market")) == {"spot"}
    search.fill("")
    _move_by_keys(notebook)


def _move_by_keys(notebook: NotebookPage) -> None:
    """Keys pressed in the table move in the table, and JupyterLab does not use them for its
    cells."""
    prices = panel(output(notebook.cell("%prices A100")), "Prices")
    before = notebook.active_cell(), notebook.cells()
    prices.locator('[role="row"][aria-rowindex="2"] [role="gridcell"]').first.click()
    keys = notebook.page.keyboard
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "a", "b", "x", "d", "d"):
        keys.press(key)
    focused = prices.locator('[role="gridcell"]:focus')
    expect(focused).to_have_attribute("aria-colindex", "2")
    assert focused.locator("xpath=..").get_attribute("aria-rowindex") == "4"
    assert (notebook.active_cell(), notebook.cells()) == before
    keys.press("Escape")
    expect(focused).to_have_count(0)
    keys.press("ArrowDown")
    assert notebook.active_cell() == before[0] + 1


def _launch(notebook: NotebookPage, album: Album) -> None:
    run = panel(notebook.run("%%provision dev"), "Provision")
    expect(state(run)).to_have_text("waiting for Launch")
    zones = column(run, "zone")
    assert zones == [
        f"local-{region}-{zone}" for region in ("south", "east", "north") for zone in "abc"
    ]
    assert column(run, "why here")[0] == "cheapest"
    expect(header(run, "stock")).to_have_count(0)  # the column is empty, so it is not drawn
    assert machines(notebook.home) == 0
    button(run, "Launch").click()
    attempts = run.get_by_role("table", name="Attempts")
    expect(
        attempts.locator(".nbprov-badge").filter(has_text=re.compile("^refused$"))
    ).to_have_count(len(REFUSED))
    expect(attempts.locator(".nbprov-badge").last).to_have_text("booting")
    expect(state(run)).to_have_text("launching")
    album.take("failover", notebook.cell("%%provision dev"))
    assert (
        attempts.locator(".nbprov-reason button").filter(has_text="o").all_inner_texts() == REFUSED
    )
    expect(state(run)).to_have_text("ready")
    assert machines(notebook.home) == 1
    expect(button(run, "Launch")).to_have_count(0)


def _use(notebook: NotebookPage) -> None:
    expect(notebook.run("%%on dev", 0)).to_contain_text("running on")
    expect(output(notebook.cell("%%on dev", 0))).to_contain_text("4.0")
    expect(notebook.run("%%on dev", 1)).to_contain_text("still here: [0.5, 1.5, 2.0, 4.0]")
    expect(notebook.run("%%on dev --bash")).to_contain_text("GPU 0: A100")


def _look_at_clusters(notebook: NotebookPage, album: Album) -> None:
    table = panel(notebook.run("%clusters"), "Clusters")
    expect(table.locator(".nbprov-badge")).to_have_text("running")
    expect(table).to_contain_text("down after 30 min idle")
    album.take(
        "running-cluster",
        notebook.cell("%%on dev", 1),
        notebook.cell("%%on dev --bash"),
        notebook.cell("%clusters"),
    )


def _provision_again(notebook: NotebookPage) -> None:
    again = notebook.run("%%provision dev", 1)
    expect(again).to_contain_text("dev is running and fits: nothing was launched")
    told = notebook.run("%nbprov attempts").inner_text().strip().splitlines()
    assert len([line for line in told if re.match(r"\s*\d+ ", line)]) == ATTEMPTS
    assert machines(notebook.home) == 1


def _down(notebook: NotebookPage) -> None:
    run = panel(output(notebook.cell("%%provision dev")), "Provision")
    clusters = panel(output(notebook.cell("%clusters")), "Clusters")
    _copy_what_comes_next(notebook, run)
    button(run, "Down").click()
    assert machines(notebook.home) == 1, "Down asks a second press"
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended")
    expect(clusters.locator(".nbprov-badge")).to_have_text("ended")
    assert machines(notebook.home) == 0


def _copy_what_comes_next(notebook: NotebookPage, run: Locator) -> None:
    """The next cell and the ssh command go to the clipboard."""
    button(run, "Copy next cell").click()
    expect(run.locator(".nbprov-status")).to_have_text("the cell is copied")
    assert notebook.clipboard().startswith("%%on ")
    button(run, "Copy ssh").click()
    expect(run.locator(".nbprov-status")).to_contain_text("the ssh command is copied")
    words = shlex.split(notebook.clipboard())
    done = subprocess.run(
        [*words, "echo there"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "there\n", done.stderr
