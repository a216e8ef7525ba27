"""`prefer: cheapest | soonest | balanced`: the order that observations and stock lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nbprov.catalog import Catalog
from nbprov.market import Observation, Pool, Stock, StockLevel, SuccessModel
from nbprov.market.success_model import PRIOR
from nbprov.model.blocks import Block
from nbprov.model.money import usd
from nbprov.model.offers import Plan, RuleKind
from nbprov.model.places import Market
from nbprov.model.resources import Accelerator, Request
from nbprov.model.run_policies import OrderPolicy
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan

Enable = Callable[..., dict[str, EnabledCloud]]
NOW = 1_800_000_000.0
L4 = Request(accelerator=Accelerator("L4"))
AZ1, AZ2, IRELAND = (
    Pool("aws", region, zone, "g6.xlarge", "on-demand")
    for region, zone in (
        ("us-east-1", "use1-az1"),
        ("us-east-1", "use1-az2"),
        ("eu-west-1", "euw1-az1"),
    )
)
BIGGER = AZ1._replace(instance_type="g6.2xlarge")


def seen(
    pool: Pool, outcome: str, *, times: int = 1, seconds: float | None = None
) -> list[Observation]:
    return [Observation(NOW - 60.0 * n, pool, outcome, seconds=seconds) for n in range(times)]


def success_model(*observed: list[Observation], stock: tuple[Stock, ...] = ()) -> SuccessModel:
    return SuccessModel([o for some in observed for o in some], stock=stock, now=NOW)


def asked(prefer: OrderPolicy, *requests: Request) -> Spec:
    return Spec(
        requests=tuple(replace(r, index=i) for i, r in enumerate(requests or (L4,))), prefer=prefer
    )


def zones(made: Plan) -> list[str]:
    return [f"{c.offer.zone} {c.offer.instance_type}" for c in made.candidates]


def pools(made: Plan) -> list[Pool]:
    return [c.offer.pool for c in made.candidates]


def test_the_cheapest_stays_first_however_unlikely(small: Catalog, enable: Enable) -> None:
    made = plan(
        asked(OrderPolicy.CHEAPEST),
        small,
        enable("aws"),
        now=NOW,
        success_model=success_model(seen(AZ1, "capacity", times=9), seen(AZ2, "capacity")),
    )
    assert [c.offer.hourly for c in made.candidates] == sorted(
        c.offer.hourly for c in made.candidates
    )
    assert {pool.zone for pool in pools(made)[:2]} == {"use1-az1", "use1-az2"}


def test_between_equal_prices_the_likelier_comes_first(small: Catalog, enable: Enable) -> None:
    without = plan(asked(OrderPolicy.CHEAPEST), small, enable("aws"), now=NOW)
    assert pools(without)[:2] == [AZ1, AZ2]
    made = plan(
        asked(OrderPolicy.CHEAPEST),
        small,
        enable("aws"),
        now=NOW,
        success_model=success_model(seen(AZ1, "capacity"), seen(AZ2, "accepted")),
    )
    assert pools(made)[:2] == [AZ2, AZ1]
    first, second = made.candidates[:2]
    assert first.success is not None
    assert second.success is not None
    assert first.success > second.success
    assert first.why == f"cheapest, {first.success:.0%} likely"
    assert second.why == f"same price as the first, {second.success:.0%} likely"


def test_of_what_nothing_was_seen_no_chance_is_claimed(small: Catalog, enable: Enable) -> None:
    made = plan(
        asked(OrderPolicy.CHEAPEST),
        small,
        enable("aws"),
        now=NOW,
        success_model=success_model(seen(AZ1, "accepted")),
    )
    told = {c.offer.instance_type: c.success for c in made.candidates}
    assert told["g6.xlarge"] is not None
    assert told["g6.2xlarge"] is None
    assert "likely" not in next(
        c.why for c in made.candidates if c.offer.instance_type == "g6.2xlarge"
    )


def test_the_soonest_is_where_machines_are_to_be_had(small: Catalog, enable: Enable) -> None:
    refused = success_model(
        seen(AZ1, "capacity", times=6),
        seen(AZ2, "capacity", times=6),
        seen(IRELAND, "accepted", times=6),
    )
    made = plan(asked(OrderPolicy.SOONEST), small, enable("aws"), now=NOW, success_model=refused)
    assert pools(made)[0] == IRELAND
    assert pools(made)[-1] in (AZ1, AZ2)
    assert made.candidates[0].why.startswith("soonest, ready in about ")
    assert made.candidates[-1].why.startswith("ready in about ")
    assert f"{made.candidates[-1].success:.0%} likely" in made.candidates[-1].why


def test_soonest_looks_at_how_long_a_cloud_takes(small: Catalog, enable: Enable) -> None:
    slow = seen(AZ1, "accepted", times=5, seconds=900.0)
    made = plan(
        asked(OrderPolicy.SOONEST),
        small,
        enable("aws", "gcp"),
        now=NOW,
        success_model=success_model(slow),
    )
    assert made.candidates[0].offer.cloud == "gcp"
    assert (
        plan(
            asked(OrderPolicy.CHEAPEST),
            small,
            enable("aws", "gcp"),
            now=NOW,
            success_model=success_model(slow),
        )
        .candidates[0]
        .offer.cloud
        == "aws"
    )


def test_equally_soon_is_by_price(small: Catalog, enable: Enable) -> None:
    made = plan(asked(OrderPolicy.SOONEST), small, enable("aws", "runpod"), now=NOW)
    assert [c.offer.hourly for c in made.candidates] == sorted(
        c.offer.hourly for c in made.candidates
    )
    assert made.candidates[0].why == "soonest, ready in about 2 min 10 s"
    assert made.candidates[1].why == "ready in about 2 min 10 s, same price as the first"


def test_balanced_weighs_the_price_against_the_chance(small: Catalog, enable: Enable) -> None:
    scarce = success_model(
        seen(AZ1, "capacity", times=8),
        seen(AZ2, "capacity", times=8),
        seen(BIGGER, "accepted", times=8),
    )
    made = plan(asked(OrderPolicy.BALANCED), small, enable("aws"), now=NOW, success_model=scarce)
    assert pools(made)[0] == BIGGER  # $0.98 in stock comes before $0.80 out of stock
    weights = [c.offer.hourly / scarce.success(c.offer.pool) for c in made.candidates]
    assert weights == sorted(weights)
    assert made.candidates[0].why.startswith("best price for its chance, ")
    assert made.candidates[-1].why.startswith("$0.18/h less than the first, ")
    cheapest = plan(
        asked(OrderPolicy.CHEAPEST), small, enable("aws"), now=NOW, success_model=scarce
    )
    assert pools(cheapest)[0] in (AZ1, AZ2)


@pytest.mark.parametrize("prefer", [OrderPolicy.SOONEST, OrderPolicy.BALANCED])
def test_what_a_cloud_says_of_its_stock_counts(
    small: Catalog, enable: Enable, prefer: OrderPolicy
) -> None:
    out, there = (
        Stock(NOW, Pool("runpod", region, "", "", ""), level)
        for region, level in (("US", StockLevel.NONE), ("CZ", StockLevel.HIGH))
    )
    made = plan(
        asked(prefer),
        small,
        enable("runpod"),
        now=NOW,
        success_model=success_model(stock=(out, there)),
    )
    assert [c.offer.region for c in made.candidates] == ["CZ", "US"]
    assert [
        c.offer.region for c in plan(asked(prefer), small, enable("runpod"), now=NOW).candidates
    ] == ["US", "CZ"]


@pytest.mark.parametrize("prefer", list(OrderPolicy))
def test_tiers_come_before_any_policy(small: Catalog, enable: Enable, prefer: OrderPolicy) -> None:
    never = success_model(
        seen(
            Pool("aws", "us-east-1", "use1-az1", "p4d.24xlarge", "on-demand"), "capacity", times=20
        )
    )
    spec = asked(prefer, Request(accelerator=Accelerator("A100", 8)), replace(L4, tier=1))
    made = plan(spec, small, enable("aws"), now=NOW, success_model=never)
    assert made.candidates[0].offer.gpus == "A100:8"
    assert made.candidates[0].why.startswith("1st choice, ")
    assert {c.offer.gpus for c in made.candidates[1:]} == {"L4:1"}
    assert all(c.why.startswith("2nd choice, ") for c in made.candidates[1:])


@pytest.mark.parametrize("prefer", list(OrderPolicy))
def test_caps_and_blocks_hold_whatever_is_preferred(
    small: Catalog, enable: Enable, prefer: OrderPolicy
) -> None:
    likely = success_model(seen(BIGGER, "accepted", times=9), seen(IRELAND, "accepted", times=9))
    block = Block(cloud="aws", zone="use1-az2", expires=NOW + 60)
    spec = asked(prefer, replace(L4, max_hourly=usd("0.80")))
    made = plan(spec, small, enable("aws"), now=NOW, success_model=likely, blocks=[block])
    assert zones(made) == ["use1-az1 g6.xlarge"]
    counted = {
        line.rule.name: line.count
        for line in made.dropped
        if line.rule.kind is not RuleKind.DISABLED
    }
    assert counted == {"price": 2, "blocked:unknown": 1}


@pytest.mark.parametrize("prefer", list(OrderPolicy))
def test_the_same_offers_are_candidates_whatever_is_preferred(
    small: Catalog, everything: dict[str, EnabledCloud], prefer: OrderPolicy
) -> None:
    some = success_model(seen(AZ1, "capacity"), seen(BIGGER, "accepted"))
    both = (L4, replace(L4, market=Market.SPOT))
    made = plan(asked(prefer, *both), small, everything, now=NOW, success_model=some)
    usual = plan(asked(OrderPolicy.CHEAPEST, *both), small, everything, now=NOW)
    assert sorted(pools(made)) == sorted(pools(usual))
    assert made.dearest is not None
    assert usual.dearest is not None
    assert made.dearest.offer.hourly == usual.dearest.offer.hourly


def test_of_one_price_the_prior_of_the_market_decides(small: Catalog, enable: Enable) -> None:
    both = (replace(L4, market=Market.SPOT), L4)  # RunPod sells both at $0.49
    made = plan(asked(OrderPolicy.BALANCED, *both), small, enable("runpod"), now=NOW)
    assert PRIOR["on-demand"] > PRIOR["spot"]
    assert [c.offer.market.value for c in made.candidates] == [
        "on-demand",
        "on-demand",
        "spot",
        "spot",
    ]


def test_what_decided_between_equal_prices_is_said(small: Catalog, enable: Enable) -> None:
    made = plan(asked(OrderPolicy.CHEAPEST), small, enable("runpod"), now=NOW)
    assert [c.why for c in made.candidates] == [
        "cheapest",
        "same price as the first, US regions come first",
    ]
    written = tuple(replace(L4, region=region, cloud="runpod") for region in ("CZ", "US"))
    made = plan(asked(OrderPolicy.CHEAPEST, *written), small, enable("runpod"), now=NOW)
    assert [c.why for c in made.candidates] == [
        "cheapest",
        "same price as the first, written later",
    ]
    made = plan(asked(OrderPolicy.CHEAPEST), small, enable("aws"), now=NOW)
    assert [c.why for c in made.candidates[:2]] == [
        "cheapest",
        "same price as the first, later by name",
    ]
