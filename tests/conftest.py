"""What holds for every test: a home of its own, no network but loopback, no account of the user's,
nothing skipped in silence and no process left behind.
"""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

DOUBLES = Path(__file__).parent / "doubles"
if str(DOUBLES) not in sys.path:
    sys.path.insert(0, str(DOUBLES))
# jsonschema builds a grammar of international addresses when it is imported, a second of CPU, where
# this package is there; no test checks one.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# A shell's background job begins with Ctrl-C ignored, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MARKER = "NBPROV_TEST_SESSION"
ENDING_SECONDS = 20.0
# The parent of Linux's own threads, which have neither command line nor environment.
KTHREADD = 2
# Accounts and settings of whoever runs the suite: with these out of the way no test can spend money
# or depend on them.
FOREIGN_PREFIXES = (
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "CLOUDSDK_",
    "RUNPOD_",
    "LAMBDA_",
    "VAST_",
    "CUDO_",
    "NBPROV_",
    "SKYPILOT_",
    "JPY_",
)
# The interpreter's own helpers end with the interpreter.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

STRICT = os.environ.get("CI", "").lower() in ("1", "true", "yes")


class NetworkForbidden(RuntimeError):
    """A test reached for something beyond this machine."""


class Session:
    """One run of the suite: its marker in the environment of all it starts, its folder, and what it
    must not have done.
    """

    def __init__(self) -> None:
        # Unix sockets have room for about 100 bytes of path, and macOS puts its temporary folder
        # far down.
        base = "/tmp" if sys.platform != "win32" else None
        self.root = Path(tempfile.mkdtemp(prefix="nbp-", dir=base))
        self.token = uuid.uuid4().hex
        self.homes = 0
        self.reached: list[str] = []
        self.left: list[str] = []
        self.not_run: list[str] = []
        self.open = True
        self.begun = time.time()

    def home(self) -> Path:
        """A new, not yet existing home."""
        self.homes += 1
        return self.root / str(self.homes)

    def isolate(self) -> None:
        """Set the environment of this process and so of all it starts."""
        for name in list(os.environ):
            if name.startswith(FOREIGN_PREFIXES) and not name.startswith("NBPROV_TEST_"):
                del os.environ[name]
        os.environ[MARKER] = self.token
        os.environ["NBPROV_HOME"] = str(self.home())
        for name in (
            "IPYTHONDIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "CLOUDSDK_CONFIG",
        ):
            os.environ[name] = str(self.root / name.lower())
        for name in (
            "AWS_CONFIG_FILE",
            "AWS_SHARED_CREDENTIALS_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ):
            os.environ[name] = str(self.root / "no-account")
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        os.environ["NBPROV_CATALOG_REFRESH"] = "off"

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a connection, or a look-up of a name, that leaves this machine."""
        if not event.startswith("socket.") or not self.open:
            return
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = arguments[1]
            if isinstance(address, tuple) and address and not is_local(address[0]):
                self.refuse(f"{event} to {address!r}")
        elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not is_local(
            arguments[0], named=True
        ):
            self.refuse(f"{event} of {arguments[0]!r}")

    def refuse(self, what: str) -> None:
        """Note it, so that a test which swallows the error fails all the same, and raise."""
        self.reached.append(what)
        raise NetworkForbidden(f"{what}: tests talk to this machine only")

    def survivors(self) -> list[psutil.Process]:
        """The processes that bear this session's marker, or work in its folder."""
        own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        return [
            process
            for process in psutil.process_iter()
            if process.pid not in own and self._ours(process)
        ]

    def end_survivors(self) -> None:
        """Give what is ending a moment, then kill and note what is not."""
        deadline = time.monotonic() + ENDING_SECONDS
        while (
            (alive := self.survivors()) or self.is_one_beginning()
        ) and time.monotonic() < deadline:
            psutil.wait_procs(alive, timeout=0.2)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())[:200]
                self.left.append(f"{process.pid}: {command} in {process.cwd()}")
                process.kill()

    def is_one_beginning(self) -> bool:
        """Whether a process of now has neither command line nor environment yet, as while its
        program is loaded: it may be ours.
        """
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_new = (
                    process.create_time() > self.begun and process.status() != psutil.STATUS_ZOMBIE
                )
                if (
                    is_new
                    and process.ppid() != KTHREADD
                    and not process.cmdline()
                    and not process.environ()
                ):
                    return True
        return False

    def _ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            command = " ".join(process.cmdline())
            if any(helper in command for helper in HELPERS):
                return False
            environment = process.environ()
        except psutil.Error:
            return False
        root = str(self.root)
        return (
            environment.get(MARKER) == self.token
            or root in command
            or any(root in value for value in environment.values())
        )


