"""Real kernels, and what a front end sees of them."""

from __future__ import annotations

import json
import os
import queue
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from homes import DEADLINE
from jupyter_client.manager import KernelManager

ANSI = re.compile(r"\x1b\[[0-9;]*m")
WATCH = """
import sys as _sys, threading as _threading, time as _time
def _watch(main=_threading.main_thread().ident):
    waits = ("runtime/waiting.py", "notebook/remote_output.py", "notebook/commands/outputs.py")
    waits = tuple("nbprov/" + path for path in waits)
    functions = ("wait_for", "publish_waiting", "wait_showing")
    while True:
        frame, names = _sys._current_frames()[main], []
        while frame is not None:
            names.append((frame.f_code.co_filename.replace(chr(92), "/"), frame.f_code.co_name))
            frame = frame.f_back
        if any(file.endswith(waits) and name in functions for file, name in names):
            open({flag!r}, "w").close()
            return
        _time.sleep(0.005)
_threading.Thread(target=_watch, daemon=True).start()
"""

GPU = "resources: {accelerators: A100, infra: local}"
CPU = "resources: {cpus: 2, infra: local}"


@dataclass
class Outcome:
    """What a cell put out, as a front end keeps it."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    def _of(self, *kinds: str) -> list[dict[str, Any]]:
        return [m["content"] for m in self.messages if m["msg_type"] in kinds]

    @property
    def text(self) -> str:
        """The text that it wrote to stdout, without colours."""
        return ANSI.sub("", "".join(c["text"] for c in self._of("stream") if c["name"] == "stdout"))

    @property
    def stderr(self) -> str:
        return ANSI.sub("", "".join(c["text"] for c in self._of("stream") if c["name"] == "stderr"))

    @property
    def displays(self) -> list[dict[str, Any]]:
        """The new displays and results, in order, without their updates."""
        return self._of("display_data", "execute_result")

    @property
    def values(self) -> list[str]:
        return [c["data"]["text/plain"] for c in self._of("execute_result")]

    @property
    def error(self) -> dict[str, Any] | None:
        found = self._of("error")
        return found[0] if found else None

    @property
    def error_text(self) -> str:
        """The lines of the error output, without colours."""
        assert self.error is not None, f"no error; it wrote: {self.text}"
        return ANSI.sub("", "\n".join(self.error["traceback"]))

    @property
    def everything(self) -> str:
        """All text that it showed."""
        shown = "\n".join(d["data"].get("text/plain", "") for d in self.displays)
        return f"{self.text}{self.stderr}{shown}" + (self.error_text if self.error else "")


class Kernel:
    """A kernel and everything that it has published.

    Parameters
    ----------
    home
        Becomes NBPROV_HOME.
    is_notebook
        Whether a person watches it: panels are widgets and wait for Launch.
    """

    def __init__(self, home: Path, *, is_notebook: bool = True, **env: str) -> None:
        self.home = home
        self.environment = {**os.environ, "NBPROV_HOME": str(home), **env}
        if is_notebook:
            self.environment["JPY_SESSION_NAME"] = "/tests/notebook.ipynb"
        self.messages: list[dict[str, Any]] = []
        self.replies: dict[str, dict[str, Any]] = {}
        self.start()

    def start(self) -> None:
        # Not TCP, because its ports are chosen before they are bound, and kernels that start
        # together would take each other's.
        self.manager = KernelManager(
            transport="ipc", ip=str(self.home.parent / f"{self.home.name}.k")
        )
        self.manager.start_kernel(env=self.environment, cwd=str(self.home.parent))
        self.client = self.manager.blocking_client()
        self.client.start_channels(stdin=False)
        self.client.wait_for_ready(timeout=DEADLINE)

    def send(self, code: str) -> str:
        """Begin a cell, and return the id of its request."""
        return str(self.client.execute(code))

    def run(self, code: str, *, ok: bool = True) -> Outcome:
        """Run a cell to its end. It must succeed, or with `ok=False` it must fail."""
        outcome = self.finish(self.send(code))
        if ok:
            assert outcome.error is None, outcome.error_text
        else:
            assert outcome.error is not None, (
                f"the cell did not fail; it wrote: {outcome.everything}"
            )
        return outcome

    def finish(self, request: str) -> Outcome:
        """Wait for a cell's end and for its reply, as front ends do.

        ipykernel 7.0 to 7.3 may lose a request that arrives while it replies.
        """
        self.until(
            lambda: self._is_idle(request),
            f"the end of the cell; so far: {self.outcome(request).everything}",
        )
        self.reply(request)
        return self.outcome(request)

    def reply(self, request: str) -> dict[str, Any]:
        """Wait for the answer to a request on the shell channel."""
        end = time.monotonic() + DEADLINE
        while request not in self.replies:
            message = self.client.get_shell_msg(timeout=max(0.0, end - time.monotonic()))
            self.replies[message["parent_header"].get("msg_id", "")] = message["content"]
        return self.replies[request]

    def outcome(self, request: str) -> Outcome:
        """Return what a cell has put out so far, with later updates."""
        return Outcome([m for m in self.messages if m["parent_header"].get("msg_id") == request])

    def until(self, look: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
        """Read what the kernel publishes until `look` returns something true, and return that."""
        end = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
            self.read(0.2)

    def read(self, seconds: float) -> None:
        """Read one message, if there is one."""
        try:
            message = self.client.get_iopub_msg(timeout=seconds)
        except queue.Empty:
            return
        message["seen"] = time.monotonic()
        self.messages.append(message)

    def _is_idle(self, request: str) -> bool:
        return any(
            m["msg_type"] == "status"
            and m["content"]["execution_state"] == "idle"
            and m["parent_header"].get("msg_id") == request
            for m in self.messages
        )

    def shown(self, display_id: str) -> list[dict[str, Any]]:
        """Return every form of a display, oldest first, with its updates."""
        kinds = ("display_data", "update_display_data")
        return [
            m["content"]
            for m in self.messages
            if m["msg_type"] in kinds
            and m["content"].get("transient", {}).get("display_id") == display_id
        ]

    def renewed(self, display: dict[str, Any], words: str, seconds: float = DEADLINE) -> str:
        """Wait until a display's text contains these words, and return the text."""
        display_id = display["transient"]["display_id"]

        def look() -> str:
            text = str(self.shown(display_id)[-1]["data"]["text/plain"])
            return text if words in text else ""

        return str(
            self.until(
                look, f"{words!r} in {self.shown(display_id)[-1]['data']['text/plain']!r}", seconds
            )
        )

    def value(self, expression: str) -> Any:
        """Return a value of the kernel, sent as JSON."""
        told = self.run(f"import json as _json; print('@@' + _json.dumps({expression}))").text
        return json.loads(told.partition("@@")[2])

    def complete(self, code: str, cursor: int | None = None) -> list[str]:
        """Return the completions at a cursor (default: the end), applied to the code."""
        reply = self.reply(str(self.client.complete(code, cursor)))
        assert reply["status"] == "ok", reply
        return list(reply["matches"])

    def send_waiting(self, code: str) -> str:
        """Begin a cell, and return once its main thread waits for nbprov."""
        flag = self.home / f"waits-{len(self.messages)}"
        self.run(WATCH.format(flag=str(flag)))
        request = self.send(code)
        self.until(flag.exists, f"a wait; so far: {self.outcome(request).everything}")
        return request

    def interrupt(self, request: str) -> float:
        """Press the stop button once a cell runs, and return when that was."""
        self.until(
            lambda: any(m["msg_type"] == "execute_input" for m in self.outcome(request).messages),
            "the cell to begin",
        )
        pressed = time.monotonic()
        self.manager.interrupt_kernel()
        return pressed

    def panels(self) -> list[str]:
        """Return the comms of all panels that were opened as widgets, in order."""
        return self._widgets(are_panels=True)

    def page_link(self) -> str:
        """Wait for the one widget that runs in every page, and return its comm."""
        (link,) = self.until(self.page_links, "the link of the pages")
        return link

    def page_links(self) -> list[str]:
        """Return the comms of the widgets that run in every page; one for each load.

        Pages tell what they have when such a widget says that it listens.
        """
        listening = {
            m["content"]["comm_id"]
            for m in self.messages
            if m["msg_type"] == "comm_msg"
            and m["content"]["data"].get("content") == {"type": "listening"}
        }
        return [link for link in self._widgets(are_panels=False) if link in listening]

    def _widgets(self, *, are_panels: bool) -> list[str]:
        opened = [m["content"] for m in self.messages if m["msg_type"] == "comm_open"]
        states = {str(c["comm_id"]): c["data"].get("state", {}) for c in opened}
        return [
            comm
            for comm, state in states.items()
            if "_esm" in state and ("anchor" in state) == are_panels
        ]

    def subshell(self) -> str:
        """Create a subshell, as a browser does for the messages of its widgets."""
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=DEADLINE)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return str(reply["content"]["subshell_id"])

    def press(self, comm_id: str, *, subshell: str | None = None, **content: Any) -> None:
        """Send what a button of a panel sends."""
        message = self.client.session.msg(
            "comm_msg", {"comm_id": comm_id, "data": {"method": "custom", "content": content}}
        )
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def state(self, comm_id: str) -> dict[str, Any]:
        """Return what a panel shows in the browser, which is the last state sent to it."""
        last: dict[str, Any] = {}
        for message in self.messages:
            content = message["content"]
            if (
                message["msg_type"] in ("comm_open", "comm_msg")
                and content.get("comm_id") == comm_id
            ):
                last = content["data"].get("state", {}).get("state", last)
        return last

    def restart(self, *, orderly: bool = False) -> None:
        """End it, by SIGKILL or as a person restarts a kernel, and start another on the same
        home."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=not orderly)
        self.messages.clear()
        self.replies.clear()
        self.start()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@contextmanager
def new_kernel(
    home: Path, *, load: bool = True, is_notebook: bool = True, **env: str
) -> Iterator[Kernel]:
    """Yield a kernel with the extension loaded."""
    kernel = Kernel(home, is_notebook=is_notebook, **env)
    try:
        if load:
            kernel.run("%load_ext nbprov")
        yield kernel
    finally:
        kernel.close()
