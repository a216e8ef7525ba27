"""The body of a create at Google, checked against the official model."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from gcp_double_model import label_faults, model

from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.catalog.disk_types import disk_type
from nbprov.clouds.gcp.images import ComputeImage, usual
from nbprov.clouds.gcp.instances import insert_bodies
from nbprov.clouds.gcp.instances.listing import instance, type_of
from nbprov.clouds.gcp.network.firewall import shared_rules
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, Launch, OnShutdown
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

IMAGE = ComputeImage("projects/ubuntu-os-cloud/global/images/ubuntu-2204-jammy-v20260801", 12)


def launch(
    kind: str = "n1-standard-4+1xT4",
    *,
    market: Market = Market.ON_DEMAND,
    vcpus: float = 4,
    **changes: Any,
) -> Launch:
    """A launch of one machine of a kind."""
    offer = Offer("gcp", "us-central1", "us-central1-a", kind, "T4", 1, vcpus, 15, market, 540_000)
    count = changes.get("count", 1)
    made = Launch(
        uuid.uuid4().hex,
        "owner-1",
        "run-1",
        "Dev Box",
        Candidate(offer, Request(), 0, count),
        count,
        50,
        user_data_template="#!/bin/sh\n@@key@@\n",
    )
    return replace(made, template_values={"key": "secret"}, **changes)


@pytest.fixture(autouse=True)
def usual_network() -> Iterator[None]:
    yield
    for name in (insert_bodies.NETWORK_VARIABLE, insert_bodies.SUBNETWORK_VARIABLE):
        os.environ.pop(name, None)


KINDS = [
    "n1-standard-4+1xT4",
    "n1-highmem-16+4xV100",
    "g2-standard-8",
    "a2-highgpu-1g",
    "a3-ultragpu-8g",
    "n2-standard-8",
    "c4-standard-8",
    "t2a-standard-4",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("market", Market)
@pytest.mark.parametrize("ends", OnShutdown)
@pytest.mark.parametrize("limit", [None, 0.3, 7200.0, 1e9])
def test_bodies_fit_the_official_model(
    kind: str, market: Market, ends: OnShutdown, limit: float | None
) -> None:
    wanted = launch(
        kind,
        market=market,
        on_shutdown=ends,
        terminate_after=limit,
        tags={"nbprov-run": "run-1", "Team": "Vision & Co"},
    )
    body, _ = insert_bodies.one(wanted, IMAGE, "p")
    several, _ = insert_bodies.many(replace(wanted, count=3), IMAGE)
    assert model().faults("Instance", body, "body", "instances.insert") == []
    assert (
        model().faults("BulkInsertInstanceResource", several, "body", "instances.bulkInsert") == []
    )
    assert label_faults(body["labels"], "labels") == []
    spot = market is Market.SPOT
    plan = body["scheduling"]
    assert plan["provisioningModel"] == ("SPOT" if spot else "STANDARD")
    assert ("instanceTerminationAction" in plan) == (spot or limit is not None)
    assert plan.get("instanceTerminationAction", "DELETE") == (
        "DELETE"
        if ends is OnShutdown.TERMINATE or "instanceTerminationAction" not in plan
        else "STOP"
    )
    if limit is not None:
        assert 30 <= int(plan["maxRunDuration"]["seconds"]) <= 120 * 86_400
    has_gpu = insert_bodies.shape_of(kind).has_gpu
    assert (plan.get("onHostMaintenance") == "TERMINATE") == (has_gpu or spot)


@pytest.mark.parametrize(
    ("kind", "has_disk"),
    [
        ("a2-ultragpu-1g", True),
        ("a3-ultragpu-8g", True),
        ("a2-highgpu-1g", False),
        ("n2-standard-8", False),
    ],
)
def test_time_limit_that_stops_gives_local_disks_up(kind: str, has_disk: bool) -> None:
    """Google refuses a limit with STOP without that argument for machines with local SSDs, and with
    it for others.
    """
    for ends, limit in (
        (OnShutdown.STOP, 3600.0),
        (OnShutdown.TERMINATE, 3600.0),
        (OnShutdown.STOP, None),
    ):
        wanted = launch(kind, on_shutdown=ends, terminate_after=limit)
        plan = insert_bodies.one(wanted, IMAGE, "p")[0]["scheduling"]
        expected = (
            {"discardLocalSsd": True} if has_disk and ends is OnShutdown.STOP and limit else None
        )
        assert plan.get("onInstanceStopAction") == expected


def test_machine_is_closed_by_default() -> None:
    body, _ = insert_bodies.one(launch(), IMAGE, "p")
    told = {item["key"]: item["value"] for item in body["metadata"]["items"]}
    assert body["serviceAccounts"] == []
    assert told["enable-oslogin"] == "FALSE"
    assert told["block-project-ssh-keys"] == "TRUE"
    assert "ssh-keys" not in told
    assert told["startup-script"] == "#!/bin/sh\nsecret\n"
    assert "secret" not in json.dumps({**body, "metadata": None})


def test_gpu_is_attached_to_its_host() -> None:
    body, _ = insert_bodies.one(launch("n1-standard-8+2xT4"), IMAGE, "proj")
    assert body["machineType"] == "zones/us-central1-a/machineTypes/n1-standard-8"
    (device,) = body["guestAccelerators"]
    assert device == {
        "acceleratorType": "projects/proj/zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4",
        "acceleratorCount": 2,
    }
    own, _ = insert_bodies.one(launch("g2-standard-8"), IMAGE, "proj")
    assert "guestAccelerators" not in own
    many, _ = insert_bodies.many(launch("n1-standard-8+2xT4", count=2), IMAGE)
    assert many["instanceProperties"]["machineType"] == "n1-standard-8"
    assert (
        many["instanceProperties"]["guestAccelerators"][0]["acceleratorType"] == "nvidia-tesla-t4"
    )
    assert many["count"] == many["minCount"] == "2"


@pytest.mark.parametrize("kind", ["n1-standard-4+1xH9000", "tpu", "+", ""])
def test_what_google_does_not_sell_is_not_offered(kind: str) -> None:
    with pytest.raises(CloudError) as raised:
        insert_bodies.shape_of(kind)
    assert raised.value.failure.cause is Cause.NOT_OFFERED


def test_disk_is_as_large_as_wanted_and_as_its_image() -> None:
    for wanted, size in ((launch(disk_gb=100), "100"), (launch(disk_gb=5), "12")):
        body, _ = insert_bodies.one(wanted, IMAGE, "p")
        assert body["disks"][0]["initializeParams"]["diskSizeGb"] == size
        assert body["disks"][0]["autoDelete"] is True


@pytest.mark.parametrize(
    ("kind", "tier", "vcpus", "disk"),
    [
        ("n2-standard-8", "", 8, "pd-balanced"),
        ("n2-standard-8", "low", 8, "pd-standard"),
        ("n2-standard-8", "best", 8, "pd-ssd"),
        ("n2-standard-80", "ultra", 80, "pd-extreme"),
        ("n2-standard-80", "best", 80, "pd-extreme"),
        ("g2-standard-8", "low", 8, "pd-balanced"),
        ("n4-standard-8", "high", 8, "hyperdisk-balanced"),
        ("a3-ultragpu-8g", "", 224, "hyperdisk-balanced"),
        ("a3-highgpu-8g", "high", 208, "pd-ssd"),
        ("n2-standard-8", "ultra", 8, None),
        ("n4-standard-8", "ultra", 8, None),
    ],
)
def test_tier_names_a_disk_that_the_machine_takes(
    kind: str, tier: str, vcpus: float, disk: str | None
) -> None:
    if disk is not None:
        assert disk_type(kind, tier, vcpus) == disk
        return
    with pytest.raises(CloudError) as raised:
        disk_type(kind, tier, vcpus)
    assert raised.value.failure.cause is Cause.NOT_OFFERED


def test_names_are_chosen_from_the_token() -> None:
    wanted = launch(count=3, name="Übergroß / X " * 9)
    names = labels.names(wanted)
    assert len(set(names)) == 3
    assert [labels.node_of(n) for n in names] == [0, 1, 2]
    assert all(labels.parts(f"us-central1-a/{n}") == ("us-central1-a", n) for n in names)
    assert names == labels.names(replace(wanted, answer_by=5.0))


def test_request_id_is_the_same_for_the_same_wishes_alone() -> None:
    first = launch()
    prints = [
        insert_bodies.one(changed, IMAGE, "p")[1]
        for changed in (
            first,
            replace(first, answer_by=9.0, template_values={"key": "x"}),
            replace(first, disk_gb=60),
        )
    ]
    ids = [labels.request_id(first.token, p) for p in prints]
    assert ids[0] == ids[1] != ids[2]
    assert uuid.UUID(ids[0]).int


@pytest.mark.parametrize("value", ["", "ok", "Über", "a b", "x" * 200, "A", "a", "owner-1"])
def test_labels_are_cleaned_and_stay_apart(value: str) -> None:
    assert label_faults({labels.clean_key(value or "k"): labels.clean(value)}, "labels") == []
    assert labels.clean(value) == labels.clean(labels.clean(value)) or len(value) > 63


def test_labels_that_differ_stay_different() -> None:
    assert (
        len({labels.clean(v) for v in ("Team A", "team a", "team-a", "TEAM-A", "x" * 70, "x" * 71)})
        == 6
    )


def test_network_is_the_one_that_is_named() -> None:
    os.environ[insert_bodies.NETWORK_VARIABLE] = "lab"
    os.environ[insert_bodies.SUBNETWORK_VARIABLE] = "lab-us"
    body, _ = insert_bodies.one(launch(), IMAGE, "p")
    assert body["networkInterfaces"][0]["network"] == "global/networks/lab"
    assert body["networkInterfaces"][0]["subnetwork"] == "regions/us-central1/subnetworks/lab-us"
    names = {r["name"] for r in shared_rules("o", "203.0.113.7/32")}
    os.environ[insert_bodies.NETWORK_VARIABLE] = "other"
    assert not names & {r["name"] for r in shared_rules("o", "203.0.113.7/32")}


def test_fast_network_is_asked_for_where_the_machine_has_it() -> None:
    fast, _ = insert_bodies.one(launch("n2-standard-64", vcpus=64, network_best=True), IMAGE, "p")
    plain, _ = insert_bodies.one(launch("n2-standard-8", vcpus=8, network_best=True), IMAGE, "p")
    assert fast["networkPerformanceConfig"] == {"totalEgressBandwidthTier": "TIER_1"}
    assert "networkPerformanceConfig" not in plain


def test_rules_let_in_one_address_and_nobody_else() -> None:
    ssh, inner, deny = shared_rules("owner-1", "203.0.113.7/32")
    for rule in (ssh, inner, deny):
        assert model().faults("Firewall", rule, "rule", "firewalls.insert") == []
        assert rule["targetTags"] == [labels.owner_tag("owner-1")]
    assert ssh["sourceRanges"] == ["203.0.113.7/32"]
    assert ssh["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert "sourceRanges" not in inner
    assert inner["sourceTags"] == [labels.owner_tag("owner-1")]
    assert deny["denied"] == [{"IPProtocol": "all"}]
    assert ssh["priority"] < inner["priority"] < deny["priority"] < 1000
    assert shared_rules("owner-1", "203.0.113.7/32", 2222)[0]["name"] != ssh["name"]


@pytest.mark.parametrize(
    "status", [*model().schemas["Instance"]["properties"]["status"]["enum"], "LEVITATING"]
)
def test_every_status_of_google_has_a_state(status: str) -> None:
    row = {
        "name": "x-0",
        "zone": "zones/us-central1-a",
        "status": status,
        "labels": {},
        "machineType": "m/n2-standard-4",
    }
    shown = instance(row, "o")
    assert (shown.state is InstanceState.UNKNOWN) == (status == "LEVITATING")
    assert shown.state is not InstanceState.GONE
    assert (shown.state.is_billed) == (
        status
        not in (
            "STOPPING",
            "STOPPED",
            "TERMINATED",
            "SUSPENDING",
            "SUSPENDED",
            "PENDING_STOP",
            "DEPROVISIONING",
        )
    )


def test_labels_say_who_logs_in_and_where() -> None:
    row: dict[str, Any] = {
        "name": "nbprov-dev-0123456789ab-2",
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
        "status": "RUNNING",
        "labels": {LOGIN_LABEL: "ubuntu", SSH_PORT_LABEL: "2222"},
        "machineType": "m/n1-standard-4",
        "guestAccelerators": [
            {"acceleratorType": "zones/z/acceleratorTypes/nvidia-tesla-v100", "acceleratorCount": 2}
        ],
        "networkInterfaces": [
            {"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "203.0.113.9"}]}
        ],
        "scheduling": {"provisioningModel": "SPOT"},
        "creationTimestamp": "2026-11-22T01:02:03.456-08:00",
    }
    shown = instance(row, "o")
    assert (shown.user, shown.host, shown.port, shown.private_host, shown.node, shown.spot) == (
        "ubuntu",
        "203.0.113.9",
        2222,
        "10.0.0.2",
        2,
        True,
    )
    assert shown.instance_type == type_of(row) == "n1-standard-4+2xV100"
    assert shown.launched_at > 1_700_000_000
    assert (
        instance({**row, "labels": {}}, "o").user,
        instance({**row, "labels": {}}, "o").port,
    ) == ("nbprov", 22)


def test_image_has_the_driver_where_there_is_a_gpu() -> None:
    assert all("nvidia" in family for _, family in usual("g2", has_gpu=True))
    assert not any("nvidia" in family for _, family in usual("n2", has_gpu=False))
    assert (
        usual("n1", has_gpu=True, device="nvidia-tesla-v100")[0][0]
        == "deeplearning-platform-release"
    )
    assert all("arm64" in family for _, family in usual("t2a", has_gpu=False))
