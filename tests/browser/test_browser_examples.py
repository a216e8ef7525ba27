"""The stored notebooks of `example_notebooks/`, opened in JupyterLab without a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import nbformat
from lab import QUICKSTART, TOKEN, Lab
from pictures import Album
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

FOLDER = QUICKSTART.parent
WIDTH, TALL = 1240, 2_000
LONG_MS = 60_000
BROKEN = re.compile("Loading widget|Error displaying widget|Error rendering")
ELSEWHERE = re.compile("jupyterlab-manager")
"""The code of ipywidgets takes for granted that a notebook has a kernel."""
OPEN = """(path) => jupyterapp.commands.execute("docmanager:open", {
    path, factory: "Notebook", kernelPreference: { shouldStart: false, canStart: false } })
    .then(() => null)"""

STEADY = """async () => {
    const height = () => document.querySelector(".jp-NotebookPanel .jp-WindowedPanel-inner")
        ?.scrollHeight;
    const before = height();
    await new Promise((done) => setTimeout(done, 400));
    return before > 0 && before === height();
}"""
"""Whether the cells in sight are drawn: JupyterLab draws them one after the other."""


def _stored() -> list[Path]:
    """Return the notebooks that hold output."""
    return [
        path
        for path in sorted(FOLDER.glob("*.ipynb"))
        if any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells)
    ]


def _forms(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the saved HTML of each output, with the number of its cell."""
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                yield number, output.data["text/html"]


def test_every_stored_notebook_is_drawn(lab: Lab, browser: Browser, album: Album) -> None:
    """Each saved form is in sight with its first words and its tables, and no script failed."""
    stored = _stored()
    assert len(stored) >= 10
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(f"{error}\n{error.stack}"))
    page.on("console", lambda message: _note(message, faults))
    page.goto(f"{lab.url}/lab?reset&token={TOKEN}", timeout=LONG_MS)
    page.locator("#jp-main-dock-panel").wait_for(timeout=LONG_MS)
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area').then(() => 0)")
    for path in stored:
        lab.add_notebook(path.name, "of-nobody", path)
        page.evaluate(OPEN, path.name)
        _check(page, path)
        notebook = page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer")
        page.set_viewport_size({"width": WIDTH, "height": TALL})
        notebook.evaluate("box => { box.scrollTop = 0; }")
        page.wait_for_function(STEADY)
        album.take(f"example-{path.stem}", notebook)
        page.set_viewport_size({"width": WIDTH, "height": 900})
        page.evaluate("() => jupyterapp.commands.execute('application:close').then(() => null)")
    assert not lab.ask("GET", "sessions")
    assert not [fault for fault in faults if not ELSEWHERE.search(fault)], faults
    page.close()


def _check(page: Page, path: Path) -> None:
    cells = page.locator(".jp-NotebookPanel:visible .jp-Notebook-cell")
    expect(cells.first).to_be_visible(timeout=LONG_MS)
    for number, form in _forms(path):
        drawn = page.locator(
            f'.jp-NotebookPanel:visible .jp-Notebook-cell[data-windowed-list-index="{number}"]'
        )
        drawn.scroll_into_view_if_needed()
        output = drawn.locator(".jp-Cell-outputArea")
        words = re.search(r">([^<>]*\w[^<>]*)<", form.partition("</style>")[2] or form)
        assert words is not None, form
        expect(output).to_contain_text(" ".join(unescape(words[1]).split()))
        tables = output.locator("table:visible")
        expect(tables).to_have_count(form.count("<table"))
    expect(page.get_by_text(BROKEN)).to_have_count(0)


def _note(message: ConsoleMessage, faults: list[str]) -> None:
    if message.type == "error":
        faults.append(f"{message.text} {message.location['url']}")
