"""What a request asks is in what a cloud is sent, or its plan says that it is not."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from clouds_under_test import CloudUnderTest

from nbprov.clouds.base import Capabilities
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import Launch, OnShutdown
from nbprov.model.offers import Candidate
from nbprov.model.places import Market
from nbprov.model.resources import Image, LocalDisk, Request
from nbprov.model.spec import ExposedPorts
from nbprov.planning.filters.features import lacks, needs_of

pytestmark = pytest.mark.machine

OWN = {"aws": "ami-0feed0beef0feed01", "gcp": "projects/p/global/images/zebra-image"}
"""A machine image of one's own, as a spec names it for the cloud."""
NO_IMAGES = {
    "local": "its machines are processes of this computer",
    "fluffycloud": "as above: its server stands before the local daemon",
}
"""The clouds that start no image of one's own, and why; they refuse one that is asked for."""
LIFETIME = 4711.0
SENT: dict[str, dict[str, str]] = {
    "count": {"": r"['\"](count|MaxCount)['\"]: ['\"]?2|bulkInsert.*['\"]count['\"]: ['\"]?2"},
    "disk_gb": {"": r"\b317\b"},
    "tags": {"": "zebra7"},
    "ports": {"local": "", "": r"\b7077\b"},  # of a local machine each port can be reached
    "market": {"": "(?i)spot"},
    "disk_tier": {"aws": "io2|gp3", "gcp": "pd-ssd|hyperdisk"},
    "terminate_after": {"gcp": r"4711", "": r"4711"},
    "on_shutdown": {"aws": "(?i)['\"]stop['\"]", "gcp": "(?i)stop", "local": "stop", "": "stop"},
}
"""By field of a launch: a pattern of what each cloud is sent for it, or all clouds (empty name)."""
ELSEWHERE = {
    "token": "the contract: in a tag or in the name",
    "owner": "the contract",
    "run_id": "a label",
    "candidate": "the contract: its type and place are what starts",
    "user_data_template": "the contract: the machine has the host key that it brings",
    "template_values": "as above",
    "public_key": "the contract: it lets the cluster's key in",
    "name": "the contract: `Instance.name`",
    "answer_by": "the contract: nothing begins after it",
    "nodes": "the contract, with `replaces_nodes`",
    "part": "as above",
    "image": "test_image_of_ones_own_is_asked_for",
    "network_best": "test_the_fast_network_is_asked_for_where_a_type_has_it",
    "accelerator_args": "test_what_a_cloud_cannot_do_drops_it_from_the_plan",
}
"""Fields of a launch that are looked at in other ways."""

FAST: dict[str, tuple[dict[str, Any], str]] = {
    "aws": ({"instance_type": "c5n.18xlarge", "vcpus": 72}, r"InterfaceType['\"]: ['\"]efa\b"),
    "gcp": ({"instance_type": "n2-standard-64", "vcpus": 64}, r"Tier['\"]: ['\"]TIER_1\b"),
}
"""By cloud: a type with the fast network, and a pattern of what is sent for it."""

NEEDS: dict[str, tuple[Request, int, str]] = {
    "spot": (Request(market=Market.SPOT), 1, "spot"),
    "multi_node": (Request(), 2, "several nodes"),
    "docker": (Request(image=Image(docker="ubuntu:22.04")), 1, "container"),
    "images": (Request(image=Image(machine=(("", "own-1"),))), 1, "machine image"),
    "disk_tiers": (Request(disk_tier="high"), 1, "disk_tier high"),
    "network_best": (Request(network_tier="best"), 1, "network_tier best"),
    "local_disk": (Request(local_disk=LocalDisk()), 1, "disk inside"),
    "accelerator_args": (Request(accelerator_args=(("a", "b"),)), 1, "accelerator_args"),
    "ports": (Request(ports=((7077, 7077),)), 1, "open ports"),
}
"""By capability: what needs it, and how the plan says that a cloud has not got it."""


