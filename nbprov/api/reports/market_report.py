"""What clouds answered in the last day, by machine and place, and how old their prices are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nbprov.market.observations import ACCEPTED, OUT_OF_STOCK, Observation
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.offers import Offer
from nbprov.model.stock import Pool, Stock, StockLevel
from nbprov.runtime.worker_pool import WorkerPool

if TYPE_CHECKING:
    from nbprov.api.context import Context
    from nbprov.api.services.stock import StockService

Levels = Sequence[StockLevel | None]

MOST_PLACES = 20
"""So many places are told, those with the latest answers."""
TRIED_READ = 200
"""So many of the latest attempts are read for the GPUs of their machines."""
REREAD: Seconds = 30.0
"""The least time between two readings of the answers."""
PRICES_REREAD: Seconds = 600.0
"""The least time between two readings of the price files, which takes a quarter of a second."""

log = logging.getLogger("nbprov.api")


@dataclass(frozen=True, slots=True)
class PlaceHistory:
    """What a cloud answered of one pool in the last day.

    Attributes
    ----------
    levels
        The stock in each period, oldest first; None where nothing is known. A refusal for stock
        means none, and an accepted attempt at least a little.
    answer
        The last answer: `accepted`, the value of a `Cause`, or the level of a report on stock.
    is_report
        Whether the last answer is a report on stock, and no answer to an attempt.
    gpus
        The GPUs of the machine; empty where it has none, or nobody knows.
    """

    pool: Pool
    levels: tuple[StockLevel | None, ...]
    answer: str
    is_report: bool
    at: Instant
    gpus: str = ""


@dataclass(frozen=True, slots=True)
class PriceAge:
    """When the prices of a cloud were known to be current.

    Attributes
    ----------
    at
        When a refresh last found or fetched them, else the date of the newest of them.
    is_refreshed
        Whether a refresh did, and the time of the day is known.
    """

    cloud: str
    at: Instant
    is_refreshed: bool


@dataclass(frozen=True, slots=True)
class MarketReport:
    """What is known of markets, as of one moment.

    Attributes
    ----------
    places
        Those with the latest answers, latest first.
    total
        How many places answered in the last day.
    """

    places: tuple[PlaceHistory, ...] = ()
    total: int = 0
    prices: tuple[PriceAge, ...] = ()


def place_histories(
    levels: Mapping[Pool, Levels],
    reports: Iterable[Stock],
    attempts: Iterable[Observation],
    since: Instant,
    length: Seconds,
    periods: int,
) -> list[PlaceHistory]:
    """Put reports on stock and answers to attempts together, the latest answer first.

    Parameters
    ----------
    levels
        The reports on stock by pool and period, oldest first.
    reports, attempts
        The last report of each pool, and the answers to attempts, oldest first.
    since, length
        When the first of the `periods` begins, and how long one is.
    """
    found = {pool: [*row] for pool, row in levels.items()}
    last = {one.pool: (one.at, one.level.value, True) for one in reports}
    for one in attempts:
        row = found.setdefault(one.pool, [None] * periods)
        if one.outcome == ACCEPTED or one.outcome in OUT_OF_STOCK:
            # To be refused says more of a period than a report of it.
            level = StockLevel.LOW if one.outcome == ACCEPTED else StockLevel.NONE
            row[min(periods - 1, max(0, int((one.at - since) / length)))] = level
        if one.pool not in last or one.at >= last[one.pool][0]:
            last[one.pool] = (one.at, one.outcome, False)
    ordered = sorted(last.items(), key=lambda item: -item[1][0])
    return [
        PlaceHistory(pool, tuple(found.get(pool, [None] * periods)), answer, is_report, at)
        for pool, (at, answer, is_report) in ordered
    ]


class MarketReader:
    """Reads what is known of markets in a thread of its own, while somebody looks.

    A reading takes up to a second, and the first one of a computer builds the price catalogue.
    """

    def __init__(self, context: Context, stock: StockService) -> None:
        self._context, self._stock = context, stock
        self._workers = WorkerPool("market", 1)
        self._is_reading = threading.Lock()
        self._report = MarketReport()
        self._read_at: Instant = 0.0
        self._prices_at: Instant = 0.0

    @property
    def report(self) -> MarketReport:
        """What was read last; empty before. Any thread."""
        return self._report

    def look(self) -> None:
        """Read again soon, unless that was done just now, and return at once. Any thread."""
        if self._context.engine.clock.now() - self._read_at < REREAD:
            return
        if self._is_reading.acquire(blocking=False):
            self._workers.submit(self._read_behind)

    def read(self) -> None:
        """Read now. Takes up to a second."""
        engine = self._context.engine
        now = engine.clock.now()
        prices, prices_at = self._report.prices, self._prices_at
        try:
            if now - prices_at >= PRICES_REREAD:
                prices, prices_at = tuple(price_ages()), now
            places, total = self._places(now)
            self._report, self._prices_at = MarketReport(places, total, prices), prices_at
        finally:
            # Also what fails is not tried again at every look, since it is logged each time.
            self._read_at = now

    def _read_behind(self) -> None:
        engine = self._context.engine
        try:
            before = self._report
            self.read()
            if self._report != before:
                engine.thread.soon(engine.changed)
        except (NbprovError, OSError) as error:
            log.info("what is known of markets: %s", error)
        except Exception:  # nobody else would tell
            log.exception("what is known of markets")
        finally:
            self._is_reading.release()

    def _places(self, now: Instant) -> tuple[tuple[PlaceHistory, ...], int]:
        from nbprov.api.services.stock import DAY_PERIODS, DAY_SECONDS

        ledger, since = self._context.engine.ledger, now - DAY_SECONDS
        observations = ledger.observations
        found = place_histories(
            self._stock.last_day(now),
            self._stock.told_since(since),
            observations.attempts(since),
            since,
            DAY_SECONDS / DAY_PERIODS,
            DAY_PERIODS,
        )
        if not found:
            return (), 0
        tried = ledger.launches.candidates_since(since, TRIED_READ)
        gpus = gpus_of_pools(candidate.offer for candidate in tried)
        told = [replace(one, gpus=gpus(one.pool)) for one in found[:MOST_PLACES]]
        return tuple(told), len(found)


def gpus_of_pools(tried: Iterable[Offer]) -> Callable[[Pool], str]:
    """Return what tells the GPUs of a pool's machines, such as `A100:8`.

    Those of offers that were tried are known, and those of other types by the price files.
    """
    from nbprov.catalog import Query, default_catalog

    catalog = default_catalog()
    known = {offer.pool: offer.gpus for offer in tried if offer.accelerator}

    def gpus(pool: Pool) -> str:
        if pool in known or not pool.instance_type:
            return known.get(pool, "")
        rows = catalog.select(
            Query(instance_type=pool.instance_type, cloud=pool.cloud, unusual=True)
        )
        offer = catalog.offer(rows[0]) if len(rows) else None
        return offer.gpus if offer is not None and offer.accelerator else ""

    return gpus


def price_ages() -> list[PriceAge]:
    """Return how old the prices of each cloud are, as `%nbprov catalog` tells it, oldest first."""
    from nbprov.api.price_refresh import PriceFiles
    from nbprov.catalog import default_catalog

    catalog = default_catalog()
    fetched = {status.cloud: status.fetched for status in PriceFiles().status()}
    ages = []
    for cloud in catalog.clouds():
        newest = catalog.info(cloud).newest
        if fetched.get(cloud):
            ages.append(PriceAge(cloud, fetched[cloud], is_refreshed=True))
        elif newest:
            day = datetime.fromisoformat(newest).replace(tzinfo=UTC)
            ages.append(PriceAge(cloud, day.timestamp(), is_refreshed=False))
    return sorted(ages, key=lambda age: (age.at, age.cloud))
