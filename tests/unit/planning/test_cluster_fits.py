"""Whether a running cluster serves a spec, and which difference is named if it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.guards import Guards
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Accelerator, Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import fits

OFFER = Offer(
    "aws",
    "us-east-1",
    "use1-az1",
    "g6.xlarge",
    "L4",
    1.0,
    4.0,
    16.0,
    Market.ON_DEMAND,
    usd("0.80"),
    accelerator_memory_gib=22.5,
)


def view(offer: Offer = OFFER, *, nodes: int = 1, disk_gb: int = 256) -> ClusterView:
    candidate = Candidate(offer, Request(disk_gb=disk_gb), rank=0, count=nodes)
    return ClusterView(
        "dev", "c1", "r1", ClusterState.RUNNING, candidate, (), Guards(), started=0.0
    )


def spec(*requests: Request, nodes: int = 1) -> Spec:
    return Spec(requests=requests or (Request(),), num_nodes=nodes)


def at_least(value: float) -> Quantity:
    return Quantity(Compare.AT_LEAST, value)


@pytest.mark.parametrize(
    "request_",
    [
        Request(),
        Request(accelerator=Accelerator("l4")),
        Request(accelerator=Accelerator("L4", 0.5)),
        Request(cloud="AWS", region="US-EAST-1", zone="use1-az1", instance_type="g6.xlarge"),
        Request(cpus=Quantity(Compare.EXACTLY, 4), memory=at_least(16)),
        Request(memory=Quantity(Compare.PER_VCPU, 4)),
        Request(disk_gb=100, ports=((8080, 8080),), labels=(("team", "nlp"),)),
        Request(max_hourly=usd("0.80")),
        Request(accelerator=Accelerator("", 1, memory_gib=24)),
        Request(accelerator=Accelerator("", 1, memory_gib=16, memory_at_least=True)),
    ],
)
def test_a_cluster_that_has_what_is_asked_or_more_fits(request_: Request) -> None:
    assert fits(spec(request_), view()) == ()


@pytest.mark.parametrize(
    ("request_", "difference"),
    [
        (Request(accelerator=Accelerator("A100", 8)), "accelerators: asked A100:8, has L4:1"),
        (Request(accelerator=Accelerator("L4", 2)), "accelerators: asked L4:2, has L4:1"),
        (
            Request(accelerator=Accelerator("", 1, memory_gib=80, memory_at_least=True)),
            "accelerators: asked 80GB+:1, has L4:1",
        ),
        (Request(cloud="gcp"), "cloud: asked gcp, has aws"),
        (Request(region="us-west-2"), "region: asked us-west-2, has us-east-1"),
        (Request(zone="use1-az2"), "zone: asked use1-az2, has use1-az1"),
        (Request(instance_type="g6.2xlarge"), "instance_type: asked g6.2xlarge, has g6.xlarge"),
        (Request(cpus=at_least(8)), "cpus: asked 8+, has 4"),
        (Request(memory=Quantity(Compare.EXACTLY, 32)), "memory: asked 32, has 16 GiB"),
        (Request(market=Market.SPOT), "use_spot: asked spot, has on-demand"),
        (Request(disk_gb=512), "disk_size: asked 512 GB, has 256 GB"),
        (
            Request(max_hourly=usd("0.50")),
            "max_hourly_cost: asked at most $0.50, has $0.80 an hour",
        ),
    ],
)
def test_the_difference_is_named(request_: Request, difference: str) -> None:
    assert fits(spec(request_), view()) == (difference,)


def test_more_nodes_than_there_are_do_not_fit_fewer_do() -> None:
    assert fits(spec(nodes=2), view()) == ("num_nodes: asked 2, has 1",)
    assert fits(spec(nodes=2), view(nodes=4)) == ()


def test_one_alternative_is_enough_and_the_nearest_is_told() -> None:
    far = Request(cloud="gcp", accelerator=Accelerator("A100", 8))
    near = Request(index=1, accelerator=Accelerator("L4", 4))
    assert fits(spec(far, Request(index=1, accelerator=Accelerator("L4"))), view()) == ()
    assert fits(spec(far, near), view()) == ("accelerators: asked L4:4, has L4:1",)


def test_what_was_written_then_still_means_what_it_was_resolved_to() -> None:
    planned = Candidate(
        replace(OFFER, accelerator="MI300X"), Request(accelerator=Accelerator("MI300")), rank=0
    )
    running = replace(view(), candidate=planned)
    assert fits(spec(Request(accelerator=Accelerator("mi300"))), running) == ()
    assert fits(spec(Request(accelerator=Accelerator("MI300X"))), running) == ()


@pytest.mark.parametrize(
    ("asked", "has"), [("L40", "L40S"), ("A100", "A100-80GB"), ("H100", "H100-SXM")]
)
def test_a_name_that_begins_another_is_not_the_other(asked: str, has: str) -> None:
    assert fits(
        spec(Request(accelerator=Accelerator(asked))), view(replace(OFFER, accelerator=has))
    )


def test_memory_that_is_only_typical_or_unknown_counts_as_met() -> None:
    much = spec(Request(memory=at_least(500)))
    assert fits(much, view(replace(OFFER, cloud="runpod"))) == ()
    assert fits(much, view(replace(OFFER, memory_gib=None))) == ()
    assert fits(much, view()) == ("memory: asked 500+, has 16 GiB",)
