"""The panels in other hosts than JupyterLab: Notebook 7, and Voila without any cells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import QUICKSTART, ROOT, TOKEN, Lab
from local_cloud import machines, set_market, stop
from notebook_page import NotebookPage, button, panel, state
from pictures import Album
from playwright.sync_api import Browser, expect

LONG_MS = 60_000
NARROW = 400
DASHBOARD = QUICKSTART.with_name("dashboard.ipynb")
SCRIPT = """import nbprov
nbprov.provision("resources: {accelerators: A100, infra: local}", "dev").launch().wait()"""
LAUNCH = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"


@pytest.mark.firefox
def test_notebook_7(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """A launch, a cell there, and an end from the panel of a page that was reloaded."""
    cells = ["%load_ext nbprov", LAUNCH, "%%on dev\nprint('it', 'runs')"]
    notebook = open_notebook(cells, view="notebooks")
    set_market(notebook.home, accept=0.1, boot=0.1)
    notebook.run("%load_ext")
    expect(state(panel(notebook.run("%%provision"), "Provision"))).to_have_text("ready")
    expect(notebook.run("%%on")).to_contain_text("it runs")
    album.take("notebook-7", notebook.cell("%%provision"))
    run = panel(notebook.cell("%%provision"), "Provision")
    run.get_by_role("button", name=re.compile("^Plan")).click()
    box = run.get_by_role("searchbox")
    box.fill("south")
    box.press("Escape")
    expect(box).to_have_value("")
    expect(box).to_be_focused()
    notebook.page.keyboard.press("Escape")
    notebook.page.keyboard.press("Control+s")
    expect(notebook.page.locator(".jp-NotebookCheckpoint")).to_contain_text("Last Checkpoint")
    notebook.goto()
    run = panel(notebook.cell("%%provision"), "Provision")
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended", timeout=LONG_MS)
    assert machines(notebook.home) == 0


@pytest.mark.firefox
def test_voila(lab: Lab, browser: Browser, nbprov_home: Path) -> None:
    """Tables are searched in the page, and their buttons reach the kernel."""
    lab.add_kernel("voila", {"NBPROV_HOME": str(nbprov_home)})
    cells = ["%load_ext nbprov", "%prices A100", "%nbprov dashboard"]
    file = lab.add_notebook("voila.ipynb", "voila", cells)
    page = browser.new_page()
    page.goto(f"{lab.url}/voila/render/{file.name}?token={TOKEN}", timeout=LONG_MS)
    prices = panel(page.locator("body"), "Prices")
    prices.get_by_placeholder(re.compile("search")).fill("gcp spot", timeout=LONG_MS)
    found = re.compile(r"^(\d+) of \d+ offers$")
    expect(prices.locator(".nbprov-foot")).to_have_text(found)
    count = found.match(prices.locator(".nbprov-foot").inner_text())
    assert count is not None
    button(prices, "DataFrame").click()
    expect(prices.get_by_role("status")).to_have_text(
        f"offers is a DataFrame of {count[1]} offers now"
    )
    clusters = panel(page.locator("body"), "Clusters")
    expect(clusters).to_contain_text("no cluster is live")
    # A phone, or a page of 800 pixels at 200 %.
    page.set_viewport_size({"width": NARROW, "height": 800})
    for part in (prices, clusters):
        width = part.evaluate("root => [root.scrollWidth, root.clientWidth]")
        assert width[0] <= width[1] <= NARROW, "a panel is scrolled as a whole"
    for part in (
        prices.get_by_role("searchbox"),
        button(prices, "DataFrame"),
        prices.locator("h2"),
    ):
        if part.count():
            box = part.bounding_box()
            assert box is not None
            assert 0 <= box["x"] < box["x"] + box["width"] <= NARROW
    page.close()


def test_the_example_dashboard_as_an_app(
    lab: Lab, browser: Browser, nbprov_home: Path, album: Album
) -> None:
    """The stored notebook shows what a script launched, and its button ends it."""
    set_market(nbprov_home, accept=0.1, boot=0.1)
    home = {"NBPROV_HOME": str(nbprov_home)}
    launch = [sys.executable, "-c", SCRIPT]
    page = browser.new_page(viewport={"width": 1240, "height": 1600}, device_scale_factor=1.5)
    try:
        subprocess.run(launch, env={**os.environ, **home, "PYTHONPATH": str(ROOT)}, check=True)
        assert machines(nbprov_home) == 1
        lab.add_kernel("served-dashboard", home)
        file = lab.add_notebook(DASHBOARD.name, "served-dashboard", DASHBOARD)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{lab.url}/voila/render/{file.name}?token={TOKEN}", timeout=LONG_MS)
        board = panel(page.locator("body"), "Clusters")
        title = board.locator(".nbprov-title")
        expect(title).to_have_text("nbprov: 1 cluster live", timeout=LONG_MS)
        expect(board.get_by_role("row").filter(has_text="dev")).to_contain_text("sim-a100-1")
        load = board.get_by_role("group", name="Load of dev")
        expect(load).to_contain_text(re.compile(r"memory[\d.]+ of 85 GiB"), timeout=LONG_MS)
        album.take("voila-dashboard", page.locator("h1"), board)
        page.set_viewport_size({"width": NARROW, "height": 3600})
        width = board.evaluate("root => [root.scrollWidth, root.clientWidth]")
        assert width[0] <= width[1] <= NARROW, "the panel is scrolled as a whole"
        album.take("narrow-page", page.locator("h1"), board)
        button(board, "Down").click()
        button(board, "Really down?").click()
        expect(title).to_have_text("nbprov: no cluster is live", timeout=LONG_MS)
        assert machines(nbprov_home) == 0
        assert not faults
    finally:
        page.close()
        for kernel in lab.ask("GET", "kernels"):
            if kernel["name"] == "served-dashboard":
                lab.ask("DELETE", f"kernels/{kernel['id']}")
        stop(nbprov_home)
