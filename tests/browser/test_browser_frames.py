"""Outputs that a program draws are drawn in closed frames, in real JupyterLab."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eavesdropper import Eavesdropper
from hostile_outputs import charts, leavers, programs, show
from local_cloud import set_market
from notebook_page import CELL_MS, NotebookPage, output
from playwright.sync_api import Locator, Page, expect

PROVISION = "%%provision dev --yes --wait\nresources:\n  cpus: 2\n  infra: local\nmax_lifetime: 1h"
ON = "%config Nbprov.frames = 'on'"
FRAME_MS = 120_000
"""A figure of plotly takes two seconds on an idle computer."""
NOTHING_ACTIVE = (
    "script, [onerror], [onload], [data-commandlinker-command], .jp-RenderedHTML svg, object,"
    " embed, base, form, meta, iframe:not([sandbox='allow-scripts'])"
)
SAW = (
    "%%on dev\nfrom IPython.display import display, HTML\n"
    "html = '<p id=seen>waiting</p><button onclick=\"textContent = `pressed`\">press</button>'\n"
    "act = 'document.querySelector(`#seen`).textContent = `it ran, origin ` + origin'\n"
    "display(HTML(html + '<script>' + act + '</script>'))"
)
FIGURES = """%%on dev
from IPython.display import display
figure = {'data': [{'y': [1, 3, 2]}], 'layout': {'title': {'text': 'of plotly'}}}
display({'application/vnd.plotly.v1+json': figure, 'text/plain': 'the figure as text'}, raw=True)
"""
STYLED = (
    "%%on dev\nfrom IPython.display import display, HTML\n"
    "display(HTML('<style>p { color: rgb(200, 0, 0) }</style><p>styled</p>'))"
)


@pytest.fixture
def eavesdropper() -> Iterator[Eavesdropper]:
    with Eavesdropper() as server:
        server.check_it_hears()
        yield server


def _open(open_notebook: Callable[..., NotebookPage], cells: list[str]) -> NotebookPage:
    notebook = open_notebook(["%load_ext nbprov", PROVISION, *cells, "%nbprov down dev"])
    set_market(notebook.home, accept=0.1, boot=0.1, stocked=True)
    notebook.run("%load_ext")
    notebook.run("%%provision")
    return notebook


def _inner(shown: Locator, nth: int = 0) -> Locator:
    outer = shown.locator("iframe").nth(nth).content_frame
    return outer.locator("iframe").content_frame.locator("body")


def _check_page(page: Page, title: str) -> None:
    told = page.evaluate("[window.owned, localStorage.getItem('owned')]")
    assert told == [None, None]
    assert page.title() == title


@pytest.mark.firefox
def test_hostile_outputs_reach_neither_the_page_nor_a_server(
    open_notebook: Callable[..., NotebookPage], eavesdropper: Eavesdropper, tmp_path: Path
) -> None:
    """Every form of every viewer is shown, its frame is loaded, and nothing comes out of it."""
    url, host = eavesdropper.url, eavesdropper.host
    outputs = {"programs": programs(url), "charts": charts(url), "leavers": leavers(url, host)}
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(outputs), encoding="utf-8")
    read = f"import json\nglobals().update(json.load(open({str(file)!r})))"
    notebook = _open(open_notebook, [ON, read, *map(show, outputs), SAW])
    page = notebook.page
    page.context.add_cookies([{"name": "secret", "value": "1", "url": eavesdropper.url}])
    title = page.title()
    notebook.run(ON)
    notebook.run("import json")
    for name in outputs:
        shown = notebook.run(f"%%on dev -i {name}")
        _settle(shown)
        assert shown.locator(NOTHING_ACTIVE).count() == 0
        if name == "leavers":
            # Chromium connects to the server of an address that the policy then refuses.
            continue
        assert eavesdropper.connections == 0
    # The last frame is drawn after all the others.
    shown = notebook.run("%%on dev", 3)
    expect(_inner(shown).locator("#seen")).to_have_text("it ran, origin null")
    page.wait_for_timeout(2000)
    _check_page(page, title)
    assert eavesdropper.requests == []
    notebook.run("%nbprov down")


def _settle(shown: Locator) -> None:
    """Bring every frame into view, and wait until it has a height, or a line that says why not."""
    hosts = shown.locator("[data-nbprov-frame=on]")
    for host in hosts.all():
        # At once: the frames above it change their heights meanwhile.
        host.evaluate("host => host.scrollIntoView({ block: 'center' })")
        shown.page.wait_for_function(
            "host => host.children[0].hidden || !host.children[1].hidden",
            arg=host.element_handle(),
            timeout=FRAME_MS,
        )


def test_a_frame_waits_for_its_button_and_has_the_size_and_colours_of_its_place(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    """`ask` is the default: what a program draws is text until somebody presses the button."""
    notebook = _open(open_notebook, [SAW, STYLED])
    page = notebook.page
    styled = notebook.run("%%on dev", 1)
    expect(_inner(styled).locator("p")).to_have_css("color", "rgb(200, 0, 0)")
    shown = notebook.run("%%on dev", 0)
    button = shown.get_by_role("button", name="Show HTML with a program")
    expect(button).to_be_visible()
    assert shown.locator("iframe").count() == 0
    button.click()
    inner = _inner(shown)
    expect(inner.locator("#seen")).to_have_text("it ran, origin null")
    inner.locator("button").click()
    expect(inner.locator("button")).to_have_text("pressed")
    frame = shown.locator("iframe")
    page.wait_for_function("f => f.clientHeight < 120", arg=frame.element_handle())
    root = frame.content_frame.locator("iframe").content_frame.locator("html")
    expect(root).to_have_css("background-color", "rgb(255, 255, 255)")
    notebook.theme("JupyterLab Dark")
    dark = shown.evaluate("element => getComputedStyle(document.body).backgroundColor")
    expect(root).not_to_have_css("background-color", "rgb(255, 255, 255)")
    assert dark != "rgb(255, 255, 255)"
    notebook.theme("JupyterLab Light")  # the next notebooks have this one's
    notebook.run("%nbprov down")


def test_a_saved_notebook_runs_nothing_until_its_button_is_pressed(
    open_notebook: Callable[..., NotebookPage],
) -> None:
    """Opened by its author, by somebody who does not trust it, and as HTML of nbconvert."""
    notebook = _open(open_notebook, [FIGURES, SAW])
    shown = notebook.run("%%on dev", 0)
    expect(shown).to_contain_text("the figure as text")
    shown.get_by_role("button", name="Show plotly figure").click()
    expect(_inner(shown).locator(".plotly .gtitle")).to_have_text("of plotly")
    expect(shown.locator("pre")).to_be_hidden()
    notebook.run("%%on dev", 1)
    notebook.run("%nbprov down")
    notebook.save()

    notebook.goto()
    again = output(notebook.cell("%%on dev", 1))
    again.get_by_role("button", name="Show HTML with a program").wait_for()
    assert notebook.page.locator("iframe").count() == 0
    again.get_by_role("button").click()
    expect(_inner(again).locator("#seen")).to_have_text("it ran, origin null")

    notebook.lab.forget_signatures()
    notebook.goto()
    untrusted = output(notebook.cell("%%on dev", 0))
    expect(untrusted).to_contain_text("the figure as text")
    expect(untrusted).to_contain_text("plotly figure: shown where this notebook is trusted")
    assert notebook.page.locator("iframe, .jp-Cell-outputArea button").count() == 0

    page = notebook.page.context.new_page()
    page.goto(_converted(notebook.file).as_uri(), wait_until="domcontentloaded")
    button = page.get_by_role("button", name="Show HTML with a program")
    expect(button).to_be_visible()
    assert page.locator("iframe").count() == 0
    button.click()
    expect(_inner(page.locator("body")).locator("#seen")).to_have_text("it ran, origin null")


def _converted(file: Path) -> Path:
    """Return a notebook as nbconvert's HTML, with which a page of the web would show it."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=CELL_MS / 1000)
    return file.with_suffix(".html")
