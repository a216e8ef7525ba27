"""The line that says how far a copy is."""

from __future__ import annotations

import math
import time

from .displays import Line

SHOWN_FROM = 5_000_000
"""From so many bytes on it is said that they travel."""
PAUSE = 0.25
"""Seconds between two steps of the progress line: as often as a person reads."""


class Progress:
    """One line that counts megabytes; nothing for what is small. Of the main thread.

    Parameters
    ----------
    after
        Seconds from which on the line is there also for what is small.
    """

    def __init__(self, doing: str, total: int = 0, *, after: float = math.inf) -> None:
        self._line: Line | None = None
        self._shown, self._next = "", 0.0
        self._from = time.monotonic() + after
        self._doing, self._total, self._done = doing, total, 0
        self._show()

    def at(self, done: int, doing: str = "", total: int | None = None) -> None:
        """Renew the line: so many bytes are done, and perhaps it is something else that is being done now."""
        self._done = done
        self._doing = doing or self._doing
        self._total = self._total if total is None else total
        self._show()

    def _show(self) -> None:
        text, now = self.text, time.monotonic()
        if self._line is None:
            if self._total <= SHOWN_FROM and now < self._from:
                return
            self._line = Line(text)
        elif text == self._shown or (now < self._next and self._done != self._total):
            return
        else:
            self._line.renew(text)
        self._shown, self._next = text, now + PAUSE

    @property
    def text(self) -> str:
        """The line."""
        scale, unit = (1e6, "MB") if max(self._total, self._done) >= 1_000_000 else (1e3, "kB")
        if self._total:
            return f"{self._doing}: {self._done / scale:,.0f} of {self._total / scale:,.0f} {unit}"
        return (
            f"{self._doing}: {self._done / scale:,.0f} {unit}" if self._done else f"{self._doing} …"
        )
