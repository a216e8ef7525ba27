"""The surroundings of a launch at EC2: images, disks, tags, and the network."""

from __future__ import annotations

import os
from typing import Any

import boto3
import pytest
from aws_double_account import CPU, GPU, Account, offer

from nbprov.clouds.aws import images
from nbprov.clouds.aws.account import fact_cache
from nbprov.clouds.aws.images import MachineImage
from nbprov.clouds.aws.instances import run_instances
from nbprov.clouds.base import SSH_PORT_LABEL
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, SideObject

pytest_plugins = ["aws_double_fixtures"]

BARE = "eu-west-1"
"""The region of this module whose default network is removed."""
IMAGE = MachineImage("ami-0", "/dev/sda1", 8)


def cause_of(aws: Account, what: Any, **changes: Any) -> Cause:
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(aws.launch(what, **changes))
    return raised.value.failure.cause


@pytest.mark.parametrize(
    ("kind", "gpu", "start"),
    [
        (CPU, "", "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/"),
        ("m7g.large", "", "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/"),
        (GPU, "A10G", "/aws/service/deeplearning/ami/x86_64/"),
        ("g5g.xlarge", "T4g", "/aws/service/deeplearning/ami/arm64/"),
        ("p3.2xlarge", "V100", "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/"),
        ("trn1.2xlarge", "Trainium", "/aws/service/neuron/dlami/base/"),
    ],
)
def test_a_type_gets_the_image_that_suits_it(kind: str, gpu: str, start: str) -> None:
    assert images.parameters_for(offer(kind, gpu=gpu))[0].startswith(start)


def test_images_are_looked_up_once_a_day(aws: Account) -> None:
    for _ in range(2):
        type(aws.cloud)().submit(aws.launch())
    assert len(aws.sent("GetParameters")) == len(aws.sent("DescribeImages")) == 1


def test_an_image_may_be_named_by_id_or_by_parameter(aws: Account) -> None:
    parameter = (
        "ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04"
        "/latest/ami-id"
    )
    for named in (parameter, f"resolve:{parameter}", "ami-0c0000000000dlami"):
        aws.cloud.submit(aws.launch(image=named))
        assert aws.sent()[-1]["ImageId"] == "ami-0c0000000000dlami"
    assert cause_of(aws, offer(), image="skypilot:gpu-ubuntu-2004") is Cause.BAD_REQUEST
    assert cause_of(aws, offer(), image="ssm:/no/such/parameter") is Cause.BAD_REQUEST
    assert cause_of(aws, offer(), image="ami-00000000000000000") is Cause.BAD_REQUEST


def test_who_may_not_ask_ssm_gets_the_image_by_its_name(aws: Account) -> None:
    for what, image in (
        (offer(GPU, gpu="A10G"), "ami-0c0000000000dlami"),
        (offer(), "ami-0a0000000000ubu24"),
        (offer("m7g.large"), "ami-0b0000000000ubu24"),
    ):
        aws.double.add_fault(
            "GetParameters", "error", code="AccessDeniedException", message="not allowed"
        )
        aws.cloud.submit(aws.launch(what))
        assert aws.sent()[-1]["ImageId"] == image


