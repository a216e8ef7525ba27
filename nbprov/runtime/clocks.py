"""The system's clock, and one that counts on steadily from a reading of it."""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path

from nbprov.model.clock import Clock, Instant, Seconds

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The system's clocks.

    `elapsed` counts the time that a laptop sleeps where the platform can tell, because machines
    cost money during that time too. All processes of one computer read the same value.
    """

    def now(self) -> Instant:
        """Wall-clock time in epoch seconds, UTC."""
        return time.time()

    def elapsed(self) -> Seconds:
        """Seconds on a clock that never goes back."""
        # On macOS the raw clock counts sleep, and what Python calls monotonic does not.
        name = "CLOCK_MONOTONIC_RAW" if sys.platform == "darwin" else "CLOCK_BOOTTIME"
        clock = getattr(time, name, None)
        if clock is None:
            return time.monotonic()
        # Each platform has one of them: a type checker for another one does not know it.
        reading: Seconds = getattr(time, "clock_gettime")(clock)  # noqa: B009
        return reading


class SteadyClock:
    """A wall clock that never jumps: it counts on with `elapsed` from one reading of another.

    A clock that is set ahead or back, by hand or by a server of the time, changes no length of
    time that was measured with this one.

    Parameters
    ----------
    clock
        Gives `elapsed`.
    anchor
        The instant at which `elapsed` was 0.
    """

    def __init__(self, clock: Clock, anchor: Instant) -> None:
        self._clock, self._anchor = clock, anchor

    def now(self) -> Instant:
        """The present time in epoch seconds, UTC."""
        return self._anchor + self.elapsed()

    def elapsed(self) -> Seconds:
        """Seconds on a clock that never goes back."""
        return self._clock.elapsed()


@cache
def boot_id() -> str:
    """What tells this start of the computer from all others; empty where the system cannot say.

    Readings of `SystemClock.elapsed` can be compared between processes of one start only.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
