"""Clocks: the system's, and one that tests advance by hand."""

from __future__ import annotations

import time

from nbprov.model.clock import Instant, Seconds


class SystemClock:
    """The system's clocks.

    `elapsed` counts the time that a laptop sleeps where the platform can tell (Linux), because
    machines cost money during that time too.
    """

    def now(self) -> Instant:
        """Wall-clock time in epoch seconds, UTC."""
        return time.time()

    def elapsed(self) -> Seconds:
        """Seconds on a clock that never goes back."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        if boottime is None:
            return time.monotonic()
        # Only Linux has it: a type checker for another platform does not know the attribute.
        reading: Seconds = getattr(time, "clock_gettime")(boottime)  # noqa: B009
        return reading


class ManualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self, start: Instant = 1_800_000_000.0) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> Instant:
        """The start time plus the time advanced."""
        return self._start + self._passed

    def elapsed(self) -> Seconds:
        """The time advanced."""
        return self._passed

    def advance(self, seconds: Seconds) -> None:
        """Advance the clock."""
        self._passed += seconds
