"""What a cloud told one account of its stock says nothing to another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from shelf_world import LONG, Shelf, only

import nbprov
from nbprov import api
from nbprov.api.reports.dashboard_data import overview
from nbprov.clouds import registry
from nbprov.model.stock import Stock, StockLevel

SPEC = "resources: {cloud: runpod, accelerators: L40S:1}"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, nbprov_home: Path) -> Iterator[api.Session]:
    made = Shelf(level=lambda pool: StockLevel.NONE)
    monkeypatch.setattr(registry, "_points", lambda: only(made))
    monkeypatch.setattr(registry, "_made", {})
    try:
        yield nbprov.session()
    finally:
        api.close()


def test_another_accounts_stock_is_in_no_table_and_no_dashboard(session: api.Session) -> None:
    session.plan(SPEC, wait=LONG)
    service, engine = session.services.stock, session.engine
    service._workers.submit(lambda: None).result(LONG)
    session.services.market.read()
    pool = session.services.market.report.places[0].pool
    now = engine.clock.now()

    def shown() -> tuple[StockLevel | None, str]:
        """The last bar of the price table, and the last answer in the dashboard."""
        session.services.market.read()
        seen = overview(session.context, session.services)
        (place,) = (told for told in seen.market.places if told.pool == pool)
        return service.last_day(now + 1)[pool][-1], place.answer

    assert shown() == (StockLevel.NONE, StockLevel.NONE)
    engine.stock_seen([Stock(now, pool, StockLevel.HIGH)], "somebody else")
    assert shown() == (StockLevel.NONE, StockLevel.NONE)
    # That is what the cloud's check tells here, and another kernel was told this.
    engine.stock_seen([Stock(now, pool, StockLevel.HIGH)], "someone")
    assert shown() == (StockLevel.HIGH, StockLevel.HIGH)
