"""The `local` cloud's daemon, forked: its start costs a test a fortieth of what a new Python does.

It is the real daemon in a process of its own, which lives on without the one that forked it. That
process has read the daemon's code and found out once which isolation and sshd work here.
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from double_process import FORKS, PARENT_OF_DOUBLES

from nbprov.clouds.local.client import DaemonClient, daemon_environment
from nbprov.clouds.local.daemon import daemon, isolation, sshd
from nbprov.clouds.local.rpc import private_dir

DAEMON_ERRORS = "daemon.err"
READY = "READY"
_usual: dict[str, isolation.Rung] = {}
"""The isolation that works here, by the PATH of the process that has looked."""


class ForkedDaemon:
    """The start of a daemon as `DaemonClient` looks at it: it has ended, well or not."""

    def __init__(self, folder: Path) -> None:
        private_dir(folder)
        environment = daemon_environment()
        _, said = PARENT_OF_DOUBLES.begin("local_daemon", [str(folder)], environment)
        self._code = 0 if said == READY else 1

    def poll(self) -> int:
        """Return 0 if the daemon serves."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return what `poll` returns."""
        return self._code


def fork_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have daemons that this process starts forked, where forks exist."""
    if FORKS:
        monkeypatch.setattr(DaemonClient, "_spawn", lambda client: ForkedDaemon(client.folder))


def prepare() -> None:
    """Look once at what works on this computer."""
    if _usual:
        return
    # The process that forks waits for no child, and so would not see how a probe ends.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="nbp-") as folder:
        _usual[os.environ["PATH"]] = isolation.probe(Path(folder))
    sshd.find()
    signal.signal(signal.SIGCHLD, before)


def main(arguments: list[str]) -> None:
    """Run the daemon of the folder that is the only argument; say READY once it serves."""
    (folder,) = arguments
    told = os.dup(1)
    errors = os.open(Path(folder) / DAEMON_ERRORS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(errors, stream)
    os.close(errors)
    os.setsid()
    os.chdir(folder)
    _take_what_is_known()
    begun = os.getpid()
    code = daemon.main(["--dir", folder])
    if os.getpid() == begun:
        os.write(told, f"{READY if code == 0 else code}\n".encode())
    os._exit(code)


def _take_what_is_known() -> None:
    changed = (isolation.ISOLATION_VARIABLE, sshd.SSHD_VARIABLE)
    known = _usual.get(os.environ["PATH"])
    if known is None or any(name in os.environ for name in changed):
        sshd.find.cache_clear()
        return
    isolation.probe = lambda folder, forced=None: known  # the folder is like any other here
