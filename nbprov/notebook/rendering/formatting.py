"""States, places, ages and prices in words and shapes: said once, used by the widget, the static HTML and the text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from nbprov.model.clock import Instant, short_duration
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.money import Micros, format_usd
from nbprov.model.offers import Candidate
from nbprov.model.places import Place
from nbprov.model.stock import Stock

DASH = "–"
"""Stands for a value that is not known."""

SIMULATED = "simulated: you pay $0"


class Tone(StrEnum):
    """What a state means for the person; colours follow it, words and shapes never depend on it."""

    IDLE = "idle"
    BUSY = "busy"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


class Shape(StrEnum):
    """The mark beside a state's words, told apart without colour."""

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
    """How a state is said and drawn."""

    words: str
    shape: Shape
    tone: Tone

    def __str__(self) -> str:
        return f"{self.shape.symbol} {self.words}"


RUN_LOOKS: dict[RunState, Look] = {
    RunState.PLANNED: Look("planned", Shape.RING, Tone.IDLE),
    RunState.LAUNCHING: Look("launching", Shape.HALF, Tone.BUSY),
    RunState.WAITING: Look("waiting for stock", Shape.RING, Tone.BUSY),
    RunState.READY: Look("ready", Shape.DISC, Tone.GOOD),
    RunState.CANCELLING: Look("cancelling", Shape.HALF, Tone.WARN),
    RunState.CANCELLED: Look("cancelled", Shape.DASH, Tone.OFF),
    RunState.FAILED: Look("failed", Shape.CROSS, Tone.BAD),
    RunState.ENDED: Look("ended", Shape.SQUARE, Tone.OFF),
}

WAITS_FOR_LAUNCH = Look("waiting for Launch", Shape.RING, Tone.IDLE)

ATTEMPT_LOOKS: dict[AttemptState, Look] = {
    AttemptState.INTENT: Look("about to ask", Shape.RING, Tone.BUSY),
    AttemptState.SENT: Look("asked", Shape.HALF, Tone.BUSY),
    AttemptState.UNKNOWN: Look("answer lost, looking", Shape.ALERT, Tone.WARN),
    AttemptState.ACCEPTED: Look("accepted", Shape.HALF, Tone.BUSY),
    AttemptState.BOOTING: Look("booting", Shape.HALF, Tone.BUSY),
    AttemptState.SSH: Look("waiting for ssh", Shape.HALF, Tone.BUSY),
    AttemptState.AGENT: Look("starting the agent", Shape.HALF, Tone.BUSY),
    AttemptState.HEALTH: Look("checking its health", Shape.HALF, Tone.BUSY),
    AttemptState.READY: Look("ready", Shape.DISC, Tone.GOOD),
    AttemptState.ENDING: Look("ending", Shape.HALF, Tone.WARN),
    AttemptState.REFUSED: Look("refused", Shape.CROSS, Tone.BAD),
    AttemptState.GONE: Look("ended", Shape.SQUARE, Tone.OFF),
    AttemptState.ABSENT: Look("was not made", Shape.DASH, Tone.OFF),
}

CLUSTER_LOOKS: dict[ClusterState, Look] = {
    ClusterState.LAUNCHING: Look("launching", Shape.HALF, Tone.BUSY),
    ClusterState.RUNNING: Look("running", Shape.DISC, Tone.GOOD),
    ClusterState.STOPPING: Look("stopping", Shape.HALF, Tone.WARN),
    ClusterState.STOPPED: Look("stopped", Shape.RING, Tone.IDLE),
    ClusterState.STARTING: Look("starting", Shape.HALF, Tone.BUSY),
    ClusterState.ENDING: Look("ending", Shape.HALF, Tone.WARN),
    ClusterState.ENDED: Look("ended", Shape.SQUARE, Tone.OFF),
    ClusterState.UNKNOWN: Look("unknown", Shape.ALERT, Tone.WARN),
}


def place_words(place: Place) -> str:
    """A place without saying its region twice.

    Examples
    --------
    >>> place_words(Place("gcp", "us-central1", "us-central1-a")), place_words(Place("local", "north", "b"))
    ('gcp/us-central1-a', 'local/north/b')
    """
    if place.region and place.zone.startswith(place.region):
        return f"{place.cloud}/{place.zone}"
    return str(place)


def per_hour(hourly: Micros) -> str:
    """A price an hour: `$1.10/h`."""
    return f"{format_usd(hourly)}/h"


def cost_words(cost: Micros, *, simulated: bool = False) -> str:
    """An amount, said to be simulated where nobody pays it."""
    return f"{format_usd(cost)} ({SIMULATED})" if simulated else format_usd(cost)


def number_words(value: float) -> str:
    """A quantity without idle decimals; a dash where it is not known.

    Examples
    --------
    >>> number_words(96.0), number_words(0.333), number_words(float("nan"))
    ('96', '0.333', '–')
    """
    return DASH if value != value else f"{value:.6g}"


def age_words(as_of: str, today: date) -> str:
    """How old a price of that date is; the text itself where it is no date.

    Examples
    --------
    >>> age_words("2026-11-18", date(2026, 11, 21)), age_words("2026-11-21", date(2026, 11, 21)), age_words("", date(2026, 11, 21))
    ('3 d', 'today', '–')
    """
    if not as_of:
        return DASH
    try:
        days = (today - date.fromisoformat(as_of[:10])).days
    except ValueError:
        return as_of
    return "today" if days <= 0 else f"{days} d"


def stock_words(stock: Stock | None, now: Instant) -> str:
    """What a cloud said of its stock and how long ago; empty where it said nothing.

    Examples
    --------
    >>> from nbprov.model.stock import Pool, StockLevel
    >>> pool = Pool("runpod", "CZ", "EU-CZ-1", "1x_L40S_SECURE", "on-demand")
    >>> stock_words(Stock(100.0, pool, StockLevel.HIGH), 120.0), stock_words(None, 120.0)
    ('high, 20 s ago', '')
    """
    return (
        ""
        if stock is None
        else f"{stock.level.value}, {short_duration(max(0.0, now - stock.at))} ago"
    )


def utc_words(instant: Instant) -> str:
    """An instant for a saved page: `2026-11-21 07:09:10 UTC`."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def nodes_words(count: int) -> str:
    """`2 × ` before what there is several of; nothing for one."""
    return f"{count} × " if count > 1 else ""


def candidate_words(candidate: Candidate) -> str:
    """A candidate in one phrase: what, where, how bought, for how much."""
    offer = candidate.offer
    what = f"{offer.gpus} {offer.instance_type}" if offer.accelerator else offer.instance_type
    spot = " spot" if offer.market.value == "spot" else ""
    return f"{nodes_words(candidate.count)}{what}{spot} in {place_words(offer.place)} at {per_hour(candidate.hourly)}"
