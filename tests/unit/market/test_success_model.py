"""P(success) from observations: priors, levels, ageing and stock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.market import Observation, Pool, Stock, StockLevel, SuccessModel
from nbprov.market.success_model import (
    HALF_LIFE,
    LEAST,
    PRIOR,
    REFUSED_SECONDS,
    STOCK_MEANS,
    USUAL_READY,
)
from nbprov.model.failures import Cause
from nbprov.spec.reading.engine import MOST

NOW = 1_800_000_000.0
POOL = Pool("aws", "us-east-1", "use1-az1", "p3.2xlarge", "spot")
NEXT_ZONE = POOL._replace(zone="use1-az2")
OTHER_REGION = POOL._replace(region="us-west-2", zone="usw2-az1")
OTHER_TYPE = POOL._replace(instance_type="g5.xlarge")


def seen(
    outcome: str,
    *,
    age: float = 0.0,
    pool: Pool = POOL,
    count: int = 1,
    seconds: float | None = None,
) -> Observation:
    return Observation(NOW - age, pool, outcome, count, seconds)


@pytest.mark.parametrize("market", PRIOR)
def test_nothing_seen_is_the_prior_of_the_market(market: str) -> None:
    assert SuccessModel(now=NOW).success(POOL._replace(market=market)) == PRIOR[market]


def test_a_refusal_lowers_the_chance_most_where_it_was() -> None:
    success_model = SuccessModel([seen("capacity")], now=NOW)
    here, zone, region, other = (
        success_model.success(p) for p in (POOL, NEXT_ZONE, OTHER_REGION, OTHER_TYPE)
    )
    assert here < zone < region < other == PRIOR["spot"]


def test_an_acceptance_raises_it() -> None:
    assert SuccessModel([seen("accepted")], now=NOW).success(POOL) > PRIOR["spot"]


def test_what_was_seen_fades_to_the_prior() -> None:
    fresh, older, old = (
        SuccessModel([seen("spot", age=age)], now=NOW).success(POOL)
        for age in (0.0, HALF_LIFE, 40 * HALF_LIFE)
    )
    assert fresh < older < old == PRIOR["spot"]


def test_an_answer_from_the_future_says_nothing() -> None:
    assert SuccessModel([seen("capacity", age=-60.0)], now=NOW).success(POOL) == PRIOR["spot"]


@pytest.mark.parametrize("cause", [c for c in Cause if c not in (Cause.CAPACITY, Cause.SPOT)])
def test_what_is_not_about_stock_says_nothing_of_stock(cause: Cause) -> None:
    assert SuccessModel([seen(cause.value)], now=NOW).success(POOL) == PRIOR["spot"]


def test_a_refusal_of_more_machines_says_nothing_of_one() -> None:
    assert (
        SuccessModel([seen("capacity", count=8)], now=NOW, count=1).success(POOL) == PRIOR["spot"]
    )


def test_a_refusal_of_one_counts_for_many() -> None:
    assert SuccessModel([seen("capacity", count=1)], now=NOW, count=8).success(POOL) < PRIOR["spot"]


def test_an_acceptance_of_fewer_counts_half() -> None:
    one, many = (
        SuccessModel([seen("accepted", count=1)], now=NOW, count=count).success(POOL)
        for count in (1, 8)
    )
    assert PRIOR["spot"] < many < one


@pytest.mark.parametrize("level", StockLevel)
def test_fresh_stock_outweighs_the_prior(level: StockLevel) -> None:
    found = SuccessModel(stock=[Stock(NOW, POOL, level)], now=NOW).success(POOL)
    assert abs(found - STOCK_MEANS[level]) < abs(found - PRIOR["spot"]) or level is StockLevel.LOW


def test_stock_of_a_whole_region_holds_for_its_zones_only() -> None:
    success_model = SuccessModel(
        stock=[Stock(NOW, POOL._replace(zone=""), StockLevel.NONE)], now=NOW
    )
    assert (
        success_model.success(POOL)
        == success_model.success(NEXT_ZONE)
        < success_model.success(OTHER_REGION)
    )


def test_old_stock_is_forgotten() -> None:
    assert (
        SuccessModel(stock=[Stock(NOW - 86400, POOL, StockLevel.NONE)], now=NOW).success(POOL)
        == PRIOR["spot"]
    )


def test_ready_seconds_are_learned_a_cloud() -> None:
    success_model = SuccessModel([seen("accepted", seconds=600.0)] * 3, now=NOW)
    assert success_model.ready_seconds("aws") > USUAL_READY == success_model.ready_seconds("gcp")


def test_known_types_are_what_was_seen_or_said() -> None:
    success_model = SuccessModel(
        [seen("capacity")],
        stock=[Stock(NOW, Pool("do", "nyc2", "", "", ""), StockLevel.HIGH)],
        now=NOW,
    )
    assert success_model.known_types == {("aws", "p3.2xlarge", "spot"), ("do", "", "")}


def test_a_place_that_comes_and_goes_is_told_from_one_that_is_always_there() -> None:
    steady = [seen("accepted", age=600.0 * n) for n in range(12)]
    flapping = [
        seen("accepted" if n % 2 else "spot", age=600.0 * n, pool=OTHER_REGION) for n in range(12)
    ]
    success_model = SuccessModel([*steady, *flapping], now=NOW)
    assert success_model.success(POOL) > success_model.success(OTHER_REGION) + 0.2


observations = st.builds(
    Observation,
    st.floats(NOW - 10 * HALF_LIFE, NOW + 60),
    st.sampled_from([POOL, NEXT_ZONE, OTHER_REGION, OTHER_TYPE]),
    st.sampled_from(["accepted", *(c.value for c in Cause)]),
    st.integers(1, 4),
    st.none() | st.floats(0, 1000),
)


@given(st.lists(observations, max_size=30), st.integers(1, 4))
def test_a_chance_is_always_a_probability_and_order_does_not_matter(
    found: list[Observation], count: int
) -> None:
    forwards, backwards = (
        SuccessModel(some, now=NOW, count=count).success(POOL) for some in (found, found[::-1])
    )
    assert LEAST <= forwards <= MOST
    assert forwards == pytest.approx(backwards)


@given(st.lists(observations, max_size=20))
def test_one_more_refusal_never_raises_a_chance(found: list[Observation]) -> None:
    before, after = (
        SuccessModel(some, now=NOW).success(POOL) for some in (found, [*found, seen("capacity")])
    )
    assert after <= before + 1e-9


@pytest.mark.parametrize(
    ("said", "is_known"),
    [
        (Pool("aws", "", "", "", ""), True),
        (Pool("", "", "", "p3.2xlarge", ""), True),
        (Pool("aws", "eu-west-1", "", "p3.2xlarge", "spot"), True),
        (Pool("gcp", "", "", "", ""), False),
        (Pool("aws", "", "", "g5.xlarge", ""), False),
        (Pool("aws", "", "", "", "on-demand"), False),
    ],
)
def test_a_pool_is_known_by_what_was_said_of_its_type(said: Pool, is_known: bool) -> None:
    assert SuccessModel(stock=[Stock(NOW, said, StockLevel.HIGH)], now=NOW).knows(POOL) is is_known


@given(
    st.lists(
        st.tuples(
            st.sampled_from([POOL, POOL._replace(zone=""), Pool("aws", "", "", "", "")]),
            st.sampled_from(StockLevel),
        ),
        max_size=5,
    )
)
def test_the_order_of_what_is_said_of_stock_does_not_matter(
    said: list[tuple[Pool, StockLevel]],
) -> None:
    forwards, backwards = (
        [Stock(NOW, pool, level) for pool, level in some] for some in (said, said[::-1])
    )
    assert SuccessModel(stock=forwards, now=NOW).success(POOL) == pytest.approx(
        SuccessModel(stock=backwards, now=NOW).success(POOL)
    )


def test_refusals_on_the_way_cost_time() -> None:
    nothing_known = SuccessModel(now=NOW)
    assert nothing_known.expected_seconds(POOL) == pytest.approx(
        USUAL_READY + REFUSED_SECONDS * (1 / PRIOR["spot"] - 1)
    )
    assert SuccessModel([seen("capacity")], now=NOW).expected_seconds(
        POOL
    ) > nothing_known.expected_seconds(POOL)
