"""A kernel is restarted during a launch: the next one goes on with the launch and its panels."""

from __future__ import annotations

import re
from collections.abc import Callable

from local_cloud import machines, set_market
from notebook_page import FORM, NotebookPage, button, check_one_form, output, panel, shown, state
from pictures import Album
from playwright.sync_api import expect

PROVISION = "%%provision dev\nresources:\n  accelerators: A100\n  infra: local\nmax_lifetime: 1h"
CELLS = [
    "%load_ext nbprov",
    "%prices A100 --cloud gcp",
    "%clusters",
    PROVISION,
    "%%on dev\nprint(6 * 7)",
    "%nbprov down dev",
]


def test_restart_during_a_launch(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """Panels without their kernel show the last state. The next kernel adopts the one machine and
    follows it in the same panels; none is left after down."""
    notebook = open_notebook(CELLS)
    # Long enough that the restart comes before the machine is ready, also on a busy machine.
    set_market(notebook.home, accept=0.1, boot=25.0)
    notebook.run("%load_ext")
    notebook.run("%prices")
    table = panel(notebook.run("%clusters"), "Clusters")
    expect(table.locator(".nbprov-title")).to_have_text("no clusters")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(run.get_by_role("table", name="Attempts")).to_contain_text("booting")
    expect(table).to_contain_text("launching")
    check_one_form(notebook.cell("%%provision"), "Provision")
    album.take("booting", notebook.cell("%%provision"))

    notebook.restart_kernel()
    assert "ready" not in (state(run).text_content() or ""), (
        "the restart came too late to be in the middle of the launch"
    )
    expect(shown(notebook.page, ".nbprov-root")).to_have_count(0)
    expect(shown(output(notebook.cell("%prices")), FORM)).to_contain_text("us-central1")
    left = shown(output(notebook.cell("%%provision")), FORM)
    expect(left).to_contain_text("dev: ◐ launching")
    instant = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    expect(left).to_contain_text(
        re.compile(
            rf"dev: ◐ launching · since {instant} · next: local/local-\S+ at \$[\d.]+/h"
            rf" · cost \$[\d.]+ so far · \$[\d.]+/h · simulated: you pay \$0 · as of {instant}"
        )
    )
    assert left.get_by_text("refused").count() == 5
    expect(left).to_contain_text("booting")
    album.take("left", notebook.cell("%%provision"))

    said = notebook.run("%load_ext")
    expect(said).to_have_text(
        re.compile("dev: a launch was under way when its kernel stopped .*taking it up")
    )
    expect(said).to_have_text(
        re.compile(r"dev: adopted, it runs in local/local-\S+: .*%nbprov down dev ends it")
    )
    assert len((said.text_content() or "").strip().splitlines()) == 1
    expect(state(run)).to_have_text("ready")
    expect(table).to_contain_text("running")
    check_one_form(notebook.cell("%%provision"), "Provision")
    check_one_form(notebook.cell("%clusters"), "Clusters")
    album.take("adopted", notebook.cell("%%provision"))
    expect(notebook.run("%%on dev")).to_contain_text("42")
    assert machines(notebook.home) == 1
    expect(notebook.run("%nbprov down")).to_contain_text("ended, confirmed by the cloud's list")
    expect(state(run)).to_have_text("ended")
    assert "dev: ■ ended" in notebook.saved_form("%%provision")
    assert machines(notebook.home) == 0
