"""What clouds answered in the last day, and how old their prices are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbprov import api
from nbprov.api.reports import market_report
from nbprov.api.reports.market_report import place_histories
from nbprov.market.observations import Observation
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

EAST = Pool("aws", "us-east-1", "use1-az1", "p4d.24xlarge", "on-demand")
WEST = EAST._replace(region="us-west-2", zone="usw2-az1")
HOUR = 3600.0


@pytest.fixture
def session(nbprov_home: Path) -> Iterator[api.Session]:
    yield api.session()
    api.close()


def test_answers_to_attempts_and_reports_on_stock_make_one_history() -> None:
    levels = {EAST: [None, StockLevel.HIGH, StockLevel.HIGH, None]}
    reports = [Stock(2.5 * HOUR, EAST, StockLevel.HIGH)]
    attempts = [
        Observation(1.5 * HOUR, EAST, "capacity"),
        Observation(3.0 * HOUR, WEST, "accepted"),
        Observation(3.5 * HOUR, WEST, "quota"),
    ]
    west, east = place_histories(levels, reports, attempts, 0.0, HOUR, 4)
    assert (east.pool, east.answer, east.is_report, east.at) == (EAST, "high", True, 2.5 * HOUR)
    assert east.levels == (None, StockLevel.NONE, StockLevel.HIGH, None)
    assert (west.pool, west.answer, west.is_report) == (WEST, "quota", False)
    assert west.levels == (None, None, None, StockLevel.LOW), "a quota says nothing of the stock"


def test_the_latest_places_are_told_with_their_gpus(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market_report, "MOST_PLACES", 2)
    unknown = EAST._replace(cloud="local", instance_type="toy")
    now = session.engine.clock.now()
    session.engine.ledger.observations.record_probes(
        [
            Stock(now - age, pool, StockLevel.LOW)
            for age, pool in ((60.0, EAST), (30.0, unknown), (90.0, WEST), (90_000.0, EAST))
        ]
    )
    session.services.market.read()
    report = session.services.market.report
    assert [(one.pool, one.gpus) for one in report.places] == [(unknown, ""), (EAST, "A100:8")]
    assert report.total == 3
    assert report.places[1].levels[-1] is StockLevel.LOW


def test_the_gpus_of_a_machine_that_was_tried_are_those_of_its_offer() -> None:
    offer = Offer("local", "north", "a", "toy", "A100", 1.0, 12.0, 85.0, Market.ON_DEMAND, usd(1))
    gpus = market_report.gpus_of_pools([offer])
    assert gpus(offer.pool) == "A100:1"
    assert gpus(offer.pool._replace(zone="b")) == ""


def test_the_age_of_prices_is_that_of_the_catalogue(session: api.Session) -> None:
    session.services.market.read()
    ages = session.services.market.report.prices
    assert sorted(age.cloud for age in ages) == session.catalog().clouds()
    assert ages == tuple(sorted(ages, key=lambda age: (age.at, age.cloud)))
    assert not any(age.is_refreshed for age in ages), "they came with the release"


def test_a_look_reads_behind_and_tells_panels_of_what_is_new(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, market = session.engine, session.services.market

    async def renewed() -> None:
        told = asyncio.Event()
        stop = engine.subscribe(told.set)
        market.look()
        async with asyncio.timeout(60):
            await told.wait()
        stop()

    engine.thread.call(renewed()).result()
    report = market.report
    assert report.prices
    market.look()
    assert market.report is report, "it was read just now"


def test_what_fails_is_read_again_later_and_costs_no_ages_of_prices(
    session: api.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    market, clock = session.services.market, session.engine.clock
    tries: list[float] = []

    def fail(now: float) -> None:
        tries.append(now)
        raise OSError("disk")

    with monkeypatch.context() as broken:
        broken.setattr(market, "_places", fail)
        with pytest.raises(OSError, match="disk"):
            market.read()
        market.look()
        assert len(tries) == 1, "what fails is not tried again at every look"
    assert market.report.prices == ()
    later = clock.now() + market_report.REREAD
    monkeypatch.setattr(clock, "now", lambda: later)
    market.read()
    assert market.report.prices
