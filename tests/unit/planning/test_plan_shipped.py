"""Plans over the shipped prices: the machines that people expect, and the time a plan takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from nbprov.catalog import Catalog
from nbprov.model.blocks import Block
from nbprov.model.resources import Accelerator, Compare, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, plan

Enable = Callable[..., dict[str, EnabledCloud]]
EIGHT = Quantity(Compare.EXACTLY, 8)
GIB_32 = Quantity(Compare.EXACTLY, 32)
GIB_64 = Quantity(Compare.AT_LEAST, 64)
FOUR = Quantity(Compare.AT_LEAST, 4)


@pytest.mark.parametrize(
    ("cloud", "cpus", "memory", "kinds"),
    [
        ("aws", EIGHT, None, {"m6i.2xlarge"}),
        ("azure", EIGHT, None, {"Standard_D8s_v5"}),
        ("gcp", EIGHT, None, {"n2-standard-8", "n4-standard-8"}),
        ("aws", None, GIB_32, {"r6i.xlarge"}),
        ("azure", None, GIB_32, {"Standard_E4s_v5"}),
        ("gcp", None, GIB_32, {"n2-highmem-4", "n4-highmem-4"}),
        ("aws", None, GIB_64, {"r6i.2xlarge"}),
        ("azure", None, GIB_64, {"Standard_E8s_v5"}),
        ("gcp", None, GIB_64, {"n2-highmem-8", "n4-highmem-8"}),
        ("lambda", None, GIB_64, {"gpu_1x_a6000"}),
        ("aws", FOUR, FOUR, {"c6i.xlarge", "c7i.xlarge"}),
        ("azure", FOUR, FOUR, {"Standard_F4s_v2"}),
        ("gcp", FOUR, FOUR, {"n2-highcpu-4", "n4-highcpu-4"}),
    ],
)
def test_the_default_machines_people_know(
    shipped: Catalog,
    enable: Enable,
    cloud: str,
    cpus: Quantity | None,
    memory: Quantity | None,
    kinds: set[str],
) -> None:
    chosen = plan(
        Spec(requests=(Request(cloud=cloud, cpus=cpus, memory=memory),)), shipped, enable(cloud)
    ).chosen
    assert chosen is not None
    assert chosen.offer.instance_type in kinds


def test_cpus_alone_never_give_a_machine_short_of_memory(shipped: Catalog, enable: Enable) -> None:
    made = plan(Spec(requests=(Request(cpus=FOUR),)), shipped, enable("aws", "azure", "gcp"))
    assert len(made.candidates) > 1000
    for candidate in made.candidates[::97]:
        offer = candidate.offer
        assert offer.memory_gib is not None
        assert offer.vcpus is not None
        assert offer.memory_gib >= 4 * offer.vcpus
        assert not offer.accelerator


@pytest.mark.parametrize(
    ("accelerator", "cloud"),
    [
        (Accelerator("L4"), "aws"),
        (Accelerator("A100", 8), "primeintellect"),
        (Accelerator("T4"), "gcp"),
    ],
)
def test_exhausting_the_cheapest_type_leaves_the_cloud_s_other_types(
    shipped: Catalog, enable: Enable, accelerator: Accelerator, cloud: str
) -> None:
    spec = Spec(requests=(Request(accelerator=accelerator, cloud=cloud),))
    chosen = plan(spec, shipped, enable(cloud)).chosen
    if chosen is None:
        pytest.fail(f"{cloud} sells no {accelerator} in the shipped prices")
    first = chosen.offer.instance_type
    made = plan(
        spec, shipped, enable(cloud), blocks=[Block(cloud=cloud, instance_type=first, expires=9.0)]
    )
    assert made.chosen is not None
    assert made.chosen.offer.cloud == cloud
    assert first not in {c.offer.instance_type for c in made.candidates}


def test_a_fraction_of_a_gpu_finds_the_size_that_is_sold(shipped: Catalog, enable: Enable) -> None:
    made = plan(
        Spec(requests=(Request(accelerator=Accelerator("A10", 0.33)),)), shipped, enable("azure")
    )
    assert made.chosen is not None
    assert abs(made.chosen.offer.accelerator_count - 0.333) < 0.001


def test_a_warm_plan_of_ten_thousand_candidates_costs_milliseconds(
    shipped: Catalog, enable: Enable
) -> None:
    spec = Spec(requests=(Request(cpus=FOUR),))
    enabled = enable(*shipped.clouds())
    made = plan(spec, shipped, enabled)
    blocks = [
        Block(
            cloud=c.offer.cloud, zone=c.offer.zone, instance_type=c.offer.instance_type, expires=9.0
        )
        for c in made.candidates[:50]
    ]
    took = []
    for _ in range(7):
        start = time.perf_counter()
        plan(spec, shipped, enabled, blocks=blocks)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05, "ten times the target: something scans the catalogue row by row"
