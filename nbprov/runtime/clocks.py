"""The system's clock, and the readings that the engine takes of it."""

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
