"""A program that starts Firefox for Playwright and stands between the two.

Playwright drives a Firefox as Debian ships it by WebDriver BiDi. It begins every browser context
with the command `emulation.setMediaFeaturesOverride`, which Firefox 153 does not know, and takes
the refusal as its own failure. This program passes everything on and turns only that refusal into
an empty result: the pages keep Firefox's own media features. It is of no use any more once Firefox
knows the command.

    python firefox_relay.py /usr/bin/firefox-esr --remote-debugging-port=0 --headless ...
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketHandler, websocket_connect

MEDIA_FEATURES = "emulation.setMediaFeaturesOverride"
UNKNOWN = "unknown command"
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
"""What Firefox prints once it can be driven; Playwright reads the address from the same line."""
MOST_BYTES = 100_000_000
"""Of one message; a picture of a page comes as one."""


def accepted(message: str) -> str:
    """Return an answer of Firefox as Playwright needs it."""
    if UNKNOWN not in message:
        return message
    answer = json.loads(message)
    if (answer.get("error"), answer.get("message")) != (UNKNOWN, MEDIA_FEATURES):
        return message
    return json.dumps({"type": "success", "id": answer["id"], "result": {}})


class Relay(WebSocketHandler):
    """One connection of Playwright, passed on to Firefox."""

    firefox: WebSocketClientConnection

    async def open(self, path: str) -> None:
        """Connect to Firefox; Tornado brings no message before this has ended."""
        self.firefox = await websocket_connect(
            self.settings["firefox"] + path,
            on_message_callback=self._pass_back,
            max_message_size=MOST_BYTES,
        )

    async def on_message(self, message: str | bytes) -> None:
        """Pass a command on."""
        await self.firefox.write_message(message)

    def _pass_back(self, message: str | bytes | None) -> None:
        if message is None:
            self.close()
        else:
            self.write_message(accepted(message if isinstance(message, str) else message.decode()))

    def on_close(self) -> None:
        """Playwright is gone: Firefox ends such a session by itself."""
        self.firefox.close()


def listen(firefox: str) -> int:
    """Serve Playwright on a free port of loopback, and return it."""
    sockets = bind_sockets(0, "127.0.0.1")
    application = Application(
        [(r"(/.*)", Relay)], firefox=firefox, websocket_max_message_size=MOST_BYTES
    )
    HTTPServer(application).add_sockets(sockets)
    port: int = sockets[0].getsockname()[1]
    return port


async def run(command: list[str]) -> int:
    """Run Firefox to its end, and return its exit code."""
    firefox = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        text = line.decode(errors="replace")
        if found := LISTENING.search(text):
            text = text.replace(found[1], f"ws://127.0.0.1:{listen(found[1])}")
        print(text, end="", file=sys.stderr, flush=True)
    return await firefox.wait()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(run(sys.argv[1:])))
