"""Images, disks, networks and TPUs: what is read, and what is refused."""

from __future__ import annotations

import pytest

from nbprov.model.remarks import Severity
from nbprov.model.resources import Image, LocalDisk, PlaceGlob, PlaceRule, Request
from nbprov.model.spec import Spec
from nbprov.spec import SpecError, parse


def spec(resources: str, *ignore: str) -> Spec:
    return parse(f"resources: {resources}", frozenset(ignore))


def one(resources: str) -> Request:
    (request,) = spec(resources).requests
    return request


def problem(resources: str) -> tuple[str, str, str]:
    """Code, hint and nearest word of the only problem."""
    with pytest.raises(SpecError) as caught:
        spec(resources)
    (found,) = caught.value.problems
    assert found.excerpt
    assert found.column > len("resources: ")
    return found.code, found.hint, found.closest


@pytest.mark.parametrize(
    ("resources", "image"),
    [
        ("{image_id: docker:ubuntu:22.04}", Image("ubuntu:22.04")),
        (
            "{image_id: 'DOCKER: nvcr.io/nvidia/pytorch:24.07-py3'}",
            Image("nvcr.io/nvidia/pytorch:24.07-py3"),
        ),
        (
            "{infra: aws, image_id: skypilot:gpu-ubuntu-2204}",
            Image(machine=(("", "skypilot:gpu-ubuntu-2204"),)),
        ),
        ("{infra: aws/us-east-1, image_id: ami-a}", Image(machine=(("", "ami-a"),))),
        (
            "{infra: aws/us-east-1, image_id: {us-east-1: ami-a, us-west-2: ami-b}}",
            Image(machine=(("", "ami-a"),)),
        ),
        (
            "{infra: aws, image_id: {us-west-2: b, us-east-1: a}}",
            Image(machine=(("us-east-1", "a"), ("us-west-2", "b"))),
        ),
        (
            "{infra: aws, image_id: {docker: 'i:1', us-east-1: a}}",
            Image("i:1", (("us-east-1", "a"),)),
        ),
        (
            "{infra: azure, image_id: 'publisher:offer:sku:1.0'}",
            Image(machine=(("", "publisher:offer:sku:1.0"),)),
        ),
        (
            "{infra: gcp, image_id: projects/p/global/images/i}",
            Image(machine=(("", "projects/p/global/images/i"),)),
        ),
        ("{infra: k8s, image_id: 'me/image:1'}", Image("me/image:1")),
        ("{infra: lambda, image_id: 'docker:me/image:1'}", Image("me/image:1")),
    ],
)
def test_forms_of_images(resources: str, image: Image) -> None:
    assert one(resources).image == image


def test_an_image_kept_by_region_is_asked_for_in_these_only() -> None:
    rule = PlaceRule((PlaceGlob(region="us-east-1"), PlaceGlob(region="us-west-2")))
    assert one("{infra: aws, image_id: {us-east-1: ami-a, us-west-2: ami-b}}").places == (rule,)


@pytest.mark.parametrize(
    ("resources", "code", "hint"),
    [
        ("{image_id: ami-a}", "image", "infra: aws/us-east-1"),
        ("{infra: aws, image_id: ami-a}", "image", "image_id: {us-east-1: ami-a}"),
        (
            "{infra: aws/us-west-1, image_id: {us-east-1: ami-a}}",
            "image",
            "{us-east-1: ami-a, us-west-1: …}",
        ),
        ("{infra: lambda, image_id: my-image}", "image", "docker:"),
        (
            "{infra: aws/us-east-1, image_id: ami-a, network_tier: best}",
            "image",
            "network_tier: standard",
        ),
        ("{image_id: 'docker:'}", "image", "docker:ubuntu:22.04"),
        ("{image_id: {us-east-1: null}}", "image", "us-east-1: ami-"),
        ("{infra: aws, image_id: {us-east-1: 'docker:a'}}", "image", "image_id: docker:a"),
        ("{image_id: {}}", "empty", "image_id: {us-east-1"),
        ("{image_id: [a]}", "type", "image_id: docker:ubuntu:22.04"),
        ("{image_id: true}", "type", "image_id: docker:ubuntu:22.04"),
    ],
)
def test_images_that_cannot_be(resources: str, code: str, hint: str) -> None:
    found = problem(resources)
    assert found[0] == f"spec.{code}"
    assert hint in found[1]


