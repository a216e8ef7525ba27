"""Rows of a plan that are chosen before Launch are tried first."""

from __future__ import annotations

from collections.abc import Callable

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, has_focus, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"


def row(run: Locator, zone: str) -> Locator:
    """The row of a zone in the plan."""
    return run.locator('.nbprov-body [role="row"]:visible').filter(has_text=zone)


def test_chosen_places_are_tried_first(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", PROVISION])
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    heading = run.locator(".nbprov-plan > .nbprov-toggle")
    expect(heading).to_contain_text("first A100:1 sim-a100-1 in local/local-south-a")

    row(run, "local-east-b").click()
    button(run, "Try this first").click()
    expect(heading).to_contain_text("first A100:1 sim-a100-1 in local/local-east-b at $3.49/h")
    button(run, "The plan's own order").focus()
    notebook.page.keyboard.press("Enter")
    expect(heading).to_contain_text("local/local-south-a")
    assert has_focus(run), "its button has gone"
    expect(button(run, "The plan's own order")).to_have_count(0)

    row(run, "local-east-c").click()
    row(run, "local-south-b").click(modifiers=["Control"])
    button(run, "Try these 2 first").click()
    expect(heading).to_contain_text("local/local-east-c")
    expect(row(run, "local-south-b")).to_have_attribute("aria-rowindex", "3")
    expect(row(run, "local-south-b")).to_contain_text("your choice")
    album.take("plan-order", run)
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("local-east-c")
    expect(button(run, "The plan's own order")).to_have_count(0)
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended")
    assert machines(notebook.home) == 0
