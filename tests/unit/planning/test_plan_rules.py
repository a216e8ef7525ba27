"""What enters a plan, what is dropped, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.blocks import Block, block_after
from nbprov.model.failures import Cause, Failure
from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import usd
from nbprov.model.offers import Offer, Plan
from nbprov.model.places import Market
from nbprov.model.resources import Accelerator, Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import CandidateList, EnabledCloud, plan

Enabled = dict[str, EnabledCloud]
Enable = Callable[..., Enabled]
L4 = Accelerator("L4")


def one(**fields: object) -> Spec:
    return Spec(requests=(Request(**fields),))  # type: ignore[arg-type]


def at_least(value: float) -> Quantity:
    return Quantity(Compare.AT_LEAST, value)


def exactly(value: float) -> Quantity:
    return Quantity(Compare.EXACTLY, value)


def told(made: Plan) -> list[tuple[str, str, str]]:
    return [(c.offer.cloud, c.offer.zone, c.offer.instance_type) for c in made.candidates]


def dropped(made: Plan) -> dict[str, tuple[int, str]]:
    return {line.rule.name: (line.count, line.words) for line in made.dropped}


def test_every_type_of_a_cloud_is_a_candidate_cheapest_first_ties_by_name(
    small: Catalog, enable: Enable
) -> None:
    made = plan(one(accelerator=L4), small, enable("aws", "gcp"))
    assert told(made) == [
        ("aws", "use1-az1", "g6.xlarge"),
        ("aws", "use1-az2", "g6.xlarge"),
        ("gcp", "us-central1-a", "g2-standard-4"),
        ("aws", "euw1-az1", "g6.xlarge"),
        ("aws", "use1-az1", "g6.2xlarge"),
    ]
    assert made.dearest == made.candidates[-1]
    assert [c.why for c in made.candidates] == [
        "cheapest",
        "same price as the first, later by name",
        "same price as the first, later by name",
        "+$0.0800/h over the first",
        "+$0.18/h over the first",
    ]
    assert {c.account for c in made.candidates} == {"aws-account", "gcp-account"}


def test_with_the_cheapest_type_exhausted_another_of_the_same_cloud_is_left(
    small: Catalog, enable: Enable
) -> None:
    spec = one(accelerator=L4, cloud="aws")
    blocks: list[Block] = []
    while (
        chosen := plan(spec, small, enable("aws"), blocks=blocks, now=1.0).chosen
    ) and chosen.offer.instance_type == "g6.xlarge":
        block = block_after(chosen, Failure(Cause.CAPACITY, "none left"), now=1.0)
        assert block is not None
        blocks.append(block)
    assert len(blocks) == 3
    assert chosen is not None
    assert chosen.offer.instance_type == "g6.2xlarge"


def test_a_block_names_only_what_all_its_fields_name_and_ends(
    small: Catalog, enable: Enable
) -> None:
    spec, enabled = one(accelerator=L4), enable("aws")
    zone = Block(
        cloud="aws", zone="use1-az1", instance_type="g6.xlarge", cause=Cause.CAPACITY, expires=100.0
    )
    made = plan(spec, small, enabled, blocks=[zone], now=40.0)
    assert ("aws", "use1-az1", "g6.xlarge") not in told(made)
    assert ("aws", "use1-az1", "g6.2xlarge") in told(made)
    assert dropped(made)["blocked:capacity"] == (
        1,
        "out of stock: g6.xlarge in aws/use1-az1; open again in 1 min",
    )
    assert len(plan(spec, small, enabled, blocks=[zone], now=100.0).candidates) == 4
    whole_account = Block(
        cloud="aws", account="aws-account", cause=Cause.CREDENTIALS, expires=100.0
    )
    made = plan(spec, small, enabled, blocks=[whole_account])
    assert not made.candidates
    assert "L4:1: every place was refused a moment ago" in made.notes
    other_account = replace(whole_account, account="somebody-else")
    assert len(plan(spec, small, enabled, blocks=[other_account]).candidates) == 4


def test_a_lack_for_two_nodes_does_not_block_one(small: Catalog, enable: Enable) -> None:
    block = Block(cloud="aws", min_count=2, cause=Cause.CAPACITY, expires=9.0)
    assert plan(one(accelerator=L4), small, enable("aws"), blocks=[block]).candidates
    assert not plan(
        replace(one(accelerator=L4), num_nodes=2), small, enable("aws"), blocks=[block]
    ).candidates


def test_the_cap_holds_for_every_candidate(small: Catalog, everything: Enabled) -> None:
    made = plan(one(accelerator=L4, max_hourly=usd("0.80")), small, everything)
    assert [c.offer.hourly for c in made.candidates] == [
        490_000,
        490_000,
        800_000,
        800_000,
        800_000,
    ]
    assert dropped(made)["price"] == (2, "dearer than the cap of $0.80 an hour")
    nothing = plan(one(accelerator=L4, max_hourly=usd("0.40")), small, everything)
    assert "L4:1: the cheapest costs $0.49 an hour, the cap is $0.40" in nothing.notes


def test_a_spot_cap_looks_at_the_spot_price(small: Catalog, enable: Enable) -> None:
    made = plan(
        one(accelerator=L4, market=Market.SPOT, max_hourly=usd("0.29")), small, enable("aws")
    )
    assert [(c.offer.zone, c.offer.market) for c in made.candidates] == [("use1-az2", Market.SPOT)]


def test_tiers_come_before_prices_and_say_so(small: Catalog, everything: Enabled) -> None:
    spec = Spec(
        requests=(
            Request(index=0, tier=0, accelerator=Accelerator("A100", 8)),
            Request(index=1, tier=1, accelerator=L4, cloud="aws", region="eu-west-1"),
        )
    )
    made = plan(spec, small, everything)
    assert [c.offer.gpus for c in made.candidates] == ["A100:8", "A100:8", "A100:8", "L4:1"]
    assert [c.why for c in made.candidates[::3]] == [
        "1st choice, cheapest",
        "2nd choice, $15.12/h less than the first",
    ]


def test_a_choice_without_offers_is_passed_over_with_a_line(
    small: Catalog, everything: Enabled
) -> None:
    spec = Spec(
        requests=(Request(accelerator=Accelerator("T4")), Request(index=1, tier=1, accelerator=L4))
    )
    made = plan(spec, small, everything)
    assert made.chosen is not None
    assert made.chosen.why == "2nd choice, cheapest"
    assert "the 1st choice adds no place and is passed over" in made.notes
    assert any(note.startswith("no cloud in the catalogue sells T4") for note in made.notes)


def test_equal_prices_go_to_the_request_written_first(small: Catalog, enable: Enable) -> None:
    us_first = tuple(
        Request(index=i, accelerator=L4, cloud="runpod", region=r)
        for i, r in enumerate(("US", "CZ"))
    )
    made = plan(Spec(requests=us_first), small, enable("runpod"))
    assert [c.offer.region for c in made.candidates] == ["US", "CZ"]
    assert [
        c.offer.region for c in plan(one(accelerator=L4), small, enable("runpod")).candidates
    ] == ["US", "CZ"]


def test_an_offer_stands_once_for_the_request_written_first(small: Catalog, enable: Enable) -> None:
    spec = Spec(requests=(Request(accelerator=L4), Request(index=1, accelerator=L4, cloud="aws")))
    made = plan(spec, small, enable("aws"))
    assert len(made.candidates) == 4
    assert {c.request.index for c in made.candidates} == {0}
    assert not made.notes


def test_a_cloud_that_is_not_set_up_is_dropped_with_its_reason(
    small: Catalog, enable: Enable
) -> None:
    made = plan(
        one(accelerator=L4), small, enable("runpod"), disabled={"gcp": "no credentials found"}
    )
    assert {c.offer.cloud for c in made.candidates} == {"runpod"}
    assert dropped(made) == {
        "disabled:aws": (4, "aws is not set up: no adapter yet"),
        "disabled:gcp": (1, "gcp is not set up: no credentials found"),
    }
    only = plan(
        one(accelerator=L4, cloud="gcp"),
        small,
        enable("runpod"),
        disabled={"gcp": "no credentials found"},
    )
    assert not only.candidates
    assert "L4:1 in gcp: gcp is not set up: no credentials found" in only.notes


def test_what_a_cloud_cannot_do_drops_it(small: Catalog, enable: Enable) -> None:
    enabled = enable("aws", runpod=Capabilities(spot=False, multi_node=False))
    two = plan(replace(one(accelerator=L4), num_nodes=2), small, enabled)
    assert dropped(two)["multi-node:runpod"] == (2, "runpod cannot make a cluster of several nodes")
    assert {c.count for c in two.candidates} == {2}
    assert two.candidates[0].hourly == usd("1.60")
    assert two.candidates[-1].why == "+$0.36/h over the first"
    spot = plan(one(accelerator=L4, market=Market.SPOT), small, enabled)
    assert dropped(spot)["spot:runpod"] == (2, "runpod cannot be asked for spot machines")


def test_ports_rule_nothing_out_because_they_are_reached_by_tunnel(
    small: Catalog, enable: Enable
) -> None:
    made = plan(
        one(accelerator=L4, ports=((8080, 8080),)), small, enable(runpod=Capabilities(ports=False))
    )
    assert len(made.candidates) == 2


SIM = (
    Offer(
        "local",
        "south",
        "south-a",
        "sim-l4",
        "L4",
        1.0,
        2.0,
        8.0,
        Market.ON_DEMAND,
        usd("0.10"),
        quota_family="L4",
    ),
    Offer("local", "north", "north-a", "sim-cpu", "", 0.0, 2.0, 4.0, Market.ON_DEMAND, usd("0.01")),
)


def test_a_simulated_cloud_takes_part_only_when_named_or_in_demo_mode(
    small: Catalog, enable: Enable
) -> None:
    catalog = small.with_offers(SIM)
    enabled = enable("aws", local=Capabilities(named_only=True, simulated=True))
    assert {c.offer.cloud for c in plan(one(accelerator=L4), catalog, enabled).candidates} == {
        "aws"
    }
    assert (
        plan(one(accelerator=L4), catalog, enabled, demo=True).candidates[0].offer.cloud == "local"
    )
    assert [
        c.offer.instance_type for c in plan(one(cloud="local"), catalog, enabled).candidates
    ] == ["sim-cpu"]
    assert [
        c.offer.instance_type for c in plan(one(region="South"), catalog, enabled).candidates
    ] == ["sim-l4"]


def test_live_offers_stand_at_their_price_among_the_others(small: Catalog, enable: Enable) -> None:
    made = plan(
        one(accelerator=L4),
        small.with_offers([replace(SIM[0], hourly=usd("0.80"))]),
        enable("aws", "gcp", "local"),
    )
    assert [c.offer.cloud for c in made.candidates] == ["aws", "aws", "gcp", "local", "aws", "aws"]
    family = Block(cloud="local", quota_family="L4", cause=Cause.QUOTA, expires=9.0)
    made = plan(
        one(accelerator=L4), small.with_offers(SIM), enable("aws", "local"), blocks=[family]
    )
    assert {c.offer.cloud for c in made.candidates} == {"aws"}


@pytest.mark.parametrize(
    ("asked", "cloud", "kind"),
    [
        ({}, "aws", "m6i.2xlarge"),
        ({"cpus": at_least(1)}, "aws", "m6i.large"),
        ({"cpus": exactly(8), "memory": at_least(4)}, "aws", "c6i.2xlarge"),
        ({"memory": exactly(32)}, "aws", "r6i.xlarge"),
        ({}, "gcp", "n2-standard-8"),
        ({}, "lambda", "gpu_1x_a10"),
        ({"cpus": at_least(4)}, "lambda", "cpu_4x_general"),
        ({}, "runpod", "1x_L4_SECURE"),
    ],
)
def test_the_default_machine(
    small: Catalog, everything: Enabled, asked: dict[str, object], cloud: str, kind: str
) -> None:
    chosen = plan(one(cloud=cloud, **asked), small, everything).chosen
    assert chosen is not None
    assert chosen.offer.instance_type == kind


@pytest.mark.parametrize(
    ("cloud", "asked", "kind"),
    [
        ("nebius", {}, "small"),
        ("do", {}, "small"),
        ("vast", {"cpus": at_least(4)}, "wide"),
        ("cudo", {}, "wide"),
        ("cudo", {"cpus": at_least(2)}, "small"),
        ("hyperstack", {}, "tall"),
    ],
)
def test_each_cloud_has_its_own_default_size_or_none(
    catalog_of: Callable[..., Catalog],
    enable: Enable,
    cloud: str,
    asked: dict[str, object],
    kind: str,
) -> None:
    rows = [
        ("small", "", "", 2, 4, 0.05, "", "r", ""),
        ("wide", "", "", 8, 16, 0.2, "", "r", ""),
        ("tall", "", "", 8, 32, 0.3, "", "r", ""),
    ]
    chosen = plan(one(**asked), catalog_of({cloud: rows}), enable(cloud)).chosen
    assert chosen is not None
    assert chosen.offer.instance_type == kind


def test_the_default_machine_is_chosen_by_the_price_of_its_market(
    small: Catalog, everything: Enabled
) -> None:
    chosen = plan(one(cpus=at_least(2), market=Market.SPOT), small, everything).chosen
    assert chosen is not None
    assert (chosen.offer.instance_type, chosen.offer.hourly) == ("m6i.large", usd("0.04"))


def test_memory_beside_a_gpu_is_typical_on_some_clouds(small: Catalog, enable: Enable) -> None:
    made = plan(one(accelerator=L4, memory=at_least(500)), small, enable("aws", "runpod"))
    assert {c.offer.cloud for c in made.candidates} == {"runpod"}
    assert any("typical figure on runpod" in note for note in made.notes)


def test_a_cloud_that_cannot_stop_says_so_before_anything_is_made(
    small: Catalog, enable: Enable
) -> None:
    stopping = Guards(Autostop(600.0, down=False), is_default=False)
    enabled = enable("aws", runpod=Capabilities(stop=False))
    notes = plan(replace(one(accelerator=L4), guards=stopping), small, enabled).notes
    assert "runpod cannot stop a machine: autostop ends it there, its disk with it" in notes
    assert not plan(
        replace(one(accelerator=L4), guards=replace(stopping, autostop=Autostop(600.0, down=True))),
        small,
        enabled,
    ).notes


def test_candidates_are_a_sequence(small: Catalog, everything: Enabled) -> None:
    made = plan(one(accelerator=L4), small, everything)
    candidates = made.candidates
    assert isinstance(candidates, CandidateList)
    assert len(candidates) == len(list(candidates)) == 7
    assert candidates[-1] == list(candidates)[6]
    part = candidates[2:5]
    assert isinstance(part, CandidateList)
    assert [c.rank for c in part] == [2, 3, 4]
    assert part[1:] == candidates[3:5]
    assert part.rows.tolist() == candidates.rows.tolist()[2:5]
    assert [c.rank for c in candidates[::-1]] == [6, 5, 4, 3, 2, 1, 0]
    assert candidates[::-1].rows.tolist() == candidates.rows.tolist()[::-1]
    assert len(candidates[7:]) == 0
    with pytest.raises(IndexError):
        candidates[7]
    assert plan(one(accelerator=L4), small, everything) == made
