"""Stock reports by pool: the most specific fresh report counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.market import Pool, Stock, StockIndex, StockLevel
from nbprov.market.stock_index import FRESH_SECONDS, REMEMBERED

NOW = 1_800_000_000.0
POOL = Pool("runpod", "CZ", "EU-CZ-1", "1x_L40S_SECURE", "on-demand")


def said(level: StockLevel, at: float = NOW, **fields: str) -> Stock:
    return Stock(at, POOL._replace(**fields), level)


def level(*stock: Stock, pool: Pool = POOL) -> StockLevel | None:
    found = StockIndex(stock, now=NOW).fresh(pool)
    return None if found is None else found.level


def test_one_of_a_zone_beats_one_of_its_region() -> None:
    wide, narrow = said(StockLevel.HIGH, zone=""), said(StockLevel.NONE, at=NOW - 100)
    assert level(wide, narrow) is level(narrow, wide) is StockLevel.NONE
    assert level(wide, narrow, pool=POOL._replace(zone="EU-CZ-2")) is StockLevel.HIGH
    assert level(wide, narrow, pool=POOL._replace(region="NL")) is None


def test_of_one_pool_the_last_word_counts_and_of_one_instant_the_scarcest() -> None:
    assert level(said(StockLevel.NONE, at=NOW - 60), said(StockLevel.HIGH)) is StockLevel.HIGH
    assert (
        level(said(StockLevel.HIGH), said(StockLevel.LOW), said(StockLevel.MEDIUM))
        is StockLevel.LOW
    )


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (0.0, StockLevel.LOW),
        (FRESH_SECONDS, StockLevel.LOW),
        (FRESH_SECONDS + 1, None),
        (-5.0, StockLevel.LOW),
    ],
)
def test_a_statement_counts_while_it_is_fresh(age: float, expected: StockLevel | None) -> None:
    assert level(said(StockLevel.LOW, at=NOW - age)) is expected


def test_an_old_one_of_the_zone_gives_way_to_a_fresh_one_of_the_region() -> None:
    assert (
        level(said(StockLevel.NONE, at=NOW - FRESH_SECONDS - 1), said(StockLevel.HIGH, zone=""))
        is StockLevel.HIGH
    )


def test_what_is_older_than_an_hour_is_not_known_at_all() -> None:
    old = StockIndex([said(StockLevel.HIGH, at=NOW - REMEMBERED)], now=NOW)
    assert not old
    assert list(old.of(POOL)) == []
    assert old.types == frozenset()


fields = st.sampled_from(["", "a", "b"])
pools = st.builds(Pool, fields, fields, fields, fields, st.sampled_from(["", "spot", "on-demand"]))
named = st.builds(Pool, *[st.sampled_from(["a", "b"])] * 4, st.sampled_from(["spot", "on-demand"]))
statements = st.builds(
    Stock,
    st.sampled_from([NOW, NOW - 10, NOW - FRESH_SECONDS - 1, NOW - REMEMBERED]),
    pools,
    st.sampled_from(list(StockLevel)),
)


@given(st.lists(statements, max_size=12), named)
def test_a_look_up_is_what_going_through_all_gives(stock: list[Stock], pool: Pool) -> None:
    index = StockIndex(stock, now=NOW)
    covering = [
        s
        for s in stock
        if NOW - s.at < REMEMBERED
        and all(not w or w == has for w, has in zip(s.pool, pool, strict=True))
    ]
    assert sorted(index.of(pool), key=repr) == sorted(covering, key=repr)
    fresh = [s for s in covering if NOW - s.at <= FRESH_SECONDS]
    found = index.fresh(pool)
    assert (found is None) == (not fresh)
    if found is not None:
        closest = max(sum(map(bool, s.pool)) for s in fresh)
        assert found in fresh
        assert sum(map(bool, found.pool)) == closest
        assert found.at == max(s.at for s in fresh if s.pool == found.pool)
    assert index.fresh(pool) == StockIndex(stock[::-1], now=NOW).fresh(pool)
