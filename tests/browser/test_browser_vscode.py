"""The panels as VS Code draws them: with the widget renderer that it publishes.

VS Code itself cannot be had here. Its Jupyter extension draws widgets in a webview with the package
`@vscode/jupyter-ipywidgets8` and brings it the kernel's messages. Here a frame is the webview, and
JupyterLab's library, which is VS Code's too, brings the messages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from check_widgets import CannotCheck
from local_cloud import machines, set_market
from notebook_page import NotebookPage, button, panel, state
from npm_package import NpmPackage
from playwright.sync_api import Route, expect

HERE = Path(__file__).resolve().parent
RENDERER = NpmPackage(
    "@vscode/jupyter-ipywidgets8",
    "1.0.9",
    "bocCThfa4JDIDd7qCFAfW3HpzHfTLYxOTpTbiDfw4DXOUjKHnr6ObkMBiIkuzYPRybh5bY4FhYLemuDuTvIbpQ==",
)
SHARED = Path(sys.prefix) / "share" / "jupyter"
WEBVIEW = """<!doctype html>
<html>
  <head><script src="/vscode/require.js"></script></head>
  <body
    class="vscode-dark" data-vscode-theme-kind="vscode-dark"
    style="--vscode-editor-background: #1f1f1f; --vscode-editor-foreground: #cccccc;
      --vscode-font-family: sans-serif; background: var(--vscode-editor-background)"
  ></body>
</html>"""
LAUNCH = "%%provision dev --yes --wait\nresources: {accelerators: A100, infra: local}"
LONG_MS = 60_000


def _serve(notebook: NotebookPage) -> None:
    """Give the page what VS Code's extension puts beside its webview."""
    try:
        package = RENDERER.folder()
    except CannotCheck as lacking:
        pytest.skip(str(lacking))
    files = {
        "widgets.js": package / "dist" / "ipywidgets.js",
        "require.js": SHARED / "voila" / "templates" / "base" / "static" / "require.min.js",
        "anywidget.js": SHARED / "nbextensions" / "anywidget" / "index.js",
    }

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if name in files:
            route.fulfill(path=files[name], content_type="text/javascript")
        else:
            route.fulfill(body=WEBVIEW, content_type="text/html")

    notebook.page.route("**/vscode/*", answer)


def _run(notebook: NotebookPage, code: str) -> None:
    notebook.page.evaluate("code => vscode.run(code)", code)
    assert notebook.page.evaluate("vscode.faults") == []


def test_a_table_a_launch_and_an_end(
    open_notebook: Callable[..., NotebookPage], tmp_path: Path
) -> None:
    """Live tables, with their buttons, in the dark."""
    notebook = open_notebook(["%load_ext nbprov"])
    set_market(notebook.home, accept=0.1, boot=0.1)
    _serve(notebook)
    notebook.page.evaluate(
        (HERE / "vscode_renderer.js").read_text(encoding="utf-8"),
        [
            notebook.kernel,
            *(f"/vscode/{name}" for name in ("webview", "widgets.js", "anywidget")),
        ],
    )
    web = notebook.page.frame_locator("iframe").last
    for code in ("%load_ext nbprov", "%prices A100", LAUNCH, "%clusters"):
        _run(notebook, code)
    prices = panel(web.locator("body"), "Prices")
    prices.get_by_role("searchbox").fill("gcp spot")
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d+ of \d+ offers$"))
    run = panel(web.locator("body"), "Provision")
    expect(state(run)).to_have_text("ready", timeout=LONG_MS)
    expect(run).to_have_css("background-color", "rgb(31, 31, 31)")
    notebook.page.screenshot(path=tmp_path / "vscode.png")
    clusters = panel(web.locator("body"), "Clusters")
    button(clusters, "Down").click()
    button(clusters, "Really down?").click()
    expect(state(run)).to_have_text("ended", timeout=LONG_MS)
    expect(clusters).to_contain_text("you ended it")
    assert machines(notebook.home) == 0
