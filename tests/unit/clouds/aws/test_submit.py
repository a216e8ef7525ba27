"""Creates at EC2: the request, its repeats, and the outcome of every answer."""

from __future__ import annotations

import dataclasses
import os
import time

import boto3
import pytest
from aws_double_account import CPU, GPU, REGION, Account, offer

from nbprov.clouds.aws.account import clients, fact_cache
from nbprov.clouds.base import SSH_PORT_LABEL
from nbprov.model.failures import Cause, CloudError, Scope
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    InstanceState,
    Launch,
    OnShutdown,
    Refused,
)
from nbprov.model.places import Market

pytest_plugins = ["aws_double_fixtures"]


def refused(aws: Account, launch: Launch) -> Cause:
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(launch)
    return raised.value.failure.cause


def tags_sent(sent: dict[str, str], number: int) -> dict[str, str]:
    found = {}
    index = 1
    while key := sent.get(f"TagSpecification.{number}.Tag.{index}.Key"):
        found[key] = sent.get(f"TagSpecification.{number}.Tag.{index}.Value", "")
        index += 1
    return found


def test_one_create_says_all_there_is_to_say(aws: Account) -> None:
    launch = aws.launch(count=2, tags={"team": "vision", "nbprov-owner": aws.owner})
    aws.cloud.submit(launch)
    (sent,) = aws.sent()
    assert (sent["MinCount"], sent["MaxCount"], sent["ClientToken"]) == ("2", "2", launch.token)
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert sent["MetadataOptions.HttpTokens"] == "required"
    disk = {
        key.rpartition(".")[2]: value
        for key, value in sent.items()
        if key.startswith("BlockDeviceMapping.1.Ebs.")
    }
    assert disk == {"VolumeType": "gp3", "VolumeSize": "10", "DeleteOnTermination": "true"}
    assert sent["BlockDeviceMapping.1.DeviceName"] == "/dev/sda1"
    assert [sent["TagSpecification.1.ResourceType"], sent["TagSpecification.2.ResourceType"]] == [
        "instance",
        "volume",
    ]
    wanted = {
        "nbprov-owner": aws.owner,
        "nbprov-token": launch.token,
        "nbprov-run": "run-1",
        "nbprov-name": "dev",
        "Name": "dev",
        "team": "vision",
    }
    assert tags_sent(sent, 1) == tags_sent(sent, 2) == wanted
    assert "InstanceMarketOptions.MarketType" not in sent


def test_a_spot_machine_is_asked_for_once_and_without_a_highest_price(aws: Account) -> None:
    (machine,) = aws.up(offer(market=Market.SPOT), on_shutdown=OnShutdown.STOP)
    (sent,) = aws.sent()
    spot = {
        key.removeprefix("InstanceMarketOptions."): value
        for key, value in sent.items()
        if key.startswith("InstanceMarketOptions.")
    }
    assert spot == {
        "MarketType": "spot",
        "SpotOptions.SpotInstanceType": "one-time",
        "SpotOptions.InstanceInterruptionBehavior": "terminate",
    }
    assert sent["TagSpecification.3.ResourceType"] == "spot-instances-request"
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert machine.spot


def test_a_disk_that_is_kept_is_kept_when_the_machine_powers_itself_off(aws: Account) -> None:
    aws.cloud.submit(aws.launch(on_shutdown=OnShutdown.STOP))
    assert aws.sent()[0]["InstanceInitiatedShutdownBehavior"] == "stop"


def test_a_gpu_machine_gets_the_image_with_the_driver_and_a_disk_it_fits_on(aws: Account) -> None:
    (machine,) = aws.up(offer(GPU, gpu="A10G"))
    (sent,) = aws.sent()
    assert sent["ImageId"] == "ami-0c0000000000dlami"
    assert sent["BlockDeviceMapping.1.Ebs.VolumeSize"] == "75"
    assert (machine.user, machine.port, machine.place.zone) == ("ubuntu", 22, "use1-az6")


