"""The adapter's client: calls the daemon, and starts it if nobody answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.paths import open_private

from . import rpc
from .secret_places import FILE_VARIABLES, FOLDER_VARIABLES

START_SECONDS: Seconds = 15.0
"""How long a daemon may take to start: a cold interpreter on a slow disk needs about two seconds,
on a busy machine ten."""
START_STEP: Seconds = 0.01
"""The pause between two looks for a daemon that is starting, which takes about 0.2 s."""
ALIVE_SECONDS: Seconds = 2.0
"""How long opening a connection on this computer may take."""

LEAST_SECONDS: Seconds = 0.05
"""The least time left for an answer if the connection used up the rest: enough for any living
daemon."""

KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    *FOLDER_VARIABLES,
    *FILE_VARIABLES,
)
"""Variables that the daemon inherits besides `NBPROV_*` and `LC_*`: names and paths alone. A
kernel's environment holds secrets that the daemon must not get."""

REPEATABLE = frozenset(
    {"describe", "offers", "quote", "poll", "list", "console", "terminate", "stop"}
)
"""Calls that are sent again if the connection breaks: the daemon may have been killed, and asking
twice is harmless."""


class DaemonClient:
    """Calls the daemon of one state directory. Holds no connection; safe to share between
    threads.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Seconds,
        start: bool = True,
    ) -> Any:
        """Make one call within `timeout` seconds; with `start`, a missing daemon is started first.

        The start has `START_SECONDS` of its own before the call's time begins: it is needed once on
        a computer, and if this call gave up on it, the next one would wait just as long.

        Raises
        ------
        rpc.Refusal
            If the daemon refuses.
        rpc.Unreachable
            If no daemon answers and none could be started; nothing was sent.
        rpc.AnswerLost
            If the request was sent and no answer came.
        """
        deadline = time.monotonic() + timeout
        try:
            return self._call_once(name, arguments or {}, deadline, start)
        except rpc.AnswerLost as error:
            if name not in REPEATABLE or isinstance(error, rpc.NoAnswer):
                raise
        return self._call_once(name, arguments or {}, deadline, start)

    def _call_once(
        self, name: str, arguments: Mapping[str, Any], deadline: Seconds, start: bool
    ) -> Any:
        while True:
            asked = time.monotonic()
            endpoint, link, started = self._connect(start)
            if started:
                deadline += time.monotonic() - asked
            try:
                with link:
                    link.settimeout(max(LEAST_SECONDS, deadline - time.monotonic()))
                    return rpc.exchange(link, endpoint, name, arguments)
            except rpc.Refusal as refusal:
                # A new daemon replaced the old one between our look and our call, and has done
                # nothing yet.
                if refusal.code != rpc.STRANGER or rpc.read_endpoint(self.folder) == endpoint:
                    raise

    def _connect(self, start: bool) -> tuple[rpc.Endpoint, Any, bool]:
        endpoint = rpc.read_endpoint(self.folder)
        if endpoint is not None:
            try:
                return endpoint, rpc.connect(endpoint, ALIVE_SECONDS), False
            except rpc.Unreachable:
                if not start:
                    raise
        if not start:
            raise rpc.Unreachable("no daemon runs")
        return (*self._start(), True)

    def _start(self) -> tuple[rpc.Endpoint, Any]:
        deadline = time.monotonic() + START_SECONDS
        process = self._spawn()
        while True:
            endpoint = rpc.read_endpoint(self.folder)
            if endpoint is not None:
                try:
                    link = rpc.connect(endpoint, ALIVE_SECONDS)
                    process.wait(START_SECONDS)
                    return endpoint, link
                except rpc.Unreachable:
                    endpoint = None  # Left by an earlier daemon.
            code = process.poll()
            if code:
                raise rpc.Unreachable(f"the daemon ended with {code}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise rpc.Unreachable(f"the daemon did not come up in time: {self._last_words()}")
            time.sleep(START_STEP)

    def _spawn(self) -> subprocess.Popen[bytes]:
        try:
            rpc.private_dir(self.folder)
            with open(self.folder / "daemon.err", "ab", opener=open_private) as errors:
                return subprocess.Popen(
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "nbprov.clouds.local.daemon.daemon",
                        "--dir",
                        str(self.folder),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env=daemon_environment(),
                    cwd=self.folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise rpc.Unreachable(f"the daemon cannot be started: {error}") from error

    def _last_words(self) -> str:
        try:
            text = (self.folder / "daemon.err").read_text(errors="replace")
        except OSError as error:
            return str(error)
        return text.strip().splitlines()[-1] if text.strip() else "it said nothing"


def daemon_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a daemon inherits of the environment.

    Paths, language and nbprov's settings, and no credentials.
    """
    env = os.environ if environ is None else environ
    kept = {k: v for k, v in env.items() if k in KEPT_VARIABLES or k.startswith(("LC_", "NBPROV_"))}
    # The daemon must be of the same release as the adapter, wherever that was imported from.
    kept["PYTHONPATH"] = str(Path(__file__).resolve().parents[3])
    return kept
