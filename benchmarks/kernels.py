"""Fresh kernels, driven over ZMQ as a notebook's front end drives them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

READY_SECONDS = 30.0
"""How long a kernel may take to start on a busy machine."""
CELL_SECONDS = 60.0
"""How long a measured cell may take before the run is given up."""
END_SECONDS = 5.0

Message = dict[str, Any]

SHOWING = frozenset({"display_data", "execute_result"})


@dataclass
class Reply:
    """What a cell gave.

    Attributes
    ----------
    shown_ms
        From the request to the first display message, in milliseconds; None where nothing was
        displayed.
    text
        What it printed.
    """

    shown_ms: float | None = None
    text: str = ""
    shown: list[Message] = field(default_factory=list)


class Kernel:
    """One running kernel and a client of it."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client

    def run(self, code: str) -> Reply:
        """Run a cell, timing it from the moment the request is sent.

        Raises
        ------
        RuntimeError
            If the cell raised.
        """
        reply = Reply()
        start = time.perf_counter()
        request = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=CELL_SECONDS)
            passed = (time.perf_counter() - start) * 1000
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind in SHOWING:
                reply.shown.append(content)
                reply.shown_ms = passed if reply.shown_ms is None else reply.shown_ms
            elif kind == "stream":
                reply.text += content["text"]
            elif kind == "error":
                raise RuntimeError(
                    f"a measured cell failed: {content['ename']}: {content['evalue']}"
                )
            elif kind == "status" and content["execution_state"] == "idle":
                return reply

    def shown_after(self, code: str) -> float:
        """Milliseconds from a cell's request to what it displays."""
        passed = self.run(code).shown_ms
        if passed is None:
            raise RuntimeError(f"nothing was displayed by {code!r}")
        return passed

    def listen(self, take: Callable[[Message, float], bool], seconds: float = CELL_SECONDS) -> None:
        """Pass on each IOPub message with its arrival time, until `take` returns True."""
        end = time.monotonic() + seconds
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if take(message, time.time()):
                return


def _await_ready(client: BlockingKernelClient, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            return client.wait_for_ready(timeout=READY_SECONDS)
        except RuntimeError:
            # The client takes a kernel that is still compiling its imports for dead: it misses
            # heartbeats.
            if process.poll() is not None or time.monotonic() > end:
                raise


@contextmanager
def fresh_kernel(home: Path, extra: Mapping[str, str] | None = None) -> Iterator[Kernel]:
    """Start a kernel that believes that a person looks at it.

    nbprov's home is in `home`, and IPython's own settings are not read.
    """
    with tempfile.TemporaryDirectory(prefix="nbprov-kernel-", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            "NBPROV_HOME": str(home),
            "IPYTHONDIR": str(Path(folder) / "ipython"),
            "JPY_SESSION_NAME": "benchmark.ipynb",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **(extra or {}),
        }
        connection = str(Path(folder) / "connection.json")
        write_connection_file(connection)
        with (Path(folder) / "kernel.log").open("wb") as log:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", connection]
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        client = BlockingKernelClient()
        client.load_connection_file(connection)
        client.start_channels()
        try:
            _await_ready(client, process)
            kernel = Kernel(client)
            kernel.run("pass")
            yield kernel
        finally:
            client.shutdown()
            client.stop_channels()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
