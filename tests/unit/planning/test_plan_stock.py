"""Stock in the order of a plan: out of stock comes last, little stock raises the price.

Nothing is ever left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.catalog import Catalog
from nbprov.market import Pool, Stock, StockLevel, SuccessModel
from nbprov.model.offers import Plan
from nbprov.model.resources import Accelerator, Request
from nbprov.model.run_policies import OrderPolicy
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan
from nbprov.planning.best_per_cloud import best_by_cloud
from nbprov.spec import parse

Enable = Callable[..., dict[str, EnabledCloud]]
NOW = 1_800_000_000.0
L4, A100 = Request(accelerator=Accelerator("L4")), Request(accelerator=Accelerator("A100", 8))


def spec_of(*requests: Request, prefer: OrderPolicy = OrderPolicy.CHEAPEST) -> Spec:
    return Spec(
        requests=tuple(replace(r, index=i) for i, r in enumerate(requests or (L4,))), prefer=prefer
    )


def planned(
    spec: Spec, catalog: Catalog, enabled: dict[str, EnabledCloud], stock: Iterable[Stock] = ()
) -> Plan:
    return plan(spec, catalog, enabled, now=NOW, success_model=SuccessModel(stock=stock, now=NOW))


def keys(made: Plan) -> list[tuple[str, ...]]:
    return [c.offer.key for c in made.candidates]


def told(made: Plan, level: StockLevel, *ranks: int, at: float = NOW) -> list[Stock]:
    return [Stock(at, made.candidates[rank].offer.pool, level) for rank in ranks]


def test_what_is_sold_out_comes_last_and_stays_in_the_plan(
    small: Catalog, everything: dict[str, EnabledCloud]
) -> None:
    before = planned(spec_of(), small, everything)
    after = planned(spec_of(), small, everything, told(before, StockLevel.NONE, 0, 1))
    assert keys(after) == keys(before)[2:] + keys(before)[:2]
    assert [c.is_sold_out for c in after.candidates][-3:] == [False, True, True]
    assert after.candidates[-1].stock == Stock(
        NOW, before.candidates[1].offer.pool, StockLevel.NONE
    )
    assert (
        f"2 of {len(keys(before))} places are out of stock by their cloud's own word: tried last"
        in after.notes
    )
    assert after.dropped == before.dropped
    assert after.dearest is not None
    assert before.dearest is not None
    assert after.dearest.offer == before.dearest.offer, (
        "what Launch agrees to does not depend on stock"
    )


@pytest.mark.parametrize("prefer", list(OrderPolicy))
def test_sold_out_comes_after_every_tier_and_policy(
    small: Catalog, everything: dict[str, EnabledCloud], prefer: OrderPolicy
) -> None:
    spec = spec_of(A100, replace(L4, tier=1), prefer=prefer)
    before = planned(spec, small, everything)
    firsts = [c.rank for c in before.candidates if c.request.tier == 0]
    after = planned(spec, small, everything, told(before, StockLevel.NONE, *firsts))
    tiers = [c.request.tier for c in after.candidates]
    assert tiers == sorted(tiers, reverse=True)
    assert after.chosen is not None
    assert after.chosen.why.startswith("2nd choice")


def test_tiers_hold_among_what_is_sold_out(
    small: Catalog, everything: dict[str, EnabledCloud]
) -> None:
    spec = spec_of(A100, replace(L4, tier=1))
    before = planned(spec, small, everything)
    after = planned(
        spec, small, everything, told(before, StockLevel.NONE, *range(len(keys(before))))
    )
    assert keys(after) == keys(before)
    assert after.chosen is not None
    assert any(
        note.startswith(f"all {len(keys(before))} places are out of stock") for note in after.notes
    )


def test_little_stock_gives_way_to_prices_within_a_quarter(
    catalog_of: Callable[..., Catalog], enable: Enable
) -> None:
    kinds = [("a", 1.00), ("b", 1.20), ("c", 1.25), ("d", 1.26)]
    catalog = catalog_of(
        {"runpod": [(name, "L4", 1, 8, 45, price, "", "US", f"US-{name}") for name, price in kinds]}
    )
    enabled = enable("runpod")
    before = planned(spec_of(), catalog, enabled)
    assert [c.offer.instance_type for c in before.candidates] == ["a", "b", "c", "d"]
    after = planned(spec_of(), catalog, enabled, told(before, StockLevel.LOW, 0))
    assert [c.offer.instance_type for c in after.candidates] == ["b", "c", "a", "d"]
    both = planned(spec_of(), catalog, enabled, told(before, StockLevel.LOW, 0, 1))
    assert [c.offer.instance_type for c in both.candidates] == ["c", "a", "d", "b"]
    for level in (StockLevel.MEDIUM, StockLevel.HIGH):
        assert keys(planned(spec_of(), catalog, enabled, told(before, level, 1))) == keys(before), (
            "more than little changes no price's place"
        )


@pytest.mark.parametrize("level", list(StockLevel))
def test_what_was_said_more_than_five_minutes_ago_moves_nothing_by_price(
    small: Catalog, everything: dict[str, EnabledCloud], level: StockLevel
) -> None:
    before = planned(spec_of(), small, everything)
    cheapest = [
        c.rank for c in before.candidates if c.offer.hourly == before.candidates[0].offer.hourly
    ]
    after = planned(spec_of(), small, everything, told(before, level, *cheapest, at=NOW - 301))
    assert sorted(keys(after)[: len(cheapest)]) == sorted(keys(before)[: len(cheapest)])
    assert not any(c.stock for c in after.candidates)


levels = st.sampled_from([None, None, *StockLevel])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data(), st.sampled_from(OrderPolicy), st.integers(0, 2))
def test_the_order_is_the_rule_applied_to_each(
    small: Catalog,
    everything: dict[str, EnabledCloud],
    data: st.DataObject,
    prefer: OrderPolicy,
    tier: int,
) -> None:
    spec = spec_of(L4, replace(A100, tier=tier), prefer=prefer)
    before = planned(spec, small, everything)
    said = {c.offer.key: data.draw(levels) for c in before.candidates}
    stock = [
        Stock(NOW, c.offer.pool, level)
        for c in before.candidates
        if (level := said[c.offer.key]) is not None
    ]
    after = planned(spec, small, everything, stock)
    assert sorted(keys(after)) == sorted(keys(before)), "stock takes nothing out and adds nothing"
    success_model = SuccessModel(stock=stock, now=NOW)

    def rule(c: object) -> tuple[object, ...]:
        assert isinstance(c, type(after.candidates[0]))
        level, likely = said[c.offer.key], success_model.success(c.offer.pool)
        price = round(c.offer.hourly * 1.25) if level is StockLevel.LOW else c.offer.hourly
        leading: tuple[float, ...] = ()
        if prefer is OrderPolicy.SOONEST:
            leading = (round(success_model.expected_seconds(c.offer.pool)),)
        elif prefer is OrderPolicy.BALANCED:
            leading = (round(c.offer.hourly / likely),)
        return (
            level is StockLevel.NONE,
            c.request.tier,
            *leading,
            price,
            level is StockLevel.LOW,
            -likely,
        )

    ordered = [rule(c) for c in after.candidates]
    assert ordered == sorted(ordered)


PLACES = ("IS", "NL", "CZ", "SE", "RO", "NO")
WRITTEN = {
    "ordered": "ordered: [" + ", ".join(f"{{region: {r}}}" for r in PLACES) + "]",
    "any_of": "any_of: [" + ", ".join(f"{{region: {r}}}" for r in PLACES) + "]",
}


def creates_until(made: Plan, there: Pool) -> int:
    """How many creates a failover down a plan sends until it reaches a pool."""
    return next(n for n, c in enumerate(made.candidates, 1) if c.offer.pool == there)


@pytest.mark.parametrize("written", list(WRITTEN))
@pytest.mark.parametrize("region", PLACES)
def test_the_reference_s_own_example_takes_one_create(
    shipped: Catalog, enable: Enable, written: str, region: str
) -> None:
    spec = parse(f"resources:\n  cloud: runpod\n  accelerators: L40S:1\n  {WRITTEN[written]}\n")
    before = planned(spec, shipped, enable("runpod"))
    pools = [c.offer.pool for c in before.candidates]
    assert {p.region for p in pools} == set(PLACES)
    there = [p for p in pools if p.region == region][-1]
    stock = [Stock(NOW, p, StockLevel.HIGH if p == there else StockLevel.NONE) for p in pools]
    assert creates_until(planned(spec, shipped, enable("runpod"), stock), there) == 1
    if region == "NO" and written == "ordered":
        assert creates_until(before, there) == len(pools) >= 9


def test_clouds_that_are_not_set_up_have_their_cheapest_row(small: Catalog, enable: Enable) -> None:
    made = plan(spec_of(), small, enable("gcp"), disabled={"aws": "no credentials"}, now=NOW)
    assert {c.offer.cloud for c in made.candidates} == {"gcp"}
    assert {(u.offer.cloud, u.reason) for u in made.unusable} == {
        ("aws", "no credentials"),
        ("runpod", "no adapter yet"),
    }
    aws = next(u for u in made.unusable if u.offer.cloud == "aws")
    assert aws.offer.hourly == min(
        c.offer.hourly for c in plan(spec_of(), small, enable("aws"), now=NOW).candidates
    )
    assert [u.offer.hourly for u in made.unusable] == sorted(u.offer.hourly for u in made.unusable)
    capped = plan(spec_of(replace(L4, max_hourly=500_000)), small, enable("gcp"), now=NOW)
    assert [u.offer.cloud for u in capped.unusable] == ["runpod"]
    assert plan(spec_of(replace(L4, cloud="gcp")), small, enable("gcp"), now=NOW).unusable == ()


def test_a_spec_of_clouds_that_cannot_be_used_says_which_and_why(
    small: Catalog, enable: Enable
) -> None:
    made = plan(
        spec_of(replace(L4, cloud="aws"), replace(L4, cloud="gcp")),
        small,
        enable(),
        disabled={"aws": "no key"},
        now=NOW,
    )
    said = " ".join(made.notes)
    assert made.chosen is None
    assert "aws is not set up: no key" in said
    assert "gcp is not set up: no adapter yet" in said


def test_so_many_of_each_cloud_and_of_some(
    small: Catalog, everything: dict[str, EnabledCloud]
) -> None:
    made = planned(spec_of(), small, everything)
    two = best_by_cloud(made, 2)
    assert [c.rank for c in two] == sorted(c.rank for c in two)
    assert all(sum(c.offer.cloud == cloud for c in two) <= 2 for cloud in small.clouds())
    assert {c.offer.cloud for c in best_by_cloud(made, 2, clouds={"aws"})} == {"aws"}
    assert best_by_cloud(made, 2, clouds=set()) == ()
    listed = replace(made, candidates=list(made.candidates))
    assert best_by_cloud(listed, 2) == two
    assert best_by_cloud(listed, 2, clouds={"aws"}) == best_by_cloud(made, 2, clouds={"aws"})
