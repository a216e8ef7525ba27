"""Words and marks for states, places, ages and prices, shared by widget, HTML and text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from nbprov.model.clock import Instant, short_duration, utc_text
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.money import Micros, exact_usd, format_usd
from nbprov.model.offers import Candidate
from nbprov.model.places import Place
from nbprov.model.stock import Stock

DASH = "–"
"""Stands for an unknown value."""

OLD_DAYS, STALE_DAYS = 30, 180
"""From how many days on the age of a price is a warning, and from how many a strong one: prices of
GPUs move within weeks."""
SIMULATED = "simulated: you pay $0"


class Tone(StrEnum):
    """What a state means for the person. It chooses the colour, never the words or the mark."""

    IDLE = "idle"
    BUSY = "busy"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


class StateMark(StrEnum):
    """The mark beside a state's words, which can be told apart without colour."""

    RING = "ring"
    HALF = "half"
    DISC = "disc"
    CROSS = "cross"
    SQUARE = "square"
    ALERT = "alert"
    DASH = "dash"

    @property
    def symbol(self) -> str:
        """The mark as one character, for plain text."""
        return {
            "ring": "○",
            "half": "◐",
            "disc": "●",
            "cross": "✕",
            "square": "■",
            "alert": "▲",
            "dash": "–",
        }[self.value]


@dataclass(frozen=True, slots=True)
class Look:
    """The words, the mark and the tone of a state."""

    words: str
    shape: StateMark
    tone: Tone

    def __str__(self) -> str:
        return f"{self.shape.symbol} {self.words}"


RUN_LOOKS: dict[RunState, Look] = {
    RunState.PLANNED: Look("planned", StateMark.RING, Tone.IDLE),
    RunState.LAUNCHING: Look("launching", StateMark.HALF, Tone.BUSY),
    RunState.WAITING: Look("waiting for stock", StateMark.RING, Tone.BUSY),
    RunState.READY: Look("ready", StateMark.DISC, Tone.GOOD),
    RunState.CANCELLING: Look("cancelling", StateMark.HALF, Tone.WARN),
    RunState.CANCELLED: Look("cancelled", StateMark.DASH, Tone.OFF),
    RunState.FAILED: Look("failed", StateMark.CROSS, Tone.BAD),
    RunState.ENDED: Look("ended", StateMark.SQUARE, Tone.OFF),
}

WAITS_FOR_LAUNCH = Look("waiting for Launch", StateMark.RING, Tone.IDLE)

ATTEMPT_LOOKS: dict[AttemptState, Look] = {
    AttemptState.INTENT: Look("about to request", StateMark.RING, Tone.BUSY),
    AttemptState.SENT: Look("requested", StateMark.HALF, Tone.BUSY),
    AttemptState.UNKNOWN: Look("answer lost, checking", StateMark.ALERT, Tone.WARN),
    AttemptState.ACCEPTED: Look("accepted", StateMark.HALF, Tone.BUSY),
    AttemptState.BOOTING: Look("booting", StateMark.HALF, Tone.BUSY),
    AttemptState.SSH: Look("waiting for ssh", StateMark.HALF, Tone.BUSY),
    AttemptState.AGENT: Look("starting the agent", StateMark.HALF, Tone.BUSY),
    AttemptState.HEALTH: Look("checking health", StateMark.HALF, Tone.BUSY),
    AttemptState.READY: Look("ready", StateMark.DISC, Tone.GOOD),
    AttemptState.ENDING: Look("ending", StateMark.HALF, Tone.WARN),
    AttemptState.REFUSED: Look("refused", StateMark.CROSS, Tone.BAD),
    AttemptState.GONE: Look("ended", StateMark.SQUARE, Tone.OFF),
    AttemptState.ABSENT: Look("not created", StateMark.DASH, Tone.OFF),
}

