"""A kernel is restarted during a launch: the next one finds the launch and says so in one line."""

from __future__ import annotations

import re
from collections.abc import Callable

from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, output, panel, state
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"


def test_restart_during_a_launch(open_notebook: Callable[..., NotebookPage]) -> None:
    """One machine, in the first zone with stock, is adopted by the new kernel; none is left
    after down."""
    notebook = open_notebook(
        ["%load_ext nbprov", PROVISION, "%%on dev\nprint(6 * 7)", "%nbprov down dev"]
    )
    set_market(notebook.home, accept=0.1, boot=6.0, stocked=True)
    notebook.run("%load_ext")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("booting")
    notebook.press_command("notebook:restart-kernel")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jp-Dialog").wait_for(state="detached")
    notebook.await_idle()
    assert "ready" not in (state(run).text_content() or ""), (
        "the restart came too late to be in the middle of the launch"
    )
    notebook.run("%load_ext")
    said = output(notebook.cell("%load_ext"))
    expect(said).to_have_text(
        re.compile("dev: a launch was under way when its kernel stopped .*taking it up")
    )
    expect(said).to_have_text(
        re.compile(
            r"dev: adopted, it runs in local/local-south/local-south-a: .*%nbprov down dev ends it"
        )
    )
    assert len((said.text_content() or "").strip().splitlines()) == 1
    expect(notebook.run("%%on dev")).to_contain_text("42")
    assert machines(notebook.home) == 1
    expect(notebook.run("%nbprov down dev")).to_contain_text("ended, confirmed by the cloud's list")
    assert machines(notebook.home) == 0
