"""EC2 machines: listed in all regions, ended, stopped, started, with open ports and side
objects.
"""

from __future__ import annotations

import os
from typing import Any

import boto3
import pytest
from aws_double_account import CPU, GPU, REGION, Account, offer

from nbprov.clouds.aws.account import clients
from nbprov.clouds.aws.instances import listing
from nbprov.clouds.aws.network.security_groups import covered
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, OnShutdown, SideObject
from nbprov.model.places import Market

pytest_plugins = ["aws_double_fixtures"]

STRANGER = "i-0123456789abcdef0"


def ec2(region: str = REGION) -> Any:
    return boto3.client("ec2", region_name=region, endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def failure(call: Any, *arguments: Any) -> Any:
    with pytest.raises(CloudError) as raised:
        call(*arguments)
    return raised.value.failure


def ssh_rules(aws: Account) -> set[str]:
    (group,) = [g for g in groups(aws) if not any(t["Key"] == "nbprov-token" for t in g["Tags"])]
    return {
        r.get("CidrIp") or r["CidrIpv6"]
        for p in group["IpPermissions"]
        if p.get("FromPort") == 22
        for r in [*p.get("IpRanges", []), *p.get("Ipv6Ranges", [])]
    }


def groups(aws: Account) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ec2().describe_security_groups(
        Filters=[{"Name": "tag:nbprov-owner", "Values": [aws.owner]}]
    )["SecurityGroups"]
    return found


def opened(aws: Account, token: str) -> set[tuple[int, int, str]]:
    own = [g for g in groups(aws) if {"Key": "nbprov-token", "Value": token} in g["Tags"]]
    return {
        (p["FromPort"], p["ToPort"], r.get("CidrIp") or r["CidrIpv6"])
        for g in own
        for p in g["IpPermissions"]
        for r in [*p.get("IpRanges", []), *p.get("Ipv6Ranges", [])]
    }


def test_machines_are_found_in_every_region(aws: Account) -> None:
    (here,), (there,) = aws.up(), aws.up(offer(region="eu-west-1", zone=""))
    assert {(i.id, i.place.region) for i in aws.cloud.list(aws.owner)} == {
        (here.id, REGION),
        (there.id, "eu-west-1"),
    }
    assert there.place.zone.startswith("euw1-az")
    assert type(aws.cloud)().list("nobody") == []


def test_a_region_that_cannot_be_listed_is_not_left_out(aws: Account) -> None:
    aws.up()
    aws.double.add_fault("DescribeInstances", "permission", where={"region": "eu-west-1"})
    told = failure(aws.cloud.list, aws.owner)
    assert told.cause is Cause.PERMISSION
    assert "eu-west-1 could not be listed" in told.message


def test_a_region_that_does_not_answer_in_time_is_not_left_out(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.up()
    aws.double.add_fault("DescribeInstances", "slow", seconds=0.6, where={"region": "eu-west-1"})
    told = failure(aws.cloud._listing.of_owner, aws.owner, 0.3)
    assert (told.cause, "eu-west-1" in told.message) == (Cause.TRANSIENT, True)


def test_regions_are_those_of_the_account_where_nobody_narrows_them(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBPROV_AWS_REGIONS")
    found = clients.AwsAccount()
    assert {"us-east-1", "eu-west-1", "ap-south-1"} <= set(found.regions())
    assert found.home() == "us-east-1"


def test_ends_go_to_the_regions_of_the_machines_even_for_another_kernel(aws: Account) -> None:
    (here,), (there,) = aws.up(), aws.up(offer(region="eu-west-1", zone=""))
    type(aws.cloud)().terminate([here.id, STRANGER, there.id, "not-an-id"])
    assert {i.state for i in aws.cloud.list(aws.owner)} == {InstanceState.GONE}


def test_one_unknown_id_keeps_no_other_machine_running(aws: Account) -> None:
    (machine,) = aws.up()
    aws.cloud._listing.note(REGION, [STRANGER])
    aws.cloud.terminate([STRANGER, machine.id])
    assert aws.shown(machine.id).state is InstanceState.GONE
    assert aws.shown(machine.id).failure is None, "somebody asked for it"
    assert [call["InstanceId.1"] for call in aws.sent("TerminateInstances")] == [
        STRANGER,
        machine.id,
    ]


def test_a_young_machine_that_ec2_does_not_know_yet_is_not_gone(aws: Account) -> None:
    aws.double.tell("settings", hide=30.0)
    made = aws.cloud.submit(aws.launch()).data["ids"]
    told = failure(aws.cloud.terminate, [made])
    assert (told.cause, made in told.message) == (Cause.TRANSIENT, True)


def test_an_old_machine_that_ec2_does_not_know_is_gone(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.double.tell("settings", hide=30.0)
    made = aws.cloud.submit(aws.launch()).data["ids"]
    monkeypatch.setattr(listing, "YOUNG", -1.0)
    aws.cloud.terminate([made])


def test_spot_machines_cannot_be_stopped_and_ended_ones_not_started(aws: Account) -> None:
    (spot,) = aws.up(offer(market=Market.SPOT))
    assert failure(aws.cloud.stop, [spot.id]).cause is Cause.BAD_REQUEST
    aws.cloud.terminate([spot.id])
    assert failure(aws.cloud.start, [spot.id]).cause is Cause.NOT_OFFERED
    assert failure(aws.cloud.start, [STRANGER]).cause is Cause.NOT_OFFERED


def test_a_stopped_machine_starts_again_and_what_runs_is_left_alone(aws: Account) -> None:
    (machine,) = aws.up(on_shutdown=OnShutdown.STOP)
    aws.cloud.stop([machine.id])
    assert aws.shown(machine.id).state is InstanceState.STOPPED
    aws.cloud.stop([machine.id])
    aws.double.add_fault("StartInstances", "capacity")
    assert failure(aws.cloud.start, [machine.id]).cause is Cause.CAPACITY
    assert len(aws.sent("StartInstances")) == 1
    aws.cloud.start([machine.id])
    aws.cloud.start([machine.id])
    assert aws.shown(machine.id).state is InstanceState.RUNNING
    assert (len(aws.sent("StartInstances")), len(aws.sent("StopInstances"))) == (2, 1)


def test_a_preempted_machine_says_so(aws: Account) -> None:
    (machine,) = aws.up(offer(market=Market.SPOT))
    aws.double.tell("preempt", id=machine.id)
    shown = aws.shown(machine.id)
    assert (shown.state, shown.reason) == (
        InstanceState.GONE,
        "Server.SpotInstanceTermination: Spot instance termination",
    )
    assert shown.failure is not None
    assert shown.failure.cause is Cause.SPOT


def test_only_the_callers_address_is_let_in(aws: Account) -> None:
    aws.up()
    assert ssh_rules(aws) == {"203.0.113.7/32"}
    (group,) = groups(aws)
    inner = [p for p in group["IpPermissions"] if p["UserIdGroupPairs"]]
    assert [(p["IpProtocol"], p["UserIdGroupPairs"][0]["GroupId"]) for p in inner] == [
        ("-1", group["GroupId"])
    ]
    assert len(group["IpPermissions"]) == 2


def test_an_address_that_changed_takes_the_place_of_the_old_one(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = aws.up()
    (group,) = groups(aws)
    strange = {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": "198.51.100.1/32", "Description": "mine"}],
    }
    ec2().authorize_security_group_ingress(GroupId=group["GroupId"], IpPermissions=[strange])
    assert not aws.cloud.admit([machine.id])
    for address in ("203.0.113.9", "203.0.113.0/24"):
        monkeypatch.setenv("NBPROV_MY_ADDRESS", address)
        assert type(aws.cloud)().admit([machine.id, STRANGER])
        assert not aws.cloud.admit([machine.id])
    assert ssh_rules(aws) == {"203.0.113.0/24", "198.51.100.1/32"}


def test_an_ipv6_address_does_not_lock_out_a_session(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = aws.up()
    before = ssh_rules(aws)
    monkeypatch.setenv("NBPROV_MY_ADDRESS", "2001:db8::7")
    assert failure(type(aws.cloud)().admit, [machine.id]).code == "ipv6"
    assert ssh_rules(aws) == before == {"203.0.113.7/32"}


def test_ports_are_opened_for_one_launch_and_nobody_else(aws: Account) -> None:
    (one,), (other,) = aws.up(ports=((8080, 8080),)), aws.up()
    everywhere = {"0.0.0.0/0", "::/0"}
    assert opened(aws, one.token) == {(8080, 8080, e) for e in everywhere}
    assert opened(aws, other.token) == set()
    aws.cloud.open_ports([other.id], [(8888, 8890)])
    aws.cloud.open_ports([other.id], [(8888, 8890)])
    assert opened(aws, other.token) == {(8888, 8890, e) for e in everywhere}
    aws.cloud.close_ports([one.id, other.id], [(8080, 8080), (8888, 8890)])
    assert opened(aws, one.token) == opened(aws, other.token) == set()
    assert failure(covered, [(0, 1)]).cause is Cause.BAD_REQUEST


def test_what_is_left_beside_machines_is_found_and_removed(aws: Account) -> None:
    (machine,) = aws.up(ports=((8080, 8080),))
    disk = ec2().create_volume(
        AvailabilityZone="us-east-1a",
        Size=1,
        TagSpecifications=[
            {
                "ResourceType": "volume",
                "Tags": [
                    {"Key": "nbprov-owner", "Value": aws.owner},
                    {"Key": "nbprov-token", "Value": "t"},
                ],
            }
        ],
    )["VolumeId"]
    found = {(o.kind, o.token, o.shared) for o in aws.cloud.side_objects(aws.owner)}
    assert found == {
        ("security-group", machine.token, False),
        ("security-group", "", True),
        ("volume", "t", False),
    }
    ours = [o for o in aws.cloud.side_objects(aws.owner) if not o.shared]
    left = aws.cloud.remove(ours)
    assert [(o.kind, o.token) for o in left] == [("security-group", machine.token)], (
        "a group with a machine in it cannot be removed"
    )
    aws.cloud.terminate([machine.id])
    assert aws.shown(machine.id).state is InstanceState.GONE
    assert aws.cloud.remove([*left, SideObject("aws", REGION, "volume", disk, "t")]) == []
    assert [o.shared for o in aws.cloud.side_objects(aws.owner)] == [True]


def test_a_machine_takes_its_disk_with_it(aws: Account) -> None:
    (machine,) = aws.up()
    mine = [{"Name": "tag:nbprov-owner", "Values": [aws.owner]}]
    assert len(ec2().describe_volumes(Filters=mine)["Volumes"]) == 1
    aws.cloud.terminate([machine.id])
    assert aws.shown(machine.id).state is InstanceState.GONE
    assert ec2().describe_volumes(Filters=mine)["Volumes"] == []


def test_an_open_spot_request_is_a_left_over(aws: Account) -> None:
    tags = [
        {
            "ResourceType": "spot-instances-request",
            "Tags": [{"Key": "nbprov-owner", "Value": aws.owner}],
        }
    ]
    made = ec2().request_spot_instances(
        SpotPrice="0.001",
        InstanceCount=1,
        LaunchSpecification={"ImageId": "ami-0a0000000000ubu24", "InstanceType": "m6i.large"},
        TagSpecifications=tags,
    )["SpotInstanceRequests"][0]["SpotInstanceRequestId"]
    aws.double.tell("open_spot_request", region=REGION, id=made)
    (found,) = [o for o in aws.cloud.side_objects(aws.owner) if o.kind == "spot-request"]
    assert found.id == made
    assert aws.cloud.remove([found]) == []
    assert [o for o in aws.cloud.side_objects(aws.owner) if o.kind == "spot-request"] == []


def test_the_console_is_read_and_of_nobody_it_is_empty(aws: Account) -> None:
    (machine,) = aws.up()
    assert "Linux version" in aws.cloud.console(machine.id)
    aws.double.add_fault(
        "GetConsoleOutput",
        "error",
        code="UnsupportedOperation",
        message="This instance type does not support retrieving the latest",
    )
    assert "Linux version" in aws.cloud.console(machine.id)
    assert aws.cloud.console(STRANGER) == ""


def test_the_spot_price_of_now_is_asked(aws: Account) -> None:
    aws.double.tell("settings", price=0.1234)
    quote = aws.cloud.quote(aws.launch(offer(market=Market.SPOT)).candidate)
    assert quote is not None
    assert quote.hourly == 123_400
    assert aws.sent("DescribeSpotPriceHistory")[0]["AvailabilityZone"] == "us-east-1a"


def test_the_on_demand_price_of_now_is_asked_once_in_a_while(aws: Account) -> None:
    aws.double.tell("settings", on_demand={CPU: [0.096]})
    for _ in range(2):
        quote = aws.cloud.quote(aws.launch().candidate)
        assert quote is not None
        assert (quote.hourly, quote.source) == (96_000, "AWS price list API")
    (asked,) = aws.sent("GetProducts")
    assert asked["ServiceCode"] == "AmazonEC2"
    filters = {f["Field"]: f["Value"] for f in asked["Filters"]}
    assert filters["instanceType"] == CPU
    assert filters["regionCode"] == REGION
    assert filters["capacitystatus"] == "Used"
    (call,) = [c for c in aws.double.tell("calls") if c["call"] == "GetProducts"]
    assert call["region"] == "us-east-1"


def test_a_type_with_two_list_prices_or_none_has_no_quote(aws: Account) -> None:
    aws.double.tell("settings", on_demand={CPU: [0.096, 0.2]})
    assert aws.cloud.quote(aws.launch().candidate) is None
    assert aws.cloud.quote(aws.launch(offer(GPU)).candidate) is None


def test_a_login_that_may_not_read_prices_is_asked_no_more(aws: Account) -> None:
    aws.double.add_fault("GetProducts", "permission", times=-1)
    assert aws.cloud.quote(aws.launch().candidate) is None
    assert aws.cloud.quote(aws.launch(offer(GPU)).candidate) is None
    assert len(aws.sent("GetProducts")) == 1


def test_an_unknown_state_counts_as_billed(aws: Account) -> None:
    (machine,) = aws.up()
    aws.double.tell("state", id=machine.id, state="hibernating")
    assert aws.shown(machine.id).state is InstanceState.UNKNOWN
    assert aws.shown(machine.id).state.is_billed
