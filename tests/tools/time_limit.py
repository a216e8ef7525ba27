"""A pytest plugin: `--stop-after SECONDS` begins no further test after that time, and names the
files that were left out.
"""

from __future__ import annotations

import time

import pytest


class TimeLimit:
    """Stops one run of pytest when its time is over; what ran until then decides how it ended."""

    def __init__(self, session: pytest.Session, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._begun: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at the clock after each phase of a test, wherever it ran."""
        self._begun.add(report.nodeid.split("::")[0])
        if self.is_over:
            self._session.shouldstop = f"{self._seconds:.0f} s are over"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run that was stopped has failed only if a test has."""
        if (
            self.is_over
            and session.exitstatus == pytest.ExitCode.INTERRUPTED
            and not session.testsfailed
        ):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what did not run: it is not shown to work."""
        if self.is_over:
            left = sorted(
                {name for name in self._session.config.args if name.endswith(".py")} - self._begun
            )
            terminalreporter.write_line(
                f"NOT BEGUN within {self._seconds:.0f} s: {', '.join(left) or 'none'}"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--stop-after",
        type=float,
        metavar="SECONDS",
        help="begin no further test after so many seconds",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the time of this process: each worker of xdist stops by itself."""
    seconds = session.config.getoption("--stop-after")
    if seconds is not None:
        session.config.pluginmanager.register(TimeLimit(session, seconds))
