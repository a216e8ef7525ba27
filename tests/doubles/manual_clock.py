"""A clock for tests."""

from __future__ import annotations

from nbprov.model.clock import Instant, Seconds


class ManualClock:
    """A clock whose hands a test holds."""

    def __init__(self, start: Instant = 1_800_000_000.0) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> Instant:
        """The start plus what was advanced."""
        return self._start + self._passed

    def elapsed(self) -> Seconds:
        """What was advanced."""
        return self._passed

    def advance(self, seconds: Seconds) -> None:
        """Let time pass."""
        self._passed += seconds
