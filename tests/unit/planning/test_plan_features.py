"""Needs that a cloud or a machine cannot meet: what is dropped, in which words, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.offers import Plan
from nbprov.model.places import Market
from nbprov.model.remarks import Origin
from nbprov.model.resources import Accelerator, Compare, Image, LocalDisk, Quantity, Request
from nbprov.model.spec import ExposedPorts, Spec
from nbprov.planning import EnabledCloud, PlanError, best_by_cloud, plan
from nbprov.planning.lookup.skypilot_capabilities import SKYPILOT_FEATURES, skypilot_clouds
from nbprov.spec import parse

Enabled = dict[str, EnabledCloud]
CatalogOf = Callable[..., Catalog]
L4 = Accelerator("L4")
DOCKER = Image(docker="ubuntu:22.04")
AMI = Image(machine=(("us-east-1", "ami-1"),))
FIVE = ("aws", "azure", "gcp", "lambda", "runpod")

ROWS: dict[str, list[tuple[object, ...]]] = {
    "aws": [
        ("g6.xlarge", "L4", 1, 4, 16, 0.80, 0.30, "us-east-1", "use1-az1"),
        ("g6.xlarge", "L4", 1, 4, 16, 0.90, 0.30, "eu-west-1", "euw1-az1"),
        ("m6id.large", "", "", 2, 8, 0.12, "", "us-east-1", "use1-az1"),
        ("m6i.large", "", "", 2, 8, 0.10, "", "us-east-1", "use1-az1"),
    ],
    "azure": [
        ("Standard_NV36_L4_v5", "L4", 1, 4, 16, 0.70, "", "eastus", ""),
        ("Standard_NV36ads_L4_v5", "L4", 1, 4, 16, 0.75, "", "eastus", ""),
    ],
    "gcp": [("g2-standard-4", "L4", 1, 4, 16, 0.80, 0.30, "us-central1", "us-central1-a")],
    "lambda": [("gpu_1x_l4", "L4", 1, 4, 16, 0.60, "", "us-west-1", "")],
    "runpod": [("1x_L4_SECURE", "L4", 1, 4, 16, 0.49, 0.49, "US", "US-CA-1")],
    "nebius": [
        ("gpu-h100-sxm_8gpu", "H100", 8, 128, 1600, 23.6, "", "eu-north1", ""),
        ("gpu-h100-sxm_1gpu", "H100", 1, 16, 200, 2.95, "", "eu-north1", ""),
    ],
}


@pytest.fixture
def sold(catalog_of: CatalogOf) -> Catalog:
    return catalog_of(ROWS)


def one(nodes: int = 1, expose: ExposedPorts | None = None, **fields: object) -> Spec:
    asked = {"accelerator": L4, **fields}
    return Spec(
        requests=(Request(origin=Origin("resources", 2), **asked),),
        num_nodes=nodes,
        expose=expose or ExposedPorts(),
    )  # type: ignore[arg-type]


def clouds(made: Plan) -> set[str]:
    return {c.offer.cloud for c in made.candidates}


def dropped(made: Plan) -> dict[str, int]:
    return {line.rule.name: line.count for line in made.dropped}


@pytest.mark.parametrize(
    ("fields", "kept", "rules"),
    [
        ({}, set(FIVE), set()),
        ({"market": Market.SPOT}, {"aws", "gcp", "runpod"}, set()),
        ({"nodes": 2}, {"aws", "azure", "gcp", "lambda"}, {"multi-node:runpod"}),
        ({"image": DOCKER}, set(FIVE), set()),
        ({"disk_tier": "best"}, set(FIVE), set()),
        ({"disk_tier": "low"}, {"aws", "azure", "gcp"}, {"disk-tier:lambda", "disk-tier:runpod"}),
        (
            {"disk_tier": "ultra"},
            {"aws", "gcp"},
            {"disk-tier:lambda", "disk-tier:runpod", "disk-tier:azure"},
        ),
        (
            {"network_tier": "best"},
            {"aws", "gcp"},
            {"network-tier:azure", "network-tier:lambda", "network-tier:runpod"},
        ),
        ({"network_tier": "standard"}, set(FIVE), set()),
        (
            {"accelerator_args": (("tpu_vm", "true"),)},
            {"gcp"},
            {f"accelerator-args:{c}" for c in FIVE if c != "gcp"},
        ),
        (
            {"local_disk": LocalDisk("nvme", 200)},
            {"aws"},
            {f"local-disk:{c}" for c in FIVE if c != "aws"},
        ),
        ({"image": AMI}, {"aws"}, {"machine-image:lambda", "image-region"}),
        ({"ports": ((8080, 8080),)}, set(FIVE), set()),
    ],
)
def test_a_cloud_that_cannot_is_dropped_with_a_line(
    sold: Catalog, fields: dict[str, object], kept: set[str], rules: set[str]
) -> None:
    made = plan(one(**fields), sold, skypilot_clouds(FIVE))  # type: ignore[arg-type]
    assert clouds(made) == kept
    assert set(dropped(made)) - {"disabled:nebius"} == rules


def test_ports_rule_a_cloud_out_only_where_they_are_opened_to_the_internet(sold: Catalog) -> None:
    enabled = {**skypilot_clouds(["aws"]), "lambda": EnabledCloud("me", Capabilities(ports=False))}
    asked = {"ports": ((8080, 8090),)}
    assert clouds(plan(one(**asked), sold, enabled)) == {"aws", "lambda"}  # type: ignore[arg-type]
    assert clouds(plan(one(expose=ExposedPorts(public=((22, 22),)), **asked), sold, enabled)) == {
        "aws",
        "lambda",
    }  # type: ignore[arg-type]
    for expose in (ExposedPorts(everything=True), ExposedPorts(public=((8085, 8085),))):
        made = plan(one(expose=expose, **asked), sold, enabled)  # type: ignore[arg-type]
        assert clouds(made) == {"aws"}
        assert dropped(made)["ports:lambda"] == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"disk_tier": "high"},
            "lambda has no choice of disks: disk_tier high cannot be had there",
        ),
        (
            {"image": Image(machine=(("", "ami-1"),))},
            "lambda cannot start a machine image of one's own",
        ),
    ],
)
def test_what_a_cloud_named_outright_cannot_do_is_an_error(
    sold: Catalog, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(one(cloud="lambda", **fields), sold, skypilot_clouds(FIVE))  # type: ignore[arg-type]
    assert [(p.code, p.message, p.origin.line) for p in caught.value.problems] == [
        ("plan.unsupported", words, 2)
    ]


def test_beside_an_alternative_that_can_it_is_only_a_line(sold: Catalog) -> None:
    requests = tuple(
        Request(index=i, accelerator=L4, cloud=c, disk_tier="high")
        for i, c in enumerate(("lambda", "aws"))
    )
    made = plan(Spec(requests=requests), sold, skypilot_clouds(FIVE))
    assert clouds(made) == {"aws"}
    assert dropped(made) == {"disk-tier:lambda": 1, "place": 4}
    assert (
        "L4:1 in lambda: lambda has no choice of disks: disk_tier high cannot be had there"
        in made.notes
    )


@pytest.mark.parametrize("tier", ["medium", "high"])
def test_azure_gives_premium_disks_to_its_s_series_only(sold: Catalog, tier: str) -> None:
    made = plan(one(cloud="azure", disk_tier=tier), sold, skypilot_clouds(["azure"]))
    assert [c.offer.instance_type for c in made.candidates] == ["Standard_NV36ads_L4_v5"]
    assert dropped(made) == {"premium-disk:azure": 1, "place": 5}


def test_where_no_tier_is_asked_the_standard_disk_is_said(sold: Catalog) -> None:
    for tier in ("", "best"):
        made = plan(one(cloud="azure", disk_tier=tier), sold, skypilot_clouds(["azure"]))
        assert [c.offer.instance_type for c in made.candidates] == [
            "Standard_NV36_L4_v5",
            "Standard_NV36ads_L4_v5",
        ]
        assert (
            "azure: Standard_NV36_L4_v5 take no premium disk: they start from a standard one "
            "(disk_tier low)" in made.notes
        )


def test_the_fast_network_of_nebius_needs_eight_gpus(sold: Catalog) -> None:
    enabled = skypilot_clouds(["nebius"])
    eight, single = (one(accelerator=Accelerator("H100", n), network_tier="best") for n in (8, 1))
    assert len(plan(eight, sold, enabled).candidates) == 1
    made = plan(single, sold, enabled)
    assert not made.candidates
    assert "H100:1: nebius: only machines with 8 H100 or H200 have the faster network" in made.notes


@pytest.mark.parametrize(
    ("disk", "kinds"),
    [
        (LocalDisk("nvme", 100), ["m6id.large"]),
        (LocalDisk("ssd", 118, at_least=False), ["m6id.large"]),
        (LocalDisk("nvme", 100, at_least=False), []),
        (LocalDisk("nvme", 200), []),
    ],
)
def test_a_disk_inside_is_what_the_type_has(
    sold: Catalog, disk: LocalDisk, kinds: list[str]
) -> None:
    asked = Request(cpus=Quantity(Compare.EXACTLY, 2), local_disk=disk)
    made = plan(Spec(requests=(asked,)), sold, skypilot_clouds(["aws"]))
    assert [c.offer.instance_type for c in made.candidates] == kinds


def test_an_image_map_restricts_the_regions(sold: Catalog) -> None:
    made = plan(
        one(cloud="aws", image=Image(machine=(("EU-West-1", "ami-2"),))),
        sold,
        skypilot_clouds(["aws"]),
    )
    assert {c.offer.region for c in made.candidates} == {"eu-west-1"}
    assert dropped(made) == {"image-region": 1, "place": 5}
    anywhere = plan(
        one(cloud="aws", image=Image(machine=(("", "skypilot:gpu"),))),
        sold,
        skypilot_clouds(["aws"]),
    )
    assert {c.offer.region for c in anywhere.candidates} == {"eu-west-1", "us-east-1"}


def test_the_best_of_each_cloud(sold: Catalog) -> None:
    made = plan(one(), sold, skypilot_clouds(FIVE))
    best = best_by_cloud(made)
    assert [c.offer.cloud for c in best] == ["runpod", "lambda", "azure", "aws", "gcp"]
    assert best[0] == made.chosen
    assert best_by_cloud(replace(made, candidates=list(made.candidates))) == best
    assert best_by_cloud(replace(made, candidates=made.candidates[len(made.candidates) :])) == ()


def test_a_tpu_is_looked_for_at_gcp(sold: Catalog) -> None:
    tpu = Accelerator("tpu-v5e-8")
    made = plan(one(accelerator=tpu), sold, skypilot_clouds(FIVE))
    assert not made.candidates
    assert any("tpu-v5e-8" in note for note in made.notes)
    for fields, words in (
        ({"cloud": "aws"}, "is sold by gcp, not by aws"),
        ({"instance_type": "g2-standard-4"}, "is no part of an instance type"),
    ):
        with pytest.raises(PlanError) as caught:
            plan(one(accelerator=tpu, **fields), sold, skypilot_clouds(FIVE))  # type: ignore[arg-type]
        assert words in caught.value.problems[0].message


def test_the_table_says_of_each_cloud_what_skypilot_s_does() -> None:
    without = {
        "spot": {"lambda", "cudo", "do", "hyperstack"},
        "docker": {"cudo", "primeintellect"},
        "images": {"lambda", "cudo", "primeintellect", "hyperstack"},
        "multi_node": {"runpod", "vast", "primeintellect"},
        "disk_tiers": {"runpod", "lambda", "vast", "cudo", "do", "primeintellect", "hyperstack"},
    }
    for name, expected in without.items():
        assert {
            cloud for cloud, can in SKYPILOT_FEATURES.items() if not getattr(can, name)
        } == expected, name
    assert {c for c, can in SKYPILOT_FEATURES.items() if can.network_best} == {
        "aws",
        "gcp",
        "nebius",
    }
    assert {c for c, can in SKYPILOT_FEATURES.items() if can.local_disk} == {"aws"}
    assert {
        c
        for c, can in SKYPILOT_FEATURES.items()
        if can.disk_tiers and "ultra" not in can.disk_tiers
    } == {"azure", "nebius", "oci"}


def test_what_a_cloud_cannot_do_is_said_with_the_line_that_asked_for_it(sold: Catalog) -> None:
    enabled = skypilot_clouds(["aws"]) | {"runpod": EnabledCloud("me", Capabilities())}
    text = "resources:\n  accelerators: L4\n  image_id: docker:a/b\n  disk_size: 300\n"
    made = plan(parse(text), sold, enabled)
    assert "runpod cannot start a container image (line 3)" in [d.words for d in made.dropped]
    bare = plan(parse(text.replace("  image_id: docker:a/b\n", "")), sold, enabled)
    (note,) = [note for note in bare.notes if "disk_size" in note]
    assert note.startswith("runpod: ")
    assert "(line 3)" in note
