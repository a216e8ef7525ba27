"""The bound on every transfer: a least speed, and a deadline over all. Used on both sides."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Iterator

LEAST_SPEED = 1000.0
"""Bytes a second. At less a gigabyte takes two weeks, and the machine costs money meanwhile."""
SPEED_SECONDS = 60.0
"""How long a transfer is watched before it counts as too slow: a line that is busy recovers."""
MOST_SECONDS = 24 * 3600.0
"""The longest that a transfer may take over all: 1 TB at 12 MB a second."""

FILE_BYTES = 1000
"""What a file counts for beside its content: a disk that makes one a second is no slow line."""


class TransferLimit:
    """What a transfer may take.

    One that moves less than 1 kB a second for a minute is ended, and so is one that is not done
    after a day.

    Parameters
    ----------
    least_speed
        Bytes a second.
    seconds
        How long the transfer may be slower than that.
    most_seconds
        How long it may take over all.
    """

    def __init__(
        self,
        least_speed: float = LEAST_SPEED,
        seconds: float = SPEED_SECONDS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self.least_speed, self.seconds, self.most_seconds = least_speed, seconds, most_seconds

    @property
    def numbers(self) -> list[float]:
        """The arguments of another one, for a machine."""
        return [self.least_speed, self.seconds, self.most_seconds]

    def watch(self) -> TransferWatch:
        """Begin a transfer."""
        return TransferWatch(self)


class TransferWatch:
    """One transfer under a limit. Safe to use from several threads."""

    def __init__(self, limit: TransferLimit) -> None:
        self.limit = limit
        self._begun = self._since = time.monotonic()
        self._moved, self._patience = 0, 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def moving(self, patience: float = 0.0) -> Iterator[None]:
        """Expect bytes to move within this block; outside of one only the deadline counts.

        Parameters
        ----------
        patience
            Seconds for which the transfer may be too slow, where that is longer than usual: one
            side reads first what the other has already.
        """
        self.expect(patience)
        try:
            yield
        finally:
            with self._lock:
                self._patience = 0.0

    def expect(self, patience: float = 0.0) -> None:
        """Begin to measure, with another patience from now on; within `moving` only."""
        with self._lock:
            self._since, self._moved = time.monotonic(), 0
            self._patience = max(patience, self.limit.seconds)

    def moved(self, count: int) -> None:
        """Count bytes that have moved."""
        with self._lock:
            self._moved += count

    def trouble(self) -> str:
        """Return why the transfer has to end, as words after its name; empty if it may go on."""
        limit, now = self.limit, time.monotonic()
        if now - self._begun > limit.most_seconds:
            return f"took longer than {in_words(limit.most_seconds)}"
        with self._lock:
            took = now - self._since
            if not self._patience or took < self._patience:
                return ""
            if self._moved < limit.least_speed * took:
                speed = f"{limit.least_speed / 1000:g} kB a second"
                return f"moved less than {speed} for {in_words(self._patience)}"
            self._since, self._moved = now, 0
        return ""


def in_words(seconds: float) -> str:
    """Return a time as a person says it.

    Examples
    --------
    >>> in_words(86400.0), in_words(600.0), in_words(60.0)
    ('24 hours', '10 minutes', '60 seconds')
    """
    for size, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} seconds"
