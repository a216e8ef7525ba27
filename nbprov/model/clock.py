"""Instants, durations and the clock protocol.

An instant is a float: seconds since the Unix epoch, UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

Instant = float
"""Seconds since the Unix epoch, UTC."""

Seconds = float
"""A length of time, in seconds."""


class Clock(Protocol):
    """A source of time, passed in wherever time matters so that tests can control it."""

    def now(self) -> Instant:
        """Wall-clock time, UTC, for what is stored or shown."""

    def elapsed(self) -> Seconds:
        """Time that never goes back and counts suspend, for deadlines."""


def iso(instant: Instant) -> str:
    """Write an instant as `2026-11-21T07:09:10Z`."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_text(instant: Instant) -> str:
    """Write an instant for people, with its zone: `2026-11-21 07:09:10 UTC`.

    Panels in a browser show it in the reader's own zone.
    """
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_duration(seconds: Seconds) -> str:
    """Write a duration the way people say it.

    Examples
    --------
    >>> short_duration(4.2), short_duration(95), short_duration(7265), short_duration(200_000)
    ('4 s', '1 min 35 s', '2 h 1 min', '2 d 7 h')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, secs = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {secs} s" if secs else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
