"""What clouds answered lately and how old their prices are, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nbprov.api.reports.market_report import MarketReport, PlaceHistory, PriceAge
from nbprov.market.observations import ACCEPTED
from nbprov.model.clock import Instant, Seconds, short_duration
from nbprov.model.failures import RULES, Cause
from nbprov.model.places import Place
from nbprov.model.stock import StockLevel

from .formatting import OLD_DAYS, Look, StateMark, Tone, format_place
from .price_columns import level_digits

DAY: Seconds = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class MarketRow:
    """A row of the dashboard's table of places.

    Attributes
    ----------
    levels
        The stock of the last day as digits, as in a price table.
    look
        The last answer.
    at
        When it came.
    """

    key: str
    machine: str
    place: str
    levels: str
    look: Look
    at: Instant

    def words(self, now: Instant) -> str:
        """Return the row as text, with its day where there is one."""
        known = self.levels.replace("-", "")
        there = len(known) - known.count("0")
        day = (
            f"; in stock at {there} of {len(known)} times in the last 24 h"
            if len(known) > 1
            else ""
        )
        return f"{self.machine} in {self.place}: {self.look.words} {ago(now - self.at)}{day}"


def ago(seconds: float) -> str:
    """Return an age in whole minutes: seconds would be wrong before the next change.

    Examples
    --------
    >>> ago(59.0), ago(3719.0)
    ('less than a minute ago', '1 h 1 min ago')
    """
    return f"{whole_minutes(seconds)} ago"


def whole_minutes(seconds: float) -> str:
    """Return a duration in whole minutes."""
    return short_duration(seconds // 60 * 60) if seconds >= 60 else "less than a minute"


def market_rows(report: MarketReport) -> tuple[MarketRow, ...]:
    """Return the rows of the places that answered last."""
    return tuple(_row(one) for one in report.places)


def _row(one: PlaceHistory) -> MarketRow:
    pool = one.pool
    what = " ".join(part for part in (one.gpus, pool.instance_type) if part) or "everything"
    spot = " spot" if pool.market == "spot" else ""
    place = format_place(Place(pool.cloud, pool.region, pool.zone))
    digits = level_digits(one.levels)
    return MarketRow("/".join(pool), f"{what}{spot}", place, digits, _look(one), one.at)


def _look(one: PlaceHistory) -> Look:
    if one.is_report:
        is_none = one.answer == StockLevel.NONE
        words = "no stock" if is_none else f"{one.answer} stock"
        return (
            Look(words, StateMark.CROSS, Tone.BAD)
            if is_none
            else Look(words, StateMark.DISC, Tone.GOOD)
        )
    if one.answer == ACCEPTED:
        return Look("accepted", StateMark.DISC, Tone.GOOD)
    return Look(RULES[Cause(one.answer)].words, StateMark.CROSS, Tone.BAD)


def price_lines(ages: Sequence[PriceAge], now: Instant) -> tuple[list[str], list[str]]:
    """Return lines on prices that are fresh, and on those that are so old that it matters."""
    old = [age for age in ages if now - age.at > OLD_DAYS * DAY]
    fresh = [age for age in ages if age not in old]
    return (
        [", ".join(_age(age, now) for age in reversed(fresh))] if fresh else [],
        [
            f"older than {OLD_DAYS} d: {', '.join(_age(age, now) for age in old)}"
            " (%nbprov catalog refresh)"
        ]
        if old
        else [],
    )


def _age(age: PriceAge, now: Instant) -> str:
    if age.is_refreshed and now - age.at < DAY:
        return f"{age.cloud} {ago(now - age.at)}"
    now_day, day = (datetime.fromtimestamp(at, UTC).date() for at in (now, age.at))
    days = (now_day - day).days
    return f"{age.cloud} {f'{days} d' if days > 0 else 'today'}"