def test_an_image_that_was_withdrawn_is_looked_up_anew_and_only_once(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {
        "code": "InvalidAMIID.NotFound",
        "message": "The image id '[ami-0]' does not exist",
        "times": 2,
    }
    aws.cloud.submit(aws.launch())
    aws.double.add_fault("RunInstances", "error", **gone)
    assert cause_of(aws, offer()) is Cause.BAD_REQUEST, "it was looked up a moment ago"
    monkeypatch.setattr(images, "FRESH", -1.0)
    assert cause_of(aws, offer()) is Cause.TRANSIENT
    aws.cloud.submit(aws.launch())
    assert len(aws.sent("GetParameters")) == 2


def test_a_torn_file_of_kept_facts_costs_a_question_and_no_launch(aws: Account) -> None:
    aws.cloud.submit(aws.launch())
    fact_cache.path("images").write_text("{torn")
    aws.cloud.submit(aws.launch())
    assert len(aws.sent("GetParameters")) == 2
    assert fact_cache.read("images", "no such key") is None
    fact_cache.write("images", {"x": 1})
    assert fact_cache.read("images", "x") == 1
    assert fact_cache.read("images", "x", newer_than=-1) is None


@pytest.mark.parametrize(
    ("tier", "size", "wanted"),
    [
        ("", 100, {"VolumeType": "gp3", "VolumeSize": 100}),
        ("low", 4, {"VolumeType": "gp3", "VolumeSize": 8}),
        ("medium", 100, {"VolumeType": "gp3", "VolumeSize": 100, "Throughput": 220}),
        ("high", 100, {"VolumeType": "gp3", "VolumeSize": 100, "Iops": 6000, "Throughput": 400}),
        ("high", 8, {"VolumeType": "gp3", "VolumeSize": 8, "Iops": 4000, "Throughput": 400}),
        ("best", 100, {"VolumeType": "gp3", "VolumeSize": 100, "Iops": 16000, "Throughput": 1000}),
        ("ultra", 10, {"VolumeType": "io2", "VolumeSize": 60, "Iops": 60000}),
    ],
)
def test_disks_are_as_fast_as_their_tier(tier: str, size: int, wanted: dict[str, Any]) -> None:
    from aws_double import AwsDouble

    launch = Account(AwsDouble()).launch(disk_tier=tier, disk_gb=size)
    assert run_instances.disk(launch, IMAGE) == wanted | {"DeleteOnTermination": True}


def test_labels_are_made_such_as_ec2_takes_and_ours_are_never_lost() -> None:
    from aws_double import AwsDouble

    labels = {
        "aws:x": "1",
        "long": "v" * 300,
        "k" * 200: "2",
        "Name": "mine",
        SSH_PORT_LABEL: "2222",
        **{f"n{i}": "" for i in range(60)},
    }
    account = Account(AwsDouble())
    told = {tag["Key"]: tag["Value"] for tag in run_instances.tags(account.launch(tags=labels))}
    assert len(told) == 50
    assert (told["nbprov-owner"], told[SSH_PORT_LABEL], told["Name"], told["x-aws:x"]) == (
        account.owner,
        "2222",
        "mine",
        "1",
    )
    assert len(told["long"]) == 256
    assert max(map(len, told)) == 128


def test_an_account_without_a_default_network_gets_one_of_its_own(aws: Account) -> None:
    ec2 = boto3.client("ec2", region_name=BARE, endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    here = offer(region=BARE, zone="euw1-az2")
    (one,), (two,) = aws.up(here), aws.up(offer(region=BARE, zone="euw1-az1"))
    assert (one.place.zone, two.place.zone) == ("euw1-az2", "euw1-az1")
    assert all(sent["NetworkInterface.1.AssociatePublicIpAddress"] == "true" for sent in aws.sent())
    assert len(aws.sent("CreateVpc")) == 1
    (network,) = [o for o in aws.cloud.side_objects(aws.owner) if o.kind == "network"]
    assert (network.shared, network.region) == (True, BARE)
    (route,) = [
        r
        for t in ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [network.id]}])[
            "RouteTables"
        ]
        for r in t["Routes"]
        if r["DestinationCidrBlock"] == "0.0.0.0/0"
    ]
    assert route["GatewayId"].startswith("igw-")
    assert cause_of(aws, offer(region=BARE, zone="euw1-az9")) is Cause.NOT_OFFERED
    aws.cloud.terminate([one.id, two.id])
    assert {i.state for i in aws.cloud.list(aws.owner)} == {InstanceState.GONE}
    beside = [o for o in aws.cloud.side_objects(aws.owner) if o.region == BARE]
    assert aws.cloud.remove(beside) == []
    assert aws.cloud.side_objects(aws.owner) == []
    assert aws.cloud.remove([SideObject("aws", BARE, "network", network.id)]) == []


def test_no_disk_of_an_image_outlives_its_machine(aws: Account) -> None:
    (machine,) = aws.up(image="ami-0e0000000000disks")
    (sent,) = aws.sent()
    assert (
        sent["BlockDeviceMapping.2.DeviceName"],
        sent["BlockDeviceMapping.2.Ebs.DeleteOnTermination"],
    ) == ("/dev/sdb", "true")
    aws.cloud.submit(aws.launch(image="ami-0e0000000000disks"))
    assert aws.sent()[1]["BlockDeviceMapping.2.DeviceName"] == "/dev/sdb", (
        "what is remembered of the image says it as well"
    )
    aws.cloud.terminate([machine.id])
