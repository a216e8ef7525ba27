"""The `local` cloud's daemon, forked: for a test this costs a fraction of starting a new Python.

It is the real daemon, in a process of its own that outlives the one it was forked from. That one,
the template, has read the daemon's code and found out which isolation and which sshd work here.
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from double_process import FORKS, PARENT_OF_DOUBLES

from nbprov.clouds.local.client import START_SECONDS, DaemonClient, daemon_environment
from nbprov.clouds.local.daemon import daemon, isolation, sshd
from nbprov.clouds.local.rpc import Unreachable, private_dir

READY = "READY"
OVERRIDES = (isolation.ISOLATION_VARIABLE, sshd.SSHD_VARIABLE)
"""Variables with which a test chooses another isolation or sshd."""
_isolation_by_path: dict[str, isolation.IsolationLevel] = {}
"""What the template found out, by its PATH."""


class ForkedDaemon:
    """A daemon's start, in the form in which `DaemonClient` looks at a process.

    The start has ended when this is made.

    Raises
    ------
    Unreachable
        Its folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            private_dir(folder)
        except OSError as error:
            raise Unreachable(f"the daemon cannot be started: {error}") from error
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
    """Have the daemons that this process starts forked, on a system that has forks."""
    if FORKS:
        monkeypatch.setattr(DaemonClient, "_spawn", lambda client: ForkedDaemon(client.folder))


def prepare() -> None:
    """Find out, in the template, what works on this computer."""
    if _isolation_by_path:
        return
    # The template lets the system reap its children, and so would not see how a probe ends.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        with tempfile.TemporaryDirectory(prefix="nbp-") as folder:
            _isolation_by_path[os.environ.get("PATH", "")] = isolation.probe(Path(folder))
        sshd.find()
    finally:
        signal.signal(signal.SIGCHLD, before)


def main(arguments: list[str]) -> None:
    """Run the daemon of the folder that is the only argument; say READY once it serves."""
    (folder,) = arguments
    answer = [os.dup(1)]
    errors = os.open(Path(folder) / "daemon.err", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(errors, stream)
    os.close(errors)
    os.setsid()
    os.chdir(folder)
    _use_what_was_found()
    # The daemon is a child of this process. Where it does not come up in time this one is ended,
    # and nobody is left who could answer.
    os.register_at_fork(after_in_child=lambda: os.close(answer.pop()) if answer else None)
    signal.alarm(int(START_SECONDS))
    code = daemon.main(["--dir", folder])
    if answer:
        os.write(answer[0], f"{READY if code == 0 else code}\n".encode())
    os._exit(code)


def _use_what_was_found() -> None:
    found = _isolation_by_path.get(os.environ.get("PATH", ""))
    if found is None or any(name in os.environ for name in OVERRIDES):
        sshd.find.cache_clear()
        return
    isolation.probe = lambda folder, forced=None: found
