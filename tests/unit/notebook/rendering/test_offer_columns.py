"""The price table straight from the column store says what the offers themselves say."""

from __future__ import annotations

import math
from datetime import date

import pytest
from packed_tables import unpack

from nbprov.api.price_query import Prices, narrowed
from nbprov.catalog import Query, default_catalog
from nbprov.market.stock_report import StockReport
from nbprov.model.resources import Compare, Quantity
from nbprov.model.stock import Stock, StockLevel
from nbprov.notebook.rendering.offer_columns import stock_column, table_of_prices
from nbprov.notebook.rendering.price_data import CodedColumn, TableData
from nbprov.notebook.rendering.prices import table_text

TODAY = date(2026, 11, 21)


def _prices(**conditions: object) -> Prices:
    return Prices(default_catalog(), narrowed(Query(), conditions))


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"accelerator": "A100", "count": 8},
        {"cloud": "runpod", "market": "spot"},
        {"region": "no-such-place"},
    ],
)
def test_it_is_the_table_of_the_offers(conditions: dict[str, object]) -> None:
    prices = _prices(**conditions)
    rows = table_of_prices(prices)
    assert rows.rows == rows.total == len(prices)
    read, every = unpack(rows), prices.offers()
    in_order = [every[int(rank)] for rank in read["rank"]]  # type: ignore[call-overload]
    assert sorted(map(id, in_order)) == sorted(map(id, every))
    expected = unpack(TableData.from_offers(in_order))
    for key in expected:
        if key in ("off", "stock", "rank"):
            continue
        same = [
            a == b
            or (a != a and b != b)
            or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-6))  # type: ignore[arg-type]
            for a, b in zip(read[key], expected[key], strict=True)
        ]
        assert all(same), key
    assert read["off"] == [""] * len(prices)


def test_what_can_be_launched_comes_first_and_keeps_its_rank() -> None:
    prices = _prices(accelerator="H100", count=8)
    table = table_of_prices(prices, {"aws": "no key", "nowhere": "unheard of"})
    read = unpack(table)
    where = list(read["off"])
    assert where == sorted(where)
    assert set(where) == {"", "no key"}
    assert table.off == {"aws": "no key"}
    assert all(
        (cloud == "aws") == bool(why) for cloud, why in zip(read["cloud"], where, strict=True)
    )
    assert [prices[int(rank)].cloud for rank in read["rank"]] == read["cloud"]  # type: ignore[call-overload]
    launchable = [hour for hour, why in zip(read["hourly"], where, strict=True) if not why]
    assert launchable == sorted(launchable)


def test_machines_with_gpus_come_first_unless_it_is_said_what_is_wanted() -> None:
    read = unpack(table_of_prices(_prices(region="us-east-1")))
    has_gpu = [bool(gpu) for gpu in read["gpu"]]
    assert has_gpu == sorted(has_gpu, reverse=True)
    assert {True, False} == set(has_gpu)
    for part in (True, False):
        hourly = [h for h, has in zip(read["hourly"], has_gpu, strict=True) if has is part]
        assert hourly == sorted(hourly)
    asked = unpack(table_of_prices(_prices(region="us-east-1", cpus=Quantity(Compare.AT_LEAST, 4))))
    assert asked["hourly"] == sorted(asked["hourly"])
    assert not asked["gpu"][0]


def test_the_other_market_is_the_same_machine_in_the_same_place() -> None:
    prices = _prices(cloud="gcp")
    read = unpack(table_of_prices(prices))
    by_key: dict[tuple[str, ...], dict[str, int]] = {}
    for offer in prices.offers():
        least = by_key.setdefault(offer.key[:4], {})
        market = offer.market.value
        least[market] = min(offer.hourly, least.get(market, offer.hourly))
    every = prices.offers()
    for rank, other in zip(read["rank"], read["other"], strict=True):
        offer = every[int(rank)]  # type: ignore[call-overload]
        theirs = {m: p for m, p in by_key[offer.key[:4]].items() if m != offer.market.value}
        assert (other != other) == (not theirs)
        if theirs:
            assert other == float(*theirs.values())


def test_a_report_of_stock_stands_in_the_rows_it_is_about() -> None:
    prices = _prices(accelerator="A100", count=8)
    pool = prices[0].pool
    prices.learn([Stock(1_000.0, pool, StockLevel.LOW)], 1_010.0)
    read = unpack(table_of_prices(prices))
    assert {
        tuple(map(str, place)): said
        for *place, said in zip(
            *(read[k] for k in ("cloud", "region", "zone", "type", "market", "stock")), strict=True
        )
        if said
    } == {tuple(pool): "low@1000.0"}


def test_a_price_that_moved_says_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = _prices(accelerator="A100", count=8)
    column = type(prices.rows).column

    def moved(rows: object, name: str) -> object:
        found = column(rows, name)  # type: ignore[arg-type]
        if name == "moved_from":
            found = found.copy()
            found[0] = 7_000_000
        return found

    monkeypatch.setattr(type(prices.rows), "column", moved)
    table = table_of_prices(prices)
    assert table.cells(0, TODAY)["source"].startswith("was $7.00/h · ")
    assert not table.cells(1, TODAY)["source"].startswith("was ")


def test_the_stock_that_comes_later_is_of_the_rows_that_are_shown() -> None:
    prices = _prices(cloud="runpod", accelerator="L40S")
    table = table_of_prices(prices, {"runpod": "no key"})
    column = next(column for column in table.columns if column.key == "stock")
    assert not column.has_values
    assert "stock" not in table_text(table).splitlines()[0]
    ranks = [int(rank) for rank in unpack(table)["rank"]]  # type: ignore[call-overload]
    last = prices[ranks[-1]]
    day = [None] * 10 + [StockLevel.NONE, StockLevel.HIGH]
    report = StockReport([Stock(995.0, last.pool, StockLevel.LOW)], 1000.0, {last.pool: day})
    made = table.with_column(stock_column(prices, table, report))
    words = list(unpack(made)["stock"])
    assert words[-1] == "low@995.0@----------01", "the last period is the answer's own"
    assert {prices[r].pool for r, word in zip(ranks, words, strict=True) if word} == {last.pool}
    assert prices.said is None, "what a table shows is not in its prices"


def test_a_market_that_no_row_has_is_no_choice() -> None:
    for market in ("spot", "on-demand"):
        table = table_of_prices(_prices(cloud="runpod", accelerator="L40S", market=market))
        column = next(column for column in table.columns if column.key == "market")
        assert isinstance(column.values, CodedColumn)
        assert list(column.values.words) == [market]
