"""The AWS double is as strict as EC2, and detects violations of AWS's models."""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Any

import boto3
import pytest
import requests
from aws_double import AwsDouble
from aws_double_account import REGION, Account
from aws_double_model import asked, wrong_answer, wrong_request
from botocore.config import Config
from botocore.exceptions import ClientError

pytest_plugins = ["aws_double_fixtures"]

IMAGE = "ami-0a0000000000ubu24"


def ec2() -> Any:
    config = Config(retries={"total_max_attempts": 1})
    # A session of its own, because boto3's default session keeps the first credentials it saw.
    return boto3.session.Session().client(
        "ec2", region_name=REGION, endpoint_url=os.environ["AWS_ENDPOINT_URL"], config=config
    )


def run(token: str, **changes: Any) -> list[str]:
    wanted = {
        "ImageId": IMAGE,
        "InstanceType": "m6i.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": token,
        **changes,
    }
    return [i["InstanceId"] for i in ec2().run_instances(**wanted)["Instances"]]


def code(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    return str(raised.value.response["Error"]["Code"])


def test_a_request_that_the_model_does_not_allow_is_a_problem() -> None:
    def told(body: str) -> str:
        call, parameters = asked("ec2", body.encode(), {})
        return " ".join(wrong_request("ec2", call, parameters))

    good = "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&ImageId=ami-1"
    assert told(good) == ""
    assert "Colour is not in the model" in told(f"{good}&Colour=red")
    assert "no integer" in told("Action=RunInstances&MinCount=one&MaxCount=1")
    assert "MaxCount" in told("Action=RunInstances&MinCount=1")
    assert "not among" in told(f"{good}&MetadataOptions.HttpTokens=perhaps")
    assert "is no list" in told(f"{good}&SecurityGroupId.2=sg-1")
    assert "no call MakeInstances" in told("Action=MakeInstances")
    assert wrong_request("ssm", "GetParameters", {"Names": ["x"]}) == []
    assert "Nams is not in the model" in " ".join(
        wrong_request("ssm", "GetParameters", {"Nams": ["x"]})
    )


def test_an_answer_that_the_model_does_not_have_is_a_problem() -> None:
    def told(inside: str) -> list[str]:
        return wrong_answer(
            "ec2",
            "DescribeRegions",
            f"<DescribeRegionsResponse><requestId>r</requestId>{inside}</DescribeRegionsResponse>".encode(),
        )

    assert told("<regionInfo><item><regionName>x</regionName></item></regionInfo>") == []
    assert told("<regions/>") == ["DescribeRegions: regions is not in the model"]
    assert told("<regionInfo><region/></regionInfo>") == [
        "DescribeRegions.Regions: region in the place of item"
    ]
    assert wrong_answer("service-quotas", "GetServiceQuota", b'{"Quota": {"Valu": 1}}') == [
        "GetServiceQuota.Quota.Valu is not in the model"
    ]


def test_a_run_that_broke_the_model_does_not_pass(aws: Account) -> None:
    with pytest.raises(AssertionError, match="no call Dance"):
        dance()


def dance() -> None:
    with AwsDouble() as other, contextlib.suppress(requests.ConnectionError):
        signed = {
            "Authorization": (
                f"AWS4-HMAC-SHA256 Credential={other.env['AWS_ACCESS_KEY_ID']}"
                "/20261122/us-east-1/ec2/aws4_request, x"
            )
        }
        requests.post(other.url, data={"Action": "Dance"}, headers=signed, timeout=60)


def test_two_doubles_name_their_machines_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for _ in range(2):
        with AwsDouble() as double:
            for name, value in double.env.items():
                monkeypatch.setenv(name, value)
            made += run(uuid.uuid4().hex)
    assert len(set(made)) == 2


def test_a_token_makes_machines_once(aws: Account) -> None:
    token = uuid.uuid4().hex
    made = run(token)
    assert run(token) == made
    assert code(run, token=token, InstanceType="m6i.xlarge") == "IdempotentParameterMismatch"
    assert run(uuid.uuid4().hex) != made
    ec2().terminate_instances(InstanceIds=made)
    assert (
        ec2().describe_instances(InstanceIds=made)["Reservations"][0]["Instances"][0]["State"][
            "Name"
        ]
        == "terminated"
    )
    assert code(run, token=token) == "IdempotentInstanceTerminated"
    assert code(ec2().start_instances, InstanceIds=made) == "IncorrectInstanceState"


def test_a_key_that_is_not_the_accounts_opens_nothing(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAXXXXXXXXXXXXXXXX")
    assert code(ec2().describe_regions) == "AuthFailure"


def test_a_trial_makes_nothing(aws: Account) -> None:
    assert code(run, token=uuid.uuid4().hex, DryRun=True) == "DryRunOperation"
    assert code(ec2().describe_images, ImageIds=["ami-00000000000000000"]) != "IncompleteSignature"


def test_start_scripts_are_blotted_out_of_what_was_asked(aws: Account) -> None:
    run(uuid.uuid4().hex, UserData="#!/bin/sh\necho canary\n")
    assert aws.sent()[-1]["UserData"] == "…"


def test_stock_runs_out_and_comes_back(aws: Account) -> None:
    aws.double.tell("stock", region=REGION, type="m6i.4xlarge", left=1)
    (one,) = run(uuid.uuid4().hex, InstanceType="m6i.4xlarge")
    assert (
        code(run, token=uuid.uuid4().hex, InstanceType="m6i.4xlarge")
        == "InsufficientInstanceCapacity"
    )
    ec2().terminate_instances(InstanceIds=[one])
    assert run(uuid.uuid4().hex, InstanceType="m6i.4xlarge")
