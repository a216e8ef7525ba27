"""Choices that SkyPilot's own tests and documents name, on prices of their time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbprov.catalog import Catalog
from nbprov.model.blocks import Block, block_after
from nbprov.model.failures import Cause, Failure
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import (
    Accelerator,
    Compare,
    Image,
    PlaceGlob,
    PlaceRule,
    Quantity,
    Request,
)
from nbprov.model.spec import Spec
from nbprov.planning import PlanError, plan
from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds

# Prices of 2023 in US dollars per hour: type, accelerator, count, vCPUs, GiB, on-demand, spot,
# region, zone.
AWS = [
    (
        f"{family}.{size}",
        "",
        "",
        vcpus,
        vcpus * ratio,
        round(vcpus * per_vcpu * factor, 4),
        "",
        region,
        zone,
    )
    for family, ratio, per_vcpu in (
        ("m6i", 4, 0.048),
        ("m6id", 4, 0.0593),
        ("r6i", 8, 0.063),
        ("r6id", 8, 0.0756),
        ("c6i", 2, 0.0425),
        ("c6id", 2, 0.0504),
        ("m5", 4, 0.046),
    )
    for size, vcpus in (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16))
    for factor, region, zone in (
        (1.0, "us-east-1", "use1-az1"),
        (1.0, "us-west-2", "usw2-az1"),
        (1.1, "eu-west-1", "euw1-az1"),
    )
]
AZURE = [
    (name.format(vcpus), "", "", vcpus, vcpus * ratio, round(vcpus * per_vcpu, 4), "", "eastus", "")
    for name, ratio, per_vcpu in (
        ("Standard_D{}s_v5", 4, 0.048),
        ("Standard_E{}s_v5", 8, 0.063),
        ("Standard_F{}s_v2", 2, 0.0423),
        ("Standard_D{}_v5", 4, 0.047),
    )
    for vcpus in (2, 4, 8, 16)
]
GCP = [
    (
        f"{series}-{kind}-{vcpus}",
        "",
        "",
        vcpus,
        vcpus * ratio,
        round(vcpus * per_vcpu, 4),
        round(vcpus * per_vcpu / 4, 4),
        "us-central1",
        "us-central1-a",
    )
    for series, kind, ratio, per_vcpu in (
        ("n2", "standard", 4, 0.0486),
        ("n2", "highmem", 8, 0.0655),
        ("n2", "highcpu", 1, 0.0359),
        ("e2", "standard", 4, 0.0335),
        ("n1", "standard", 3.75, 0.0475),
    )
    for vcpus in (2, 4, 8, 16)
]
LAMBDA = [
    ("gpu_1x_a6000", "A6000", 1, 14, 100, 0.80, "", "us-west-1", ""),
    ("gpu_1x_a10", "A10", 1, 30, 200, 1.10, "", "us-west-1", ""),
    ("gpu_8x_v100", "V100", 8, 92, 448, 4.40, "", "us-west-1", ""),
]
PRICES = {"aws": AWS, "azure": AZURE, "gcp": GCP, "lambda": LAMBDA}
CLOUDS = tuple(PRICES)

Make = Callable[..., Catalog]
Q = Quantity


def one(**fields: object) -> Spec:
    return Spec(requests=(Request(**fields),))  # type: ignore[arg-type]


@pytest.fixture
def prices(catalog_of: Make) -> Catalog:
    return catalog_of(PRICES)


def chosen(catalog: Catalog, **fields: object) -> str:
    first = plan(one(**fields), catalog, skypilot_clouds(CLOUDS)).chosen
    return first.offer.instance_type if first else ""


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"cpus": Q(Compare.EXACTLY, 8)}, ("m6i.2xlarge", "Standard_D8s_v5", "n2-standard-8")),
        ({"memory": Q(Compare.EXACTLY, 32)}, ("r6i.xlarge", "Standard_E4s_v5", "n2-highmem-4")),
        ({"memory": Q(Compare.AT_LEAST, 64)}, ("r6i.2xlarge", "Standard_E8s_v5", "n2-highmem-8")),
        (
            {"cpus": Q(Compare.AT_LEAST, 4), "memory": Q(Compare.AT_LEAST, 4)},
            ("c6i.xlarge", "Standard_F4s_v2", "n2-highcpu-4"),
        ),
        ({}, ("m6i.2xlarge", "Standard_D8s_v5", "n2-standard-8")),
        ({"cpus": Q(Compare.AT_LEAST, 4)}, ("m6i.xlarge", "Standard_D4s_v5", "n2-standard-4")),
        ({"memory": Q(Compare.PER_VCPU, 8)}, ("r6i.large", "Standard_E2s_v5", "n2-highmem-2")),
    ],
)
def test_default_machines(
    prices: Catalog, asked: dict[str, Quantity], kinds: tuple[str, ...]
) -> None:
    assert tuple(chosen(prices, cloud=c, **asked) for c in ("aws", "azure", "gcp")) == kinds


def test_lambda_has_gpu_machines_only_and_its_own_default_size(catalog_of: Make) -> None:
    catalog = catalog_of({"lambda": LAMBDA})
    assert chosen(catalog, memory=Q(Compare.AT_LEAST, 64)) == "gpu_1x_a6000"
    assert chosen(catalog) == "gpu_1x_a10"


def test_cpu_spot_goes_by_the_spot_price(catalog_of: Make) -> None:
    n2, n4 = (("n2-standard-8", 0.39, 0.0216), ("n4-standard-8", 0.40, 0.0186))
    rows = [
        (kind, "", "", 8, 32, on_demand, spot, "us-central1", "us-central1-a")
        for kind, on_demand, spot in (n2, n4)
    ]
    catalog = catalog_of({"gcp": rows})
    assert chosen(catalog) == "n2-standard-8"
    assert chosen(catalog, market=Market.SPOT) == "n4-standard-8"


def test_the_us_comes_first_among_equal_prices(catalog_of: Make) -> None:
    places = (
        ("ap-south-1", "aps1-az1"),
        ("us-west-2", "usw2-az1"),
        ("us-east-1", "use1-az2"),
        ("us-east-1", "use1-az1"),
    )
    catalog = catalog_of(
        {"aws": [("g6.xlarge", "L4", 1, 4, 16, 0.8, "", *place) for place in places]}
    )
    made = plan(one(accelerator=Accelerator("L4")), catalog, skypilot_clouds(["aws"]))
    assert [(c.offer.region, c.offer.zone) for c in made.candidates] == [
        ("us-east-1", "use1-az1"),
        ("us-east-1", "use1-az2"),
        ("us-west-2", "usw2-az1"),
        ("ap-south-1", "aps1-az1"),
    ]


def test_no_vcpus_of_that_size_offers_the_form_that_takes_larger_ones(prices: Catalog) -> None:
    made = plan(one(cpus=Q(Compare.EXACTLY, 5), cloud="aws"), prices, skypilot_clouds(CLOUDS))
    assert not made.candidates
    assert any(
        "no machine has cpus 5; nearest 4, 8; cpus: 5+ takes larger ones" in note
        for note in made.notes
    )
    made = plan(one(memory=Q(Compare.EXACTLY, 33)), prices, skypilot_clouds(CLOUDS))
    assert any("nearest" in note and "memory: 33+ takes larger ones" in note for note in made.notes)


def test_a_type_that_has_other_gpus_names_both(catalog_of: Make) -> None:
    catalog = catalog_of(
        {
            "aws": [
                ("g5.xlarge", "A10G", 1, 4, 16, 1.006, 0.4, "us-east-1", "use1-az1"),
                ("g4dn.xlarge", "T4", 1, 4, 16, 0.526, "", "us-east-1", "use1-az1"),
            ]
        }
    )
    with pytest.raises(
        PlanError, match=r"g5\.xlarge has A10G:1, 4 vCPUs, 16 GiB; asked beside it: T4:1"
    ):
        plan(
            one(instance_type="g5.xlarge", accelerator=Accelerator("T4")),
            catalog,
            skypilot_clouds(["aws"]),
        )


def test_t4_takes_the_cheapest_n1_host_of_its_usual_size(catalog_of: Make) -> None:
    hosts = [
        (f"n1-standard-{v}", "", "", v, 3.75 * v, 0.0475 * v, "", "us-central1", "us-central1-a")
        for v in (1, 2, 4, 8)
    ]
    catalog = catalog_of(
        {"gcp": [*hosts, ("", "T4", 1, "", "", 0.35, "", "us-central1", "us-central1-a")]}
    )
    enabled = skypilot_clouds(["gcp"])
    first = plan(one(accelerator=Accelerator("T4")), catalog, enabled).chosen
    assert first is not None
    assert (first.offer.instance_type, first.offer.hourly) == ("n1-standard-4+1xT4", 540_000)
    bigger = plan(
        one(accelerator=Accelerator("T4"), cpus=Q(Compare.AT_LEAST, 8)), catalog, enabled
    ).chosen
    assert bigger is not None
    assert bigger.offer.instance_type == "n1-standard-8+1xT4"
    asked = plan(
        one(accelerator=Accelerator("T4"), instance_type="n1-standard-2"), catalog, enabled
    ).chosen
    assert asked is not None
    assert asked.offer.instance_type == "n1-standard-2+1xT4"


# The blocking table: (blocked, candidate, is blocked), each as (cloud, region, accelerator type).
BLOCKED_IS = ("runpod", "IS", "1x_L40S_SECURE")


@pytest.mark.parametrize(
    ("pattern", "place", "expected"),
    [
        (BLOCKED_IS, ("runpod", "IS", "1x_L40S_SECURE"), True),
        (BLOCKED_IS, ("runpod", "CZ", "1x_L40S_SECURE"), False),
        (BLOCKED_IS, ("runpod", "IS", "1x_A100-80GB_SECURE"), False),
        (BLOCKED_IS, ("vast", "IS", "1x_L40S_SECURE"), False),
        (("runpod", "", "1x_L40S_SECURE"), ("runpod", "CZ", "1x_L40S_SECURE"), True),
        (("", "", "1x_L40S_SECURE"), ("vast", "IS", "1x_L40S_SECURE"), True),
    ],
)
def test_a_block_is_a_pattern_all_of_whose_fields_must_match(
    catalog_of: Make, pattern: tuple[str, str, str], place: tuple[str, str, str], expected: bool
) -> None:
    cloud, region, kind = place
    gpu = "A100-80GB" if "A100" in kind else "L40S"
    catalog = catalog_of({cloud: [(kind, gpu, 1, 16, 90, 0.9, "", region, f"EU-{region}-1")]})
    block = Block(
        cloud=pattern[0],
        region=pattern[1],
        instance_type=pattern[2],
        cause=Cause.CAPACITY,
        expires=9.0,
    )
    made = plan(
        one(accelerator=Accelerator(gpu)), catalog, skypilot_clouds([cloud]), blocks=[block]
    )
    assert (not made.candidates) is expected


def offer(
    region: str,
    zone: str,
    *,
    kind: str = "gpu",
    hourly: int = 1_000_000,
    market: Market = Market.ON_DEMAND,
) -> Offer:
    return Offer("gcp", region, zone, kind, "L4", 1.0, 4.0, 16.0, market, hourly)


def test_when_every_zone_of_a_region_failed_its_offer_for_any_zone_falls_too(
    catalog_of: Make,
) -> None:
    live = (
        offer("r1", "r1-a"),
        offer("r1", "r1-b"),
        offer("r1", ""),
        offer("r2", ""),
        offer("r1", "", kind="other"),
    )
    catalog = catalog_of({"lambda": LAMBDA}, live=live)
    enabled = skypilot_clouds(["gcp"])
    spec = one(accelerator=Accelerator("L4"))
    blocks: list[Block] = []
    for left in (4, 2):
        zoned = next(
            c for c in plan(spec, catalog, enabled, blocks=blocks).candidates if c.offer.zone
        )
        block = block_after(zoned, Failure(Cause.CAPACITY, "none"), now=0.0)
        assert block is not None
        blocks.append(block)
        made = plan(spec, catalog, enabled, blocks=blocks)
        assert len(made.candidates) == left
    assert {(c.offer.region, c.offer.instance_type) for c in made.candidates} == {
        ("r2", "gpu"),
        ("r1", "other"),
    }
    assert [(d.rule.name, d.count) for d in made.dropped] == [("blocked:capacity", 3)]


def test_thousands_of_blocks_are_one_pass(catalog_of: Make) -> None:
    rows = [
        ("g6.xlarge", "L4", 1, 4, 16, 0.8 + i / 1000, "", f"r-{i}", f"r-{i}-{z}")
        for i in range(60)
        for z in range(20)
    ]
    catalog = catalog_of({"aws": rows})
    enabled = skypilot_clouds(["aws"], "me")
    spec = one(accelerator=Accelerator("L4"))
    made = plan(spec, catalog, enabled)
    blocks = [
        b
        for c in made.candidates[:-1]
        if (b := block_after(c, Failure(Cause.CAPACITY), now=0.0)) is not None
    ]
    left = plan(spec, catalog, enabled, blocks=blocks)
    assert len(blocks) == 1199
    assert [c.offer.zone for c in left.candidates] == [made.candidates[-1].offer.zone]


@pytest.mark.parametrize("index", [0, 1])
def test_the_naive_matching_agrees(catalog_of: Make, index: int) -> None:
    """`Block.matches` is the definition."""
    live = tuple(
        offer(f"r{i % 3}", f"r{i % 3}-{z}", kind=f"k{i}", hourly=1_000_000 + i)
        for i in range(6)
        for z in "ab"
    )
    catalog = catalog_of({"lambda": LAMBDA}, live=live)
    enabled = skypilot_clouds(["gcp"], "me")
    spec = one(accelerator=Accelerator("L4"))
    blocks = [
        Block(cloud="gcp", account="me", region="r1", expires=9.0),
        Block(account="someone", expires=9.0),
        Block(zone="r2-a", market="on-demand", expires=9.0),
        Block(instance_type="k5", zone="r2-b", expires=9.0),
        Block(instance_type="nowhere", expires=9.0),
        Block(market="spot", expires=9.0),
    ][index:]
    every = plan(spec, catalog, enabled).candidates
    expected = [c.offer for c in every if not any(b.matches(c) for b in blocks)]
    assert [c.offer for c in plan(spec, catalog, enabled, blocks=blocks).candidates] == expected
    assert 0 < len(expected) < len(every)


def test_inputs_are_not_changed_and_the_same_inputs_give_the_same_plan(prices: Catalog) -> None:
    spec = Spec(
        requests=(
            Request(places=(PlaceRule((PlaceGlob(region="us-*"),)),), image=Image(docker="a:1")),
        )
    )
    enabled = skypilot_clouds(CLOUDS)
    first, second = plan(spec, prices, enabled), plan(spec, prices, enabled)
    assert first == second
    assert isinstance(first.candidates[0], Candidate)
    assert {c.offer.region for c in first.candidates} == {
        "us-east-1",
        "us-west-2",
        "us-central1",
        "us-west-1",
    }
