"""The publisher: the one way in which displays are updated in the browser.

Jupyter Server drops messages above 1,000 a second over 3 s, the last one included, and the panel
would stay as it was. So changes of one display are combined.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable

from nbprov.model.clock import Seconds

INTERVAL: Seconds = 0.15
"""Minimum time between two messages of a display: it looks live, and is 1/150 of the server's
limit.
"""

RETRIES = 3
"""How often a last state that could not be sent is sent again, one interval apart."""

log = logging.getLogger("nbprov.publisher")


class Publisher:
    """Sends displays that have changed, each at most once per interval.

    The first change is sent at once; all others within the interval are sent together at its end.
    `send` runs on the engine thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, interval: Seconds = INTERVAL) -> None:
        self._loop = loop
        self._interval = interval
        self._sends: dict[Hashable, Callable[[], None]] = {}
        self._last: dict[Hashable, float] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def mark(self, key: Hashable, send: Callable[[], None]) -> None:
        """Note that a display has changed. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._mark, key, send)

    def _mark(self, key: Hashable, send: Callable[[], None]) -> None:
        self._sends[key] = send
        if key in self._timers:
            return
        wait = self._last.get(key, float("-inf")) + self._interval - self._loop.time()
        if wait <= 0:
            self._flush(key, RETRIES)
        else:
            self._timers[key] = self._loop.call_later(wait, self._flush, key, RETRIES)

    def _flush(self, key: Hashable, tries: int) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        send = self._sends.pop(key, None)
        if send is None:
            return
        self._last[key] = self._loop.time()
        try:
            send()
        except Exception:
            log.exception("a display could not be updated")
            if tries > 0:
                self._sends.setdefault(key, send)
                self._timers[key] = self._loop.call_later(
                    self._interval, self._flush, key, tries - 1
                )

    def forget(self, key: Hashable) -> None:
        """Send what is still due for a display, and forget the display. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._forget, key)

    def _forget(self, key: Hashable) -> None:
        self._flush(key, RETRIES)
        self._last.pop(key, None)