def test_a_machine_image_beside_the_best_network_where_the_cloud_brings_it() -> None:
    request = one("{infra: gcp, image_id: i, network_tier: best}")
    assert (request.network_tier, request.image) == ("best", Image(machine=(("", "i"),)))


@pytest.mark.parametrize(
    ("text", "disk"),
    [
        ("nvme:1000+", LocalDisk("nvme", 1000, True)),
        ("ssd:500", LocalDisk("ssd", 500, False)),
        ("nvme", LocalDisk("nvme", 100, True)),
        ("1000+", LocalDisk("nvme", 1000, True)),
        ("'500'", LocalDisk("nvme", 500, False)),
        ("SSD", LocalDisk("ssd", 100, True)),
    ],
)
def test_disks_inside_the_machine(text: str, disk: LocalDisk) -> None:
    assert one(f"{{local_disk: {text}}}").local_disk == disk


def test_a_disk_inside_the_machine_where_none_is_known() -> None:
    assert problem("{infra: gcp, local_disk: nvme}")[0] == "spec.not-yet"
    assert (
        problem("{local_disk: 500}")[1] == "write local_disk: 500+ (at least) or nvme:500 (exactly)"
    )
    assert "did you mean nvme?" in problem("{local_disk: nvm:5}")[1]
    ignored = spec("{infra: gcp, local_disk: nvme}", "local_disk")
    assert ignored.requests[0].local_disk is None
    assert [(r.level, r.origin.path) for r in ignored.remarks] == [
        (Severity.WARNING, "resources.local_disk")
    ]
    either = spec("{local_disk: nvme, any_of: [{infra: gcp}, {infra: aws}]}").requests
    assert [(r.cloud, r.local_disk) for r in either] == [("gcp", LocalDisk()), ("aws", LocalDisk())]


def test_tiers() -> None:
    assert one("{disk_tier: BEST}").disk_tier == "best"
    assert one("{disk_tier: medium}").disk_tier == "medium"
    assert one("{network_tier: best}").network_tier == "best"
    assert one("{network_tier: standard}") == one("{}")
    assert [r.level for r in spec("{disk_tier: ultra}").remarks] == [Severity.WARNING]
    assert problem("{disk_tier: bset}")[2] == "best"


def test_tpus() -> None:
    request = one(
        "{accelerators: tpu-v5litepod-8, accelerator_args: {runtime_version: v2-alpha-tpuv5, "
        "tpu_vm: false}}"
    )
    assert (request.cloud, request.accelerator_args) == (
        "gcp",
        (("runtime_version", "v2-alpha-tpuv5"), ("tpu_vm", "false")),
    )
    assert one("{accelerators: tpu-v5-lite-podslice}").cloud == "kubernetes"
    assert one("{infra: k8s, accelerators: tpu-v5litepod-8}").cloud == "kubernetes"
    both = spec("{accelerators: {A100, tpu-v5litepod-8}, accelerator_args: {tpu_name: t}}").requests
    assert [(r.cloud, r.accelerator_args) for r in both] == [
        ("", ()),
        ("gcp", (("tpu_name", "t"),)),
    ]


@pytest.mark.parametrize(
    ("resources", "code"),
    [
        ("{infra: aws, accelerators: tpu-v5litepod-8}", "tpu"),
        ("{instance_type: p4d.24xlarge, accelerators: tpu-v5litepod-8}", "tpu"),
        ("{accelerators: A100, accelerator_args: {tpu_name: t}}", "tpu"),
        ("{accelerators: tpu-v5litepod-8, accelerator_args: {tpu_nam: t}}", "unknown-field"),
        ("{accelerators: tpu-v5litepod-8, accelerator_args: {tpu_vm: 1}}", "value"),
        ("{accelerators: tpu-v5litepod-8, accelerator_args: {tpu_name: [a]}}", "type"),
        ("{accelerators: tpu-v5litepod-8, accelerator_args: x}", "type"),
    ],
)
def test_tpus_that_cannot_be(resources: str, code: str) -> None:
    assert problem(resources)[0] == f"spec.{code}"
