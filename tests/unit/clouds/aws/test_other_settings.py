"""Settings that change while machines run: account, regions, credentials. No machine looks gone."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from aws_double import OTHER_KEY_ID
from aws_double_account import Account, offer

from nbprov.clouds.aws.instances import launch_index
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import InstanceState

pytest_plugins = ["aws_double_fixtures"]


def failure(call: object, *arguments: object) -> Failure:
    with pytest.raises(CloudError) as raised:
        call(*arguments)  # type: ignore[operator]
    return raised.value.failure


def note_of(launch_token: str) -> launch_index.IndexedLaunch:
    note = launch_index.read(launch_token)
    assert note is not None
    return note


def test_a_machine_in_another_account_is_unknown_and_not_gone(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here,) = aws.up()
    for cloud in (aws.cloud, type(aws.cloud)()):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", OTHER_KEY_ID)
        (shown,) = cloud.list(aws.owner)
        assert (shown.id, shown.token, shown.state, shown.place.region) == (
            here.id,
            here.token,
            InstanceState.UNKNOWN,
            "us-east-1",
        )
        assert shown.state.is_billed
        assert "123456789012" in shown.reason
        told = failure(cloud.terminate, [here.id])
        assert (told.cause, here.id in told.message) == (Cause.CREDENTIALS, True)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", aws.double.env["AWS_ACCESS_KEY_ID"])
        assert [i.state for i in cloud.list(aws.owner)] == [InstanceState.RUNNING]


def test_another_account_has_machines_of_its_own_meanwhile(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here,) = aws.up()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OTHER_KEY_ID)
    there = aws.cloud.submit(aws.launch()).data["ids"]
    assert {i.id: i.state for i in aws.cloud.list(aws.owner)} == {
        here.id: InstanceState.UNKNOWN,
        there: InstanceState.RUNNING,
    }
    assert failure(aws.cloud.terminate, [here.id, there]).cause is Cause.CREDENTIALS
    assert aws.shown(there).state is InstanceState.GONE, "what can be ended is"


def test_a_create_is_not_sent_again_in_another_account(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = aws.launch()
    aws.double.add_fault("RunInstances", "lose_answer")
    assert failure(aws.cloud.submit, launch).cause is Cause.UNKNOWN_OUTCOME
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OTHER_KEY_ID)
    assert failure(type(aws.cloud)().submit, launch).cause is Cause.UNKNOWN_OUTCOME
    assert len(aws.sent()) == 1
    monkeypatch.undo()
    for name, value in aws.double.env.items():
        monkeypatch.setenv(name, value)


def test_fewer_regions_hide_no_machine(aws: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    (there,) = aws.up(offer(region="eu-west-1", zone=""))
    monkeypatch.setenv("NBPROV_AWS_REGIONS", "us-east-1")
    cloud = type(aws.cloud)()
    assert [(i.id, i.state) for i in cloud.list(aws.owner)] == [(there.id, InstanceState.RUNNING)]
    type(aws.cloud)().terminate([there.id])
    assert [i.state for i in cloud.list(aws.owner)] == [InstanceState.GONE]


def test_a_machine_whose_create_was_never_answered_is_found_in_a_region_that_is_looked_into_no_more(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = aws.launch(offer(region="eu-west-1", zone=""))
    aws.double.add_fault("RunInstances", "lose_answer")
    assert failure(aws.cloud.submit, launch).cause is Cause.UNKNOWN_OUTCOME
    monkeypatch.setenv("NBPROV_AWS_REGIONS", "us-east-1")
    (found,) = type(aws.cloud)().list(aws.owner)
    assert found.token == launch.token
    assert note_of(launch.token).ids == (found.id,)


def test_a_note_stays_while_a_machine_may_be_there_and_no_longer(aws: Account) -> None:
    (machine,) = aws.up()
    note = note_of(machine.token)
    assert (note.ids, note.account, note.region) == ((machine.id,), "123456789012", "us-east-1")
    aws.cloud.terminate([machine.id])
    aws.cloud.list(aws.owner)
    assert launch_index.read(machine.token) is not None, "its create is too young"
    launch_index.write(replace(note, at=time.time() - launch_index.LATE - 1))
    aws.cloud.list(aws.owner)
    assert launch_index.read(machine.token) is None


def test_a_create_that_was_refused_leaves_no_note(aws: Account) -> None:
    launch = aws.launch()
    aws.double.add_fault("RunInstances", "capacity")
    assert failure(aws.cloud.submit, launch).cause is Cause.CAPACITY
    assert launch_index.read(launch.token) is None


def test_credentials_that_change_in_the_middle_of_a_listing_make_it_none(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.up()
    listing = aws.cloud._listing
    whole = listing._in_all

    def changing(*arguments: object, **more: object) -> object:
        found = whole(*arguments, **more)  # type: ignore[arg-type]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", OTHER_KEY_ID)
        return found

    monkeypatch.setattr(listing, "_in_all", changing)
    assert failure(aws.cloud.list, aws.owner).cause is Cause.TRANSIENT


def test_a_machine_is_ended_though_nobody_says_whose_credentials_these_are(aws: Account) -> None:
    (machine,) = aws.up()
    aws.double.add_fault("GetCallerIdentity", "transient", times=9)
    type(aws.cloud)().terminate([machine.id])
    assert aws.shown(machine.id).state is InstanceState.GONE


def test_no_machine_is_made_that_could_not_be_noted(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert failure(aws.cloud.submit, aws.launch()).code == "no-disk"
    assert aws.sent() == []
    assert list(launch_index.folder().iterdir()) == [], "no draft is left"


def _power_cut(file: Path) -> None:
    file.write_bytes(b"")


def _torn(file: Path) -> None:
    file.write_text('{"token": "to', encoding="utf-8")


def _unreadable(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [_power_cut, _torn, _unreadable])
def test_nothing_is_concluded_where_a_note_cannot_be_read(
    aws: Account, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    (machine,) = aws.up()
    note = note_of(machine.token)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("AWS_ACCESS_KEY_ID", OTHER_KEY_ID)
        assert [i.state for i in aws.cloud.list(aws.owner)] == [InstanceState.UNKNOWN]
        damage(note.path())
        told = failure(aws.cloud.list, aws.owner)
        assert (told.cause, told.code) == (Cause.TRANSIENT, "unreadable-record")
        assert str(note.path()) in told.message
    aws.cloud.terminate([machine.id])  # a machine is ended all the same
    (note.path().rmdir if note.path().is_dir() else note.path().unlink)()
    assert aws.shown(machine.id).state is InstanceState.GONE


def test_nothing_is_concluded_where_the_notes_cannot_be_listed(aws: Account) -> None:
    aws.up()
    launch_index.folder().rename(launch_index.folder().with_name("moved"))
    assert aws.cloud.list(aws.owner), "no note was ever made"
    launch_index.folder().write_text("in the way", encoding="utf-8")
    assert failure(aws.cloud.list, aws.owner).cause is Cause.TRANSIENT
    assert failure(aws.cloud.submit, aws.launch()).cause is Cause.TRANSIENT
    launch_index.folder().unlink()


def test_a_strange_note_is_none(aws: Account) -> None:
    launch = aws.launch()
    launch_index.write(launch_index.IndexedLaunch(launch.token, aws.owner, "us-east-1"))
    (launch_index.folder() / "other.json").write_text('{"token": "x", "ids": [], "at": 0}')
    assert [n.token for n in launch_index.of_owner(aws.owner)] == [launch.token]
    assert (
        failure(
            launch_index.write, launch_index.IndexedLaunch("../x", aws.owner, "us-east-1")
        ).cause
        is Cause.BAD_REQUEST
    )
    assert launch_index.read("../x") is None


def test_a_user_who_may_not_use_some_regions_is_told_before_a_launch(
    aws: Account, unhurried: None
) -> None:
    words = (
        "You are not authorized to perform this operation, with an explicit deny in a "
        "service control policy"
    )
    aws.double.add_fault(
        "DescribeAvailabilityZones",
        "error",
        code="UnauthorizedOperation",
        message=words,
        status=403,
        where={"region": "eu-west-1"},
    )
    told = type(aws.cloud)().check()
    assert told.problem is not None
    assert (told.problem.cause, "eu-west-1" in told.problem.message) == (Cause.PERMISSION, True)
    assert "NBPROV_AWS_REGIONS" in told.problem.message


def test_what_a_user_sets_for_retries_does_not_repeat_a_create(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    aws.double.add_fault("RunInstances", "capacity", times=7)
    assert failure(aws.cloud.submit, aws.launch()).cause is Cause.CAPACITY
    assert len(aws.sent()) == 1


def test_a_part_of_the_machines_of_a_used_token_is_no_refusal(aws: Account) -> None:
    launch = aws.launch(count=2)
    aws.double.add_fault("RunInstances", "hide", seconds=600)
    made = aws.cloud.submit(launch).data["ids"].split(",")
    changed = replace(launch, disk_gb=20)
    aws.double.tell("show", id=made[0])
    told = failure(aws.cloud.submit, changed)
    assert (told.cause, "only 1 of its 2 machines are listed so far" in told.message) == (
        Cause.UNKNOWN_OUTCOME,
        True,
    )
    aws.double.tell("show", id=made[1])
    assert aws.cloud.submit(changed).data["ids"].split(",") == made
    assert failure(aws.cloud.submit, replace(launch, count=3)).cause is Cause.BAD_REQUEST


def test_a_young_machine_is_not_gone_for_another_kernel_either(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "hide", seconds=600)
    made = aws.cloud.submit(aws.launch()).data["ids"]
    told = failure(type(aws.cloud)().terminate, [made])
    assert (told.cause, made in told.message) == (Cause.TRANSIENT, True)
    aws.double.tell("show", id=made)


def test_one_machine_that_is_protected_keeps_no_other_running(aws: Account) -> None:
    one, two = aws.up(count=2)
    words = (
        f"The instance '{one.id}' may not be terminated. Modify its "
        "'disableApiTermination' instance attribute and try again."
    )
    aws.double.add_fault(
        "TerminateInstances", "error", code="OperationNotPermitted", message=words, times=2
    )
    assert failure(aws.cloud.terminate, [one.id, two.id]).cause is Cause.PERMISSION
    assert [aws.shown(i.id).state for i in (one, two)] == [
        InstanceState.RUNNING,
        InstanceState.GONE,
    ]


def test_a_network_that_was_left_half_made_is_finished(aws: Account) -> None:
    region = "eu-west-1"
    ec2 = boto3.client("ec2", region_name=region, endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    aws.double.add_fault(
        "AttachInternetGateway", "error", code="UnauthorizedOperation", message="no", status=403
    )
    assert (
        failure(aws.cloud.submit, aws.launch(offer(region=region, zone=""))).cause
        is Cause.PERMISSION
    )
    aws.double.add_fault(
        "CreateRoute", "error", code="UnauthorizedOperation", message="no", status=403
    )
    assert (
        failure(aws.cloud.submit, aws.launch(offer(region=region, zone=""))).cause
        is Cause.PERMISSION
    )
    aws.up(offer(region=region, zone=""))
    assert len(aws.sent("CreateVpc")) == len(aws.sent("CreateInternetGateway")) == 1
    (network,) = [o for o in aws.cloud.side_objects(aws.owner) if o.kind == "network"]
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [network.id]}])[
        "RouteTables"
    ]
    assert [
        r["GatewayId"][:4]
        for t in tables
        for r in t["Routes"]
        if r["DestinationCidrBlock"] == "0.0.0.0/0"
    ] == ["igw-"]


def test_the_port_of_sshd_is_never_opened_to_the_internet(aws: Account) -> None:
    (machine,) = aws.up(ports=((20, 25),))
    aws.cloud.open_ports([machine.id], [(22, 22), (1, 100)])
    ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    rules = [
        (p["FromPort"], p["ToPort"])
        for g in ec2.describe_security_groups(
            Filters=[{"Name": "tag:nbprov-owner", "Values": [aws.owner]}]
        )["SecurityGroups"]
        for p in g["IpPermissions"]
        for r in [*p.get("IpRanges", []), *p.get("Ipv6Ranges", [])]
        if r.get("CidrIp") == "0.0.0.0/0" or r.get("CidrIpv6") == "::/0"
    ]
    assert sorted(set(rules)) == [(1, 21), (20, 21), (23, 25), (23, 100)]
    aws.cloud.close_ports([machine.id], [(1, 100), (20, 25)])
    assert "22" not in str(rules)


def test_containers_on_the_machine_cannot_ask_for_the_start_script(aws: Account) -> None:
    aws.cloud.submit(aws.launch())
    (sent,) = aws.sent()
    assert (
        sent["MetadataOptions.HttpTokens"],
        sent["MetadataOptions.HttpPutResponseHopLimit"],
    ) == ("required", "1")