def test_every_field_of_a_launch_is_looked_at() -> None:
    assert {field.name for field in dataclasses.fields(Launch)} | {"market"} == {*SENT, *ELSEWHERE}


@pytest.mark.parametrize("capability", NEEDS)
def test_a_capability_that_is_not_named_is_not_there(capability: str) -> None:
    request, nodes, words = NEEDS[capability]
    rule = lacks("new", Capabilities(), needs_of(request, nodes, ExposedPorts(everything=True)))
    assert rule is not None
    assert words in rule.words


def test_what_a_cloud_cannot_do_drops_it_from_the_plan(subject: CloudUnderTest) -> None:
    can = subject.cloud.capabilities
    for capability, (request, nodes, words) in NEEDS.items():
        rule = lacks(subject.name, can, needs_of(request, nodes, ExposedPorts(everything=True)))
        assert (rule is None) == bool(getattr(can, capability)), capability
        assert rule is None or words in rule.words


def test_what_a_cloud_can_do_is_in_what_it_is_sent(subject: CloudUnderTest) -> None:
    can = subject.cloud.capabilities
    asked: dict[str, Any] = {"tags": {"team": "zebra7"}}
    asked |= {"disk_gb": 317} if can.disk_sizes else {}
    asked |= {"ports": ((7077, 7077),)} if can.ports else {}
    asked |= {"disk_tier": "high"} if can.disk_tiers else {}
    asked |= {"count": 2} if can.multi_node else {}
    asked |= {"terminate_after": LIFETIME} if can.own_timer else {}
    asked |= {"on_shutdown": OnShutdown.STOP} if can.stop else {}
    made = subject.launch(**asked)
    made = replace(made, tags={**made.tags, **asked["tags"]})
    subject.cloud.submit(made)
    if can.spot:
        subject.cloud.submit(subject.launch(market=Market.SPOT))
        asked["market"] = Market.SPOT
    sent = _sent(subject)
    lost = [
        name
        for name in asked
        if (pattern := SENT[name].get(subject.name, SENT[name].get("", "")))
        and not re.search(pattern, sent)
    ]
    assert lost == [], f"{subject.name} was not sent {lost}: {sent[-3000:]}"


def test_the_fast_network_is_asked_for_where_a_type_has_it(subject: CloudUnderTest) -> None:
    assert subject.cloud.capabilities.network_best == (subject.name in FAST)
    if subject.name not in FAST:
        return  # test_what_a_cloud_cannot_do_drops_it_from_the_plan
    changes, pattern = FAST[subject.name]
    for is_best in (False, True):
        made = subject.launch(network_best=is_best)
        offer = replace(made.candidate.offer, **changes)
        made = replace(made, candidate=replace(made.candidate, offer=offer))
        subject.cloud.submit(made)
        assert bool(re.search(pattern, _sent(subject))) == is_best, _sent(subject)[-3000:]


def test_image_of_ones_own_is_asked_for(subject: CloudUnderTest) -> None:
    can, image = subject.cloud.capabilities, OWN.get(subject.name, "zebra-image")
    shown = image.rpartition("/")[2]
    made = subject.launch()
    if can.docker:
        candidate = made.candidate
        container = Request(image=Image(docker="zebra/image:9"))
        shown = "zebra/image:9"
        made = replace(made, candidate=Candidate(candidate.offer, container, 0, count=1))
    elif can.images:
        made = replace(made, image=image)
    else:
        assert subject.name in NO_IMAGES, "name it there, with the reason"
        with pytest.raises(CloudError) as refused:
            subject.cloud.submit(replace(made, image=image))
        assert refused.value.failure.cause is Cause.BAD_REQUEST
        assert subject.cloud.list(made.owner) == []
        return
    assert subject.name not in NO_IMAGES, "it starts images now: take it from the list"
    with suppress(CloudError):  # a double that has no such image refuses it
        subject.cloud.submit(made)
    assert shown in _sent(subject)


def _sent(subject: CloudUnderTest) -> str:
    return "\n".join(text.decode("utf-8", "replace") for text in subject.written().values())
