"""The line that shows how much of a copy is done."""

from __future__ import annotations

import math
import time

from .output_line import OutputLine

SHOWN_FROM = 5_000_000
"""A copy of more bytes than this shows its progress at once."""
PAUSE = 0.25
"""Seconds between two updates of the line, which is as often as a person reads."""


class ProgressLine:
    """One line that counts megabytes; it does not appear for small copies.

    Use it from the main thread only.

    Parameters
    ----------
    after
        Seconds after which the line also appears for a small copy.
    """

    def __init__(self, doing: str, total: int = 0, *, after: float = math.inf) -> None:
        self._line: OutputLine | None = None
        self._shown, self._next = "", 0.0
        self._from = time.monotonic() + after
        self._doing, self._total, self._done = doing, total, 0
        self._show()

    def at(self, done: int, doing: str = "", total: int | None = None) -> None:
        """Update the line: how many bytes are done and, optionally, what is being done now."""
        self._done = done
        self._doing = doing or self._doing
        self._total = self._total if total is None else total
        self._show()

    def _show(self) -> None:
        text, now = self.text, time.monotonic()
        if self._line is None:
            if self._total <= SHOWN_FROM and now < self._from:
                return
            self._line = OutputLine(text)
        elif text == self._shown or (now < self._next and self._done != self._total):
            return
        else:
            self._line.replace(text)
        self._shown, self._next = text, now + PAUSE

    @property
    def text(self) -> str:
        """The text of the line."""
        scale, unit = (1e6, "MB") if max(self._total, self._done) >= 1_000_000 else (1e3, "kB")
        if self._total:
            return f"{self._doing}: {self._done / scale:,.0f} of {self._total / scale:,.0f} {unit}"
        return (
            f"{self._doing}: {self._done / scale:,.0f} {unit}" if self._done else f"{self._doing} …"
        )
