"""Presses of a person that are one intention, and keys that stay where they were pressed."""

from __future__ import annotations

import re
from collections.abc import Callable

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, panel, state
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
SHORTER_THAN_A_DOUBLE_CLICK_MS = 100


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
