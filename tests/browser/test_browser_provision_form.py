"""An empty `%%provision` asks a few questions, and writes a cell that can be planned as it is."""

from __future__ import annotations

from collections.abc import Callable

from notebook_page import NotebookPage, output
from pictures import Album
from playwright.sync_api import expect


def test_a_form_writes_the_cell(open_notebook: Callable[..., NotebookPage], album: Album) -> None:
    """What the form writes is a spec: the next cell plans it."""
    notebook = open_notebook(["%load_ext nbprov", "%%provision", "%%nbprov plan"])
    notebook.run("%load_ext")
    notebook.run("%%provision")
    form = output(notebook.cell("%%provision")).locator('section[aria-label="New machine"]')
    written = form.locator(".nbprov-cell-text")
    expect(written).to_contain_text("cpus: 2+")
    form.get_by_label("name").fill("dev")
    form.get_by_label("GPU").select_option("A100")
    form.get_by_label("how many").select_option("8")
    form.get_by_label("Europe").check()
    form.get_by_label("at most $ an hour").fill("60")
    expect(written).to_have_text(
        "%%provision dev\nresources:\n  accelerators: A100:8\n  region: eu\n"
        "  max_hourly_cost: 60\n  autostop: 30\n"
    )
    album.take("provision-form", form)
    form.get_by_role("button", name="Copy cell").click()
    expect(form.locator(".nbprov-status")).to_contain_text("copied")
    copied = notebook.clipboard()
    assert copied == written.text_content()
    plan = notebook.cell("%%nbprov plan")
    plan.locator(".cm-content").click()
    notebook.page.keyboard.press("Control+End")
    notebook.page.keyboard.press("Enter")
    # JupyterLab would indent the lines of a text that is typed.
    notebook.page.keyboard.insert_text(copied.split("\n", 1)[1])
    expect(notebook.run("%%nbprov plan")).to_contain_text("A100:8")
