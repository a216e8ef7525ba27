"""What the page and the saved notebook say stays true over reloads and restarts."""

from __future__ import annotations

import re
from collections.abc import Callable

import nbformat
from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, output, panel, state
from pictures import Album
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
HTML = "text/html"
SHORTER_THAN_A_DOUBLE_CLICK_MS = 100


def saved_form(notebook: NotebookPage, starts: str) -> str:
    """Save the notebook, and return the static form of a cell's panel in the file."""
    notebook.save()
    saved = nbformat.read(notebook.file, as_version=4)
    (cell,) = (cell for cell in saved.cells if cell.source.startswith(starts))
    return str(
        next(out.data[HTML] for out in cell.outputs if "data-nbprov" in str(out.get("data")))
    )


CELLS = ["%load_ext nbprov", "%clusters", PROVISION, "%nbprov down dev"]


def test_forms_over_a_restart(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """After a restart in mid-launch the old panels are live again and follow it to its end."""
    notebook = open_notebook(CELLS)
    set_market(notebook.home, accept=0.1, boot=8.0, stocked=True)
    notebook.run("%load_ext")
    table = panel(notebook.run("%clusters"), "Clusters")
    expect(table.locator(".nbprov-title")).to_have_text("no clusters")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("booting")
    expect(table).to_contain_text("launching")
    album.take("booting", notebook.cell("%clusters"), notebook.cell("%%provision"))
    notebook.press_command("notebook:restart-kernel")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jp-Dialog").wait_for(state="detached")
    notebook.await_idle()
    expect(output(notebook.cell("%%provision"))).to_contain_text(re.compile(r"as of \d{4}-"))
    notebook.run("%load_ext")
    run = panel(output(notebook.cell("%%provision")), "Provision")
    table = panel(output(notebook.cell("%clusters")), "Clusters")
    expect(state(run)).to_have_text("ready")
    expect(table).to_contain_text("running")
    album.take("adopted", notebook.cell("%clusters"), notebook.cell("%%provision"))
    notebook.run("%nbprov down")
    expect(state(run)).to_have_text("ended")
    assert "dev: ■ ended" in saved_form(notebook, "%%provision")
    assert machines(notebook.home) == 0


def test_forms_over_a_reload(open_notebook: Callable[..., NotebookPage]) -> None:
    """After F5 the page and the saved file follow the launch to its end."""
    notebook = open_notebook(CELLS)
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    assert "dev: ● ready" in saved_form(notebook, "%%provision")
    notebook.goto()
    notebook.await_idle()
    expect(state(run)).to_have_text("ready")
    notebook.run("%nbprov down")
    expect(state(run)).to_have_text("ended")
    assert "dev: ■ ended" in saved_form(notebook, "%%provision")
    assert machines(notebook.home) == 0


def test_presses_that_are_one_intention(open_notebook: Callable[..., NotebookPage]) -> None:
    """A double click and two quick Enters end nothing; Escape clears a filter and stays there."""
    notebook = open_notebook(["%load_ext nbprov", PROVISION, "%prices A100", "%nbprov down dev"])
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    down = button(run, "Down")
    down.dblclick()
    expect(button(run, "Really down?")).to_be_visible()
    expect(button(run, "Down")).to_be_visible()
    down.focus()
    notebook.page.keyboard.press("Enter")
    notebook.page.wait_for_timeout(SHORTER_THAN_A_DOUBLE_CLICK_MS)
    notebook.page.keyboard.press("Enter")
    expect(button(run, "Down")).to_be_visible()
    expect(state(run)).to_have_text("ready")
    assert machines(notebook.home) == 1
    prices = panel(notebook.run("%prices"), "Prices")
    box = prices.get_by_role("searchbox")
    expect(prices.get_by_role("grid")).to_have_attribute("aria-rowcount", re.compile(r"\d+"))
    rows = prices.get_by_role("grid").get_attribute("aria-rowcount")
    box.fill("europe")
    expect(prices.get_by_role("grid")).not_to_have_attribute("aria-rowcount", str(rows))
    box.press("Escape")
    expect(box).to_have_value("")
    expect(box).to_be_focused()
    expect(prices.get_by_role("grid")).to_have_attribute("aria-rowcount", str(rows))
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended")
    assert machines(notebook.home) == 0