def test_a_repeat_is_the_same_to_the_byte_though_the_address_changed(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = aws.launch()
    first = aws.cloud.submit(launch)
    monkeypatch.setenv("NBPROV_MY_ADDRESS", "198.51.100.4")
    again = type(aws.cloud)().submit(dataclasses.replace(launch, answer_by=time.time() + 60))
    one, two = aws.sent()
    assert one == two
    assert again.data["ids"] == first.data["ids"]


def test_a_computer_that_could_never_reach_a_machine_is_told_before_one_is_made(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_MY_ADDRESS", "2001:db8::7")
    with pytest.raises(CloudError, match="set NBPROV_MY_ADDRESS to its public IPv4") as raised:
        aws.cloud.submit(aws.launch())
    told = raised.value.failure
    assert (told.cause, told.scope) == (Cause.BAD_REQUEST, Scope.ACCOUNT)
    assert aws.sent() == []


def test_a_repeat_that_came_out_different_finds_what_the_first_one_made(aws: Account) -> None:
    launch = aws.launch()
    first = aws.cloud.submit(launch)
    fact_cache.write("images", dict.fromkeys(json_keys("images"), "ami-0c0000000000dlami"))
    again = type(aws.cloud)().submit(launch)
    assert aws.sent()[0]["ImageId"] != aws.sent()[1]["ImageId"]
    assert again.data["ids"] == first.data["ids"]
    assert len(aws.cloud.list(aws.owner)) == 1


def json_keys(name: str) -> list[str]:
    import json

    return list(json.loads(fact_cache.path(name).read_text()))


def test_a_repeat_that_came_out_different_and_finds_nothing_yet_is_undecided(aws: Account) -> None:
    aws.double.tell("settings", hide=30.0)
    launch = aws.launch()
    aws.cloud.submit(launch)
    assert refused(aws, dataclasses.replace(launch, disk_gb=20)) is Cause.UNKNOWN_OUTCOME


def test_a_token_whose_machine_has_ended_leads_back_to_that_machine(aws: Account) -> None:
    launch = aws.launch()
    operation = aws.cloud.submit(launch)
    aws.cloud.terminate(operation.data["ids"].split(","))
    assert aws.shown(operation.data["ids"]).state is InstanceState.GONE
    assert aws.cloud.submit(launch).data["ids"] == operation.data["ids"]


def test_a_refusal_for_want_of_capacity_is_not_tried_again_by_botocore(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "capacity", times=5)
    assert refused(aws, aws.launch()) is Cause.CAPACITY
    assert len(aws.sent()) == 1


def test_a_page_of_something_on_the_way_leaves_the_outcome_open(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "html")
    assert refused(aws, aws.launch()) is Cause.UNKNOWN_OUTCOME


def test_an_answer_that_takes_too_long_leaves_the_outcome_open(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(clients._BOUNDS, clients.CREATE, (1.0, 0.4, 1))  # type: ignore[index]
    aws.double.add_fault("RunInstances", "slow", seconds=1.2)
    launch = aws.launch()
    assert refused(aws, launch) is Cause.UNKNOWN_OUTCOME
    monkeypatch.undo()
    for name, value in aws.double.env.items():
        monkeypatch.setenv(name, value)
    operation = type(aws.cloud)().submit(launch)
    assert len([i for i in aws.cloud.list(aws.owner) if i.token == launch.token]) == 1
    assert operation.data["ids"]


def test_a_service_that_cannot_be_reached_was_asked_for_nothing(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert refused(aws, aws.launch()) is Cause.TRANSIENT


def test_disks_are_left_untagged_only_where_tagging_them_is_refused(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "volume_tags")
    (machine,) = aws.up()
    whole, less = aws.sent()
    assert "TagSpecification.2.ResourceType" in whole
    assert "TagSpecification.2.ResourceType" not in less
    assert tags_sent(less, 1)["nbprov-token"] == machine.token


def test_a_permission_that_is_missing_altogether_is_named(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "permission", times=2)
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(aws.launch())
    assert raised.value.failure.cause is Cause.PERMISSION
    assert "ec2:RunInstances" in raised.value.failure.message
    assert len(aws.sent()) == 1


def test_machines_that_ec2_takes_back_are_a_refusal_with_its_reason(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "late_failure")
    launch = aws.launch()
    operation = aws.cloud.submit(launch)
    result = aws.cloud.poll(operation)
    while not isinstance(result, Refused):
        assert not isinstance(result, Accepted)
        result = aws.cloud.poll(operation)
    assert result.failure.cause is Cause.CAPACITY
    (machine,) = [i for i in aws.cloud.list(aws.owner) if i.token == launch.token]
    assert (machine.state, machine.reason) == (
        InstanceState.GONE,
        "Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request",
    )
    assert machine.failure is not None
    assert machine.failure.cause is Cause.CAPACITY


def test_a_fresh_machine_that_is_not_listed_yet_is_no_refusal(aws: Account) -> None:
    aws.double.tell("settings", hide=30.0)
    launch = aws.launch()
    operation = aws.cloud.submit(launch)
    assert aws.cloud.list(aws.owner) == []
    assert type(aws.cloud)().poll(operation) == Accepted((operation.data["ids"],))
    aws.double.tell("settings", hide=0.0)


def test_a_machine_that_somebody_ended_was_accepted_all_the_same(aws: Account) -> None:
    operation = aws.cloud.submit(aws.launch())
    aws.cloud.terminate([operation.data["ids"]])
    assert aws.cloud.poll(operation) == Accepted((operation.data["ids"],))


def test_an_operation_without_data_is_answered_from_all_regions(aws: Account) -> None:
    launch = aws.launch(offer(region="eu-west-1", zone=""))
    made = aws.cloud.submit(launch)
    assert aws.cloud.poll(CreateOperation("aws", launch.token, "")) == Accepted((made.data["ids"],))
    assert isinstance(aws.cloud.poll(CreateOperation("aws", "f" * 32, "")), Refused)


def test_a_create_that_comes_too_late_is_not_sent(aws: Account) -> None:
    assert refused(aws, aws.launch(answer_by=time.time() - 1)) is Cause.TIMEOUT
    assert aws.sent() == []


def test_zones_are_known_by_id_and_by_name_and_may_be_left_open(aws: Account) -> None:
    for zone in ("use1-az6", "us-east-1a", ""):
        (machine,) = aws.up(offer(zone=zone))
        assert machine.place.zone.startswith("use1-az")
    named = [sent.get("SubnetId") for sent in aws.sent()]
    assert named[0] == named[1] is not None
    assert named[2] is None, "EC2 chooses a zone that sells the type and has it"
    assert aws.sent()[2]["SecurityGroupId.1"] == aws.sent()[0]["SecurityGroupId.1"]
    assert refused(aws, aws.launch(offer(zone="use1-az99"))) is Cause.NOT_OFFERED


def test_a_region_that_is_not_enabled_is_no_matter_of_credentials(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_AWS_REGIONS", "us-east-1 xx-north-9")
    aws.double.add_fault("DescribeSubnets", "credentials")
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(aws.launch(offer(region="xx-north-9", zone="")))
    assert (raised.value.failure.cause, raised.value.failure.scope) == (
        Cause.PERMISSION,
        Scope.REGION,
    )
    assert "xx-north-9 is not enabled" in raised.value.failure.message


def test_nothing_is_launched_where_it_would_not_be_listed(aws: Account) -> None:
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(aws.launch(offer(region="us-west-2", zone="")))
    assert (raised.value.failure.cause, raised.value.failure.scope) == (
        Cause.NOT_OFFERED,
        Scope.REGION,
    )
    assert "NBPROV_AWS_REGIONS" in raised.value.failure.message
    assert aws.sent() == []


def test_a_type_that_ec2_does_not_know_is_not_offered(aws: Account) -> None:
    aws.double.add_fault(
        "RunInstances",
        "error",
        code="InvalidParameterValue",
        message="Invalid value 'p5.48xlarge' for InstanceType.",
    )
    with pytest.raises(CloudError) as raised:
        aws.cloud.submit(aws.launch(offer("p5.48xlarge")))
    assert (raised.value.failure.cause, raised.value.failure.scope) == (
        Cause.NOT_OFFERED,
        Scope.REGION,
    )


def test_a_start_script_that_is_too_long_is_not_sent(aws: Account) -> None:
    assert refused(aws, aws.launch(user_data_template="x" * 17_000)) is Cause.BAD_REQUEST
    assert aws.sent() == []


def test_an_image_with_sshd_elsewhere_is_entered_there(aws: Account) -> None:
    (machine,) = aws.up(
        tags={SSH_PORT_LABEL: "2222", "nbprov-login": "core"}, image="ami-0a0000000000ubu24"
    )
    assert (machine.user, machine.port) == ("core", 2222)
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "tag:nbprov-owner", "Values": [aws.owner]}]
    )["SecurityGroups"]
    opened = {
        (p["FromPort"], r["CidrIp"]) for p in group["IpPermissions"] for r in p.get("IpRanges", [])
    }
    assert opened == {(22, "203.0.113.7/32"), (2222, "203.0.113.7/32")}


def test_the_fast_network_is_given_to_types_that_have_it(aws: Account) -> None:
    for kind, card in (("c5n.18xlarge", "efa"), (CPU, None)):
        aws.cloud.submit(aws.launch(offer(kind), network_best=True))
        assert aws.sent()[-1].get("NetworkInterface.1.InterfaceType") == card
    assert aws.sent("AuthorizeSecurityGroupEgress")


def test_no_secret_is_in_anything_that_is_shown(
    aws: Account, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    launch = aws.launch()
    aws.double.add_fault("RunInstances", "lose_answer")
    with pytest.raises(CloudError) as lost:
        aws.cloud.submit(launch)
    operation = aws.cloud.submit(launch)
    import base64

    encoded = base64.b64encode(launch.user_data().encode()).decode()
    for told in (str(lost.value), repr(lost.value.__dict__), repr(operation), caplog.text):
        assert "canary" not in told
        assert encoded not in told
        assert encoded[:20] not in told
    assert lost.value.__cause__ is None
    assert lost.value.__suppress_context__
