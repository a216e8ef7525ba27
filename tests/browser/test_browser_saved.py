"""A saved notebook that is opened without its kernel shows how things ended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import nbformat
import pytest
from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, check_one_form, output, panel, shown, state
from pictures import Album
from playwright.sync_api import expect

SECRET = "s3cr3t-Zx81-never-saved"
PROVISION = """%%provision dev
resources:
  accelerators: A100
  infra: local
max_lifetime: 1h
secrets:
  HUB_TOKEN: null
setup: |
  echo "a token of ${#HUB_TOKEN} letters: $HUB_TOKEN" > letters"""
CELLS = [
    "%load_ext nbprov",
    "%prices A100 --cloud gcp",
    PROVISION,
    "%%on dev --bash\ncut -d: -f1 letters",
    "%clusters",
]
MOST_BYTES = 100_000
"""Five cells with three panels. A notebook with the table's data or the panels' code in it would be
many times as long."""
PANELS = {"%prices": "Prices", "%%provision": "Provision", "%clusters": "Clusters"}
INSTANT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
WIDGET_ERRORS = re.compile("Error displaying widget|Loading widget")
HTML, TEXT, WIDGET = "text/html", "text/plain", "application/vnd.jupyter.widget-view+json"


@pytest.mark.firefox
def test_saved_notebook(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """The static forms hold neither script nor secret, and show the end to the author and to a
    reader on another computer."""
    notebook = open_notebook(CELLS, env={"HUB_TOKEN": SECRET})
    set_market(notebook.home, accept=0.1)
    _play(notebook)
    _check_live(notebook)
    notebook.save()
    _check_file(notebook)
    notebook.lab.end_kernels()
    # The author, with a kernel that knows nothing of the output: JupyterLab trusts the notebook and
    # looks for the widgets.
    notebook.open()
    _check_drawn(notebook)
    notebook.lab.end_kernels()
    # The author, on a computer without that kernel.
    notebook.lab.remove_kernel(notebook.kernel)
    # JupyterLab asks which kernel to use only if there are several.
    notebook.lab.add_kernel("another", {})
    _reopen_without_kernel(notebook)
    _check_drawn(notebook)
    album.take("saved-notebook", notebook.cell("%%provision"), notebook.cell("%clusters"))
    # Another reader.
    notebook.lab.forget_signatures()
    _reopen_without_kernel(notebook)
    _check_drawn(notebook)


def _check_live(notebook: NotebookPage) -> None:
    for starts, label in PANELS.items():
        check_one_form(notebook.cell(starts), label)


def _check_drawn(notebook: NotebookPage) -> None:
    run = output(notebook.cell("%%provision"))
    expect(run).to_contain_text(re.compile(rf"dev: ■ ended · at {INSTANT} · cost \$[\d.]+ · simul"))
    assert run.get_by_text("refused").filter(visible=True).count() == 5
    expect(shown(output(notebook.cell("%clusters")), "table")).to_contain_text("ended")
    expect(shown(output(notebook.cell("%prices")), "table")).to_contain_text("us-central1")
    expect(notebook.page.locator(".nbprov-root")).to_have_count(0)
    expect(notebook.page.get_by_text(WIDGET_ERRORS).filter(visible=True)).to_have_count(0)
    for starts in PANELS:
        expect(shown(output(notebook.cell(starts)), "table")).to_have_count(1)


def _play(notebook: NotebookPage) -> None:
    notebook.run("%load_ext")
    notebook.run("%prices")
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready")
    expect(notebook.run("%%on dev")).to_contain_text(f"a token of {len(SECRET)} letters")
    # What the live panel says in minutes, a reader of next week must read as an instant.
    expect(run.locator(".nbprov-header")).to_contain_text(re.compile(r"for \d.* · next: %%on dev"))
    form = re.sub("<[^>]*>", "", notebook.saved_form("%%provision"))
    assert re.search(rf"dev: ● ready · since {INSTANT} · next: %%on dev · cost \$\S+ so far", form)
    clusters = panel(notebook.run("%clusters"), "Clusters")
    button(clusters, "Down").click()
    button(clusters, "Really down?").click()
    for badge in (clusters.locator(".nbprov-badge"), state(run)):
        expect(badge).to_have_text("ended")
    assert machines(notebook.home) == 0


def _check_file(notebook: NotebookPage) -> None:
    text = notebook.file.read_text(encoding="utf-8")
    assert SECRET not in text
    assert len(text) < MOST_BYTES
    saved = nbformat.reads(text, as_version=4)
    assert "widgets" not in saved.metadata
    bundles = [[out.data for out in cell.outputs if "data" in out] for cell in saved.cells]
    pairs = [pair for pair in bundles if any(WIDGET in data for data in pair)]
    assert len(pairs) == 3
    for static, live in pairs:
        assert static[TEXT].strip()
        assert "<table" in static[HTML]
        assert not re.search(r"<script|javascript:|\son\w+=", static[HTML], re.IGNORECASE)
        assert (live[TEXT], live[HTML]) == ("", "")
    assert "addEventListener" not in json.dumps(pairs), "the panels' own code was saved"


def _reopen_without_kernel(notebook: NotebookPage) -> None:
    notebook.page.remove_locator_handler(notebook.question)
    notebook.goto()
    dialog = notebook.page.locator(".jp-Dialog")
    dialog.locator("select").select_option(label="No Kernel")
    dialog.locator(".jp-mod-accept").click()
    dialog.wait_for(state="detached")
    expect(notebook.page.locator(".jp-Toolbar-kernelName")).to_have_text("No Kernel")
