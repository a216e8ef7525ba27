"""Acceptance cases that only a catalogue can answer, from the text to the plan."""

from __future__ import annotations

import pytest

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.offers import Plan
from nbprov.planning import EnabledCloud, PlanError, plan
from nbprov.spec import parse

HEADER = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,"
    "Region,AvailabilityZone\n"
)
PRICES = {
    "aws": """\
g5.xlarge,A10G,1,4,16,1.01,0.40,us-east-1,use1-az1
g5.xlarge,A10G,1,4,16,1.02,0.40,us-east-2,use2-az1
g5.xlarge,A10G,1,4,16,1.00,0.40,us-west-1,usw1-az1
g5.xlarge,A10G,1,4,16,0.99,0.40,us-west-2,usw2-az1
g5.xlarge,A10G,1,4,16,0.95,0.40,eu-west-1,euw1-az1
g4dn.xlarge,T4,1,4,16,0.53,0.16,us-east-1,use1-az1
m6i.2xlarge,,,8,32,0.38,0.10,us-east-1,use1-az1
""",
    "azure": "Standard_NV12ads_A10_v5,A10,0.333,12,110,0.91,0.18,eastus,\n",
}
ENABLED = {
    name: EnabledCloud(
        "me",
        Capabilities(spot=True, stop=True, multi_node=True, ports=True, images=True, docker=True),
    )
    for name in PRICES
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("prices")
    for cloud, rows in PRICES.items():
        (folder / "v8" / cloud).mkdir(parents=True)
        (folder / "v8" / cloud / "vms.csv").write_text(HEADER + rows, encoding="utf-8")
    return Catalog.open([folder / "v8"], cache=folder / "cache")


def planned(resources: str, catalog: Catalog) -> Plan:
    return plan(parse(f"resources: {resources}"), catalog, ENABLED)


def places(found: Plan) -> list[str]:
    return [f"{c.offer.cloud}/{c.offer.region}" for c in found.candidates]


def test_fractions(catalog: Catalog) -> None:
    assert planned("{accelerators: A10:0.33}", catalog).candidates[0].offer.cloud == "azure"
    nothing = planned("{accelerators: T4:0.5}", catalog)
    assert not nothing.candidates
    assert any(
        "nobody sells that count" in note and "nearest T4:1" in note for note in nothing.notes
    )


def test_preferred_then_every_other_but_the_denied(catalog: Catalog) -> None:
    found = planned(
        "{accelerators: A10G, cloud: aws, region: {allow: [us-*], deny: [us-west-1], prefer: "
        "[us-east-2]}}",
        catalog,
    )
    assert places(found) == ["aws/us-east-2", "aws/us-west-2", "aws/us-east-1"]


def test_an_unknown_region(catalog: Catalog) -> None:
    with pytest.raises(PlanError) as caught:
        planned("{infra: aws/us-east1, any_of: [{use_spot: true}, {use_spot: false}]}", catalog)
    assert "us-east-1" in caught.value.hint


def test_an_order_beats_the_price(catalog: Catalog) -> None:
    found = planned(
        "{accelerators: A10G, ordered: [{infra: aws/us-east-1}, {infra: aws/us-west-2}]}", catalog
    )
    assert places(found) == ["aws/us-east-1", "aws/us-west-2"]
    assert found.candidates[0].offer.hourly > found.candidates[1].offer.hourly


def test_a_cap_holds_for_every_offer(catalog: Catalog) -> None:
    assert places(planned("{accelerators: A10G, max_hourly_cost: 2, max_price: $1}", catalog)) == [
        "aws/eu-west-1",
        "aws/us-west-2",
        "aws/us-west-1",
    ]


def test_a_type_against_its_accelerators(catalog: Catalog) -> None:
    with pytest.raises(PlanError, match=r"g5\.xlarge has A10G:1"):
        planned("{instance_type: g5.xlarge, accelerators: T4}", catalog)


def test_kubernetes_beside_another_is_dropped_with_a_line(catalog: Catalog) -> None:
    found = planned("{infra: k8s, any_of: [{}, {infra: aws}], ports: 8080}", catalog)
    assert {c.offer.cloud for c in found.candidates} == {"aws"}
    assert any("kubernetes" in line for line in [*found.notes, *(d.words for d in found.dropped)])


def test_kubernetes_alone_is_refused_with_the_clouds_at_hand_and_what_to_paste(
    catalog: Catalog,
) -> None:
    with pytest.raises(PlanError) as caught:
        planned("{infra: k8s, accelerators: A10G}", catalog)
    [problem] = caught.value.problems
    assert problem.code == "plan.no-adapter"
    assert "kubernetes" in problem.message
    at_hand, _, instead = problem.hint.partition("; to use them, paste\n")
    assert at_hand.startswith("clouds at hand: ")
    assert "aws" in at_hand
    assert {c.offer.cloud for c in plan(parse(instead), catalog, ENABLED).candidates} >= {"aws"}


def test_an_image_kept_by_region_is_started_in_these_only(catalog: Catalog) -> None:
    found = planned(
        "{infra: aws, accelerators: A10G, image_id: {us-east-1: ami-a, us-east-2: ami-b}}", catalog
    )
    assert places(found) == ["aws/us-east-1", "aws/us-east-2"]
