"""A launch that comes to nothing, and is launched again from its panel."""

from __future__ import annotations

from collections.abc import Callable

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, has_focus, panel, state
from pictures import Album
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
CELLS = ["%load_ext nbprov", PROVISION, "%%on dev\nprint('it', 'runs')", "dev"]


def test_a_launch_that_failed_is_launched_again(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """Its places that had no stock are tried again, in the same panel; the handle follows."""
    notebook = open_notebook(CELLS)
    set_market(notebook.home, accept=0.1, boot=0.5, empty=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("failed")
    again = button(run, "Launch again")
    expect(again).to_be_visible()
    lanes = run.get_by_role("img", name="9 places tried")
    expect(lanes.locator(".nbprov-span[data-tone=bad]")).to_have_count(9)
    opening = button(run.locator(".nbprov-openings"), "Copy").first
    expect(opening).to_be_visible()
    opening.click()
    expect(run.get_by_role("status")).to_contain_text("copied")
    album.take("failed", run)
    button(run, "Wait 1 h for stock").click()
    expect(state(run)).to_have_text("waiting for stock")
    button(run, "Cancel").click()
    expect(again).to_be_visible()
    assert has_focus(run), "Cancel has gone"
    set_market(notebook.home, accept=0.1, boot=0.5, stocked=True)
    again.click()
    expect(state(run)).to_have_text("ready")
    assert has_focus(run), "Launch again has gone"
    expect(again).to_be_hidden()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("ready")
    console = run.get_by_role("button", name="console")
    expect(console).to_have_count(1)  # the nine that were refused have no machine
    console.click()
    expect(run.get_by_label("Console")).to_contain_text("Server listening")
    album.take("console", run)
    console.click()
    expect(notebook.run("%%on")).to_contain_text("it runs")
    expect(notebook.run("dev")).to_contain_text("ready")
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended")
    assert machines(notebook.home) == 0