def is_local(host: object, *, named: bool = False) -> bool:
    """Whether a host is this machine.

    With `named` it is about to be resolved: any number will do, for that asks nobody.

    No host at all (None, or the empty one of a listening socket) is local.
    """
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii", "replace")
    if not isinstance(host, str) or not host:
        return True
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith(".localhost") or host == socket.gethostname()
    return named or address.is_loopback or address.is_unspecified


_session_key = pytest.StashKey[Session]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin the session: environment, guard, profiles, markers."""
    config.addinivalue_line(
        "markers",
        "versions: run again with every supported ipykernel, and with the lowest versions of"
        " everything",
    )
    session = Session()
    session.isolate()
    config.stash[_session_key] = session
    sys.addaudithook(session.audit)
    settings.register_profile("dev", deadline=None, derandomize=False)
    settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
    settings.register_profile("fuzz", deadline=None, max_examples=3000, derandomize=False)
    settings.load_profile("ci" if STRICT else "dev")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what collection made, some million objects, out of every later run of the garbage
    collector: nothing of it is garbage. The collector runs seldom, since a process of tests lives
    for minutes and has the memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(autouse=True)
def nbprov_home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home of the test's own: short, empty, named by NBPROV_HOME here and in all that the test
    starts.
    """
    session = request.config.stash[_session_key]
    home = session.home()
    before = os.environ.get("NBPROV_HOME")
    os.environ["NBPROV_HOME"] = str(home)
    yield home
    _close_session(home)
    if before is None:
        os.environ.pop("NBPROV_HOME", None)
    else:
        os.environ["NBPROV_HOME"] = before


def _close_session(home: Path) -> None:
    """Close a session that a test left open: it holds the clouds and answers of that test."""
    api = sys.modules.get("nbprov.api")
    session = api.current() if api is not None else None
    if api is not None and session is not None and session.engine.home == home:
        api.close()


@pytest.fixture(autouse=True)
def loopback_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that tried to leave this machine, even if it swallowed the refusal."""
    session = request.config.stash[_session_key]
    session.reached.clear()
    yield
    if session.reached:
        pytest.fail("reached beyond this machine: " + "; ".join(session.reached))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name every test that was skipped or expected to fail; in CI it has failed."""
    report = yield
    if report.outcome == "skipped":
        _name(item.config.stash[_session_key], report, report.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skipped itself whole."""
    report = yield
    if report.outcome == "skipped":
        _name(collector.config.stash[_session_key], report, report.nodeid)
    return report


def _name(session: Session, report: pytest.TestReport | pytest.CollectReport, nodeid: str) -> None:
    expected = getattr(report, "wasxfail", None)
    reason = (
        f"expected to fail: {expected}"
        if expected is not None
        else str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    )
    session.not_run.append(f"{nodeid}: {reason}")
    if STRICT:
        report.outcome = "failed"
        report.longrepr = f"{nodeid} did not run, and CI lets nothing pass unseen: {reason}"
        if hasattr(report, "wasxfail"):
            del report.wasxfail


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing that a test started may outlive the run."""
    ours = session.config.stash[_session_key]
    if (doubles := sys.modules.get("double_process")) is not None:
        doubles.PARENT_OF_DOUBLES.end()
    ours.end_survivors()
    if ours.left and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The lines nobody may overlook."""
    ours = terminalreporter.config.stash[_session_key]
    for text in ours.not_run:
        terminalreporter.write_line(f"DID NOT RUN {text}")
    for text in ours.left:
        terminalreporter.write_line(f"LEFT BEHIND (killed) {text}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the session's folder."""
    session = config.stash.get(_session_key, None)
    if session is not None:
        session.open = False
        shutil.rmtree(session.root, ignore_errors=True)
