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
        if name == "webview":
            route.fulfill(body=WEBVIEW, content_type="text/html")
        elif name in files:
            route.fulfill(path=files[name], content_type="text/javascript")
        else:
            route.fulfill(status=404)

    notebook.page.route("**/vscode/*", answer)


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
    body = notebook.page.frame_locator("iframe").last.locator("body")

    def begin(code: str) -> None:
        notebook.page.evaluate("code => vscode.begin(code)", code)

    begin("%load_ext nbprov")
    begin("%prices A100")
    prices = panel(body, "Prices")
    prices.get_by_role("searchbox").fill("gcp spot", timeout=LONG_MS)
    expect(prices.locator(".nbprov-foot")).to_have_text(re.compile(r"^\d+ of \d+ offers$"))
    begin(LAUNCH)
    run = panel(body, "Provision")
    expect(state(run)).to_have_text("launching", timeout=LONG_MS)
    expect(state(run)).to_have_text("ready", timeout=LONG_MS)
    expect(run).to_have_css("background-color", "rgb(31, 31, 31)")
    expect(run).to_have_css("color", "rgb(204, 204, 204)")
    begin("%clusters")
    clusters = panel(body, "Clusters")
    expect(button(clusters, "Down")).to_be_visible()
    notebook.page.screenshot(path=tmp_path / "vscode.png")
    button(clusters, "Down").click()
    button(clusters, "Really down?").click()
    expect(state(run)).to_have_text("ended", timeout=LONG_MS)
    expect(clusters).to_contain_text("you ended it")
    assert machines(notebook.home) == 0
    assert notebook.page.evaluate("vscode.faults") == []
