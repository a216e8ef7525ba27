"""The buttons of a launch that finds no stock: launch with a change, wait longer, try now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, has_focus, panel, state
from pictures import Album
from playwright.sync_api import Locator, expect

ANYWHERE = "%%provision dev\nresources:\n  accelerators: A100\nmax_lifetime: 1h"
WAITS = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nwait: 2h"
LONG_PAUSES = "nbprov.session().engine.runs.least_pause = 600.0"
SOLD_OUT = '\n[[stock]]\ntype = "sim-a100-1"\nleft = 0\n'
"""Its cloud says so, too: no report of stock ends the wait."""
SHORT_PAUSES = (
    "for one in nbprov.session().engine.drivers.values():\n"
    "    one.failover.stock_wait.least_pause = 0.1"
)


def opening(run: Locator, words: str) -> Locator:
    """The line that offers this change."""
    return run.locator(".nbprov-openings > div").filter(has_text=words)


def end(run: Locator) -> None:
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended")


def test_a_launch_that_failed_is_launched_with_what_would_open_more_places(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(["%load_ext nbprov", ANYWHERE], {"NBPROV_DEMO": "1"})
    set_market(notebook.home, accept=0.1, boot=0.5, empty=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("failed")

    set_up = opening(run, "setting up lambda")
    expect(set_up).to_be_visible()
    assert button(set_up, "Launch with this").count() == 0, "only a person can set a cloud up"
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button(set_up, "Copy").click()
    expect(run.get_by_role("status")).to_have_text("copied: paste it into a cell")
    copied = notebook.page.evaluate("navigator.clipboard.readText()")
    assert "~/.lambda_cloud/lambda_keys" in copied
    assert copied.endswith("\n%nbprov check lambda")
    album.take("openings", run)

    set_market(notebook.home, accept=0.1, boot=0.5, stocked=True)
    button(opening(run, "use_spot: prefer"), "Launch with this").focus()
    notebook.page.keyboard.press("Enter")
    expect(state(run)).to_have_text("ready")  # at once: spot costs less than what was agreed to
    assert has_focus(run), "its button has gone"
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("spot")
    expect(run.locator(".nbprov-openings")).to_be_hidden()
    end(run)
    assert machines(notebook.home) == 0

    set_market(notebook.home, accept=0.1, boot=0.5, empty=True)
    button(run, "Launch again").click()
    expect(state(run)).to_have_text("failed")
    set_market(notebook.home, accept=0.1, boot=0.5, stocked=True)
    button(run, "Clear and launch").click()
    expect(state(run)).to_have_text("ready")
    end(run)
    assert machines(notebook.home) == 0


def wait_longer(run: Locator) -> None:
    until = run.locator(".nbprov-facts time").first
    told = until.get_attribute("datetime") or ""
    button(run, "Wait 1 h longer").click()
    expect(until).not_to_have_attribute("datetime", told)
    before = datetime.fromisoformat(told)
    after = datetime.fromisoformat(until.get_attribute("datetime") or "")
    assert (after - before).total_seconds() == 3600


def test_a_wait_for_stock_is_made_longer_and_cut_short(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    """By its own kernel, and by the next one in the same panel."""
    cells = ["%load_ext nbprov", LONG_PAUSES, WAITS, SHORT_PAUSES]
    notebook = open_notebook(cells)
    set_market(notebook.home, accept=0.1, boot=0.5)
    with (notebook.home / "local" / "market.toml").open("a") as market:
        market.write(SOLD_OUT)
    notebook.run("%load_ext")
    notebook.run("nbprov.session")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("waiting for stock")
    wait_longer(run)
    album.take("waiting", run)

    notebook.restart_kernel()
    notebook.run("%load_ext")
    expect(button(run, "Wait 1 h longer")).to_be_visible()
    wait_longer(run)
    notebook.run("nbprov.session")
    notebook.run("for one")
    set_market(notebook.home, accept=0.1, boot=0.5, stocked=True)
    button(run, "Try now").focus()
    notebook.page.keyboard.press("Enter")
    expect(state(run)).to_have_text("ready")  # and not after ten minutes
    assert has_focus(run), "Try now has gone"
    button(run, "Stop").focus()
    notebook.page.keyboard.press("Enter")
    expect(state(run)).to_have_text("stopped")
    assert has_focus(run), "Stop has gone"
    end(run)
    assert machines(notebook.home) == 0
