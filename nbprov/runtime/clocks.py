"""The two clocks of a process: the wall and one that counts suspend."""

from __future__ import annotations

import time

from nbprov.model.clock import Instant, Seconds


class SystemClock:
    """The machine's own clocks.

    `elapsed` counts the time a laptop spent asleep where the platform can tell (Linux), since the bill ran on meanwhile.
    """

    def now(self) -> Instant:
        """Wall-clock time in epoch seconds, UTC."""
        return time.time()

    def elapsed(self) -> Seconds:
        """Seconds on a clock that never steps back."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        if boottime is None:
            return time.monotonic()
        reading: Seconds = getattr(time, "clock_gettime")(boottime)  # noqa: B009  (Linux only; unknown to type checkers elsewhere)
        return reading
