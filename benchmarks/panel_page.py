"""A panel's own code in Chromium, with the messages that its kernel sends.

The way between them is a server on loopback; JupyterLab's own work is not in it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import comm
from comm.base_comm import BaseComm
from playwright.sync_api import Browser, Page, sync_playwright

from nbprov.notebook import widget_assets

HERE = Path(__file__).resolve().parent
CHROMIUM = (
    "/usr/bin/chromium-headless-shell",
    "/usr/bin/chromium",
    "/usr/bin/google-chrome",
)
SCRIPT = "text/javascript"

Files = Mapping[str, tuple[str, bytes]]
"""The type and the bytes of each path of the server."""


class PanelPage:
    """One page that shows one panel."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def show(self, state: Mapping[str, Any]) -> float:
        """Draw a panel of this state; return the milliseconds until it stands in the page."""
        text = json.dumps(state)
        return float(self.page.evaluate("text => page.timed(() => page.show(text))", text))

    def receive(self, message: str) -> float:
        """Take a message of the kernel; return the milliseconds until its change is drawn."""
        return float(
            self.page.evaluate("text => page.timed(() => page.receive(JSON.parse(text)))", message)
        )

    def text(self) -> str:
        """What a person reads in the panel, and what stands hidden in it."""
        return str(self.page.evaluate("document.querySelector('.nbprov-root').textContent"))


@contextlib.contextmanager
def panel_pages(panel: tuple[str, ...], more: Files | None = None) -> Iterator[Callable[[], Page]]:
    """Yield what opens a new page for a panel.

    Parameters
    ----------
    panel
        The files of `widgets/` that draw the panel.
    more
        What else the server has.
    """
    files = {
        "/": ("text/html", (HERE / "panel_page.html").read_bytes()),
        "/panel.js": (SCRIPT, widget_assets.packed(panel).encode()),
        "/style.css": ("text/css", widget_assets.style().encode()),
        **(more or {}),
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, files))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = next((path for path in CHROMIUM if Path(path).exists()), None)
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=found, headless=True)
            yield partial(_open, browser, f"http://127.0.0.1:{server.server_port}/")
            browser.close()
    finally:
        server.shutdown()
        server.server_close()


def _open(browser: Browser, address: str) -> Page:
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    page.goto(address)
    page.wait_for_function("window.page")
    return page


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, files: Files, *arguments: Any) -> None:
        self._files = files
        super().__init__(*arguments)

    def do_GET(self) -> None:
        kind, body = self._files.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in self._files else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


class _RecordedComm(BaseComm):
    """A comm whose messages are kept as the JSON that would travel."""

    def __init__(self, messages: list[str], **arguments: Any) -> None:
        self._messages = messages
        super().__init__(**arguments)

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        """Keep a message."""
        self._messages.append(json.dumps(data))


@contextlib.contextmanager
def recorded_messages() -> Iterator[list[str]]:
    """Yield the messages, as JSON, of the widgets that are made in this process meanwhile."""
    messages: list[str] = []
    before, comm.create_comm = comm.create_comm, partial(_RecordedComm, messages)
    try:
        yield messages
    finally:
        comm.create_comm = before