CLUSTER_LOOKS: dict[ClusterState, Look] = {
    ClusterState.WAITING: Look("waiting for stock", StateMark.RING, Tone.BUSY),
    ClusterState.LAUNCHING: Look("launching", StateMark.HALF, Tone.BUSY),
    ClusterState.RUNNING: Look("running", StateMark.DISC, Tone.GOOD),
    ClusterState.STOPPING: Look("stopping", StateMark.HALF, Tone.WARN),
    ClusterState.STOPPED: Look("stopped", StateMark.RING, Tone.IDLE),
    ClusterState.STARTING: Look("starting", StateMark.HALF, Tone.BUSY),
    ClusterState.ENDING: Look("ending", StateMark.HALF, Tone.WARN),
    ClusterState.ENDED: Look("ended", StateMark.SQUARE, Tone.OFF),
    ClusterState.UNKNOWN: Look("unknown", StateMark.ALERT, Tone.WARN),
}


def format_place(place: Place) -> str:
    """Return a place as text, without naming its region twice.

    Examples
    --------
    >>> format_place(Place("gcp", "us-central1", "us-central1-a"))
    'gcp/us-central1-a'
    >>> format_place(Place("local", "north", "b"))
    'local/north/b'
    """
    if place.region and place.zone.startswith(place.region):
        return f"{place.cloud}/{place.zone}"
    return str(place)


def per_hour(hourly: Micros) -> str:
    """Return a price per hour: `$1.10/h`."""
    return f"{format_usd(hourly)}/h"


def exact_per_hour(hourly: Micros) -> str:
    """Return an agreed price per hour with all its digits: `$0.105/h`."""
    return f"{exact_usd(hourly)}/h"


def format_cost(cost: Micros, *, simulated: bool = False) -> str:
    """Return an amount, marked as simulated where nobody pays it."""
    return f"{format_usd(cost)} ({SIMULATED})" if simulated else format_usd(cost)


def format_number(value: float) -> str:
    """Return a number without trailing zeros, or a dash where it is unknown.

    Examples
    --------
    >>> format_number(96.0), format_number(0.333), format_number(float("nan"))
    ('96', '0.333', '–')
    """
    return DASH if value != value else f"{value:.6g}"


def format_age(as_of: str, today: date) -> str:
    """Return the age of a price of that date; the text itself where it is not a date.

    Examples
    --------
    >>> today = date(2026, 11, 21)
    >>> format_age("2026-11-18", today), format_age("2026-11-21", today), format_age("", today)
    ('3 d', 'today', '–')
    >>> format_age("2026-10-01", today), format_age("2026-01-01", today)
    ('△ old, 51 d', '▲ stale, 324 d')
    """
    if not as_of:
        return DASH
    try:
        days = (today - date.fromisoformat(as_of[:10])).days
    except ValueError:
        return as_of
    if days <= 0:
        return "today"
    word = "" if days < OLD_DAYS else "△ old, " if days < STALE_DAYS else "▲ stale, "
    return f"{word}{days} d"


def format_stock(stock: Stock | None, now: Instant) -> str:
    """Return the stock level that a cloud reported and its age; empty where there is none.

    Examples
    --------
    >>> from nbprov.model.stock import Pool, StockLevel
    >>> pool = Pool("runpod", "CZ", "EU-CZ-1", "1x_L40S_SECURE", "on-demand")
    >>> format_stock(Stock(100.0, pool, StockLevel.HIGH), 120.0), format_stock(None, 120.0)
    ('high, 20 s ago', '')
    >>> format_stock(Stock(100.0, pool, StockLevel.LOW), 825.0)
    'low, 12 min ago'
    """
    if stock is None:
        return ""
    age = max(0.0, now - stock.at)
    # Clouds answer about once a minute, so the seconds of an older answer tell nothing.
    return f"{stock.level.value}, {short_duration(age if age < 60 else age // 60 * 60)} ago"


def format_utc(instant: Instant) -> str:
    """Return an instant for a saved page: `2026-11-21 07:09:10 UTC`."""
    return utc_text(instant)


def nodes_prefix(count: int) -> str:
    """Return `2 × ` for two nodes, and nothing for one."""
    return f"{count} × " if count > 1 else ""


def describe_candidate(candidate: Candidate) -> str:
    """Return a candidate in one phrase: its machine, market, place and price."""
    offer = candidate.offer
    what = f"{offer.gpus} {offer.instance_type}" if offer.accelerator else offer.instance_type
    spot = " spot" if offer.market.value == "spot" else ""
    machines = f"{nodes_prefix(candidate.count)}{what}{spot}"
    return f"{machines} in {format_place(offer.place)} at {per_hour(candidate.hourly)}"
