"""The account check of AWS: credentials, missing permissions, and no imports without an account."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aws_double import SECRET
from aws_double_account import Account

from nbprov.clouds.aws import make
from nbprov.clouds.aws.account import clients
from nbprov.clouds.base import CHECK_SECONDS
from nbprov.model.failures import Cause, CloudError

pytest_plugins = ["aws_double_fixtures"]


@pytest.mark.usefixtures("unhurried")
def test_an_account_is_described_and_its_key_masked(aws: Account) -> None:
    aws.double.tell("settings", quotas={"L-417A185B": 0})
    told = aws.cloud.check()
    assert (told.enabled, told.account, told.problem) == (True, "123456789012", None)
    assert told.credential == "environment variables, key AKIA…MPLE"
    assert "quota in us-east-1, vCPUs on demand: Standard 512, G and VT 512, P 0" in told.details
    assert any(line.startswith("user: arn:aws:") for line in told.details)
    assert SECRET not in repr(told)
    assert ("use1-az6", "us-east-1a", "us-east-1") in told.zone_names
    assert {region for _, _, region in told.zone_names} == {"us-east-1", "eu-west-1"}


def test_without_credentials_nothing_is_imported_and_the_next_step_is_said() -> None:
    code = (
        "import sys; from nbprov.clouds.aws import make; told = make().check();"
        "print(told.enabled, told.problem.cause.value, 'aws configure' in "
        "told.problem.message, 'boto3' in sys.modules, 'botocore' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == ["False", "credentials", "True", "False", "False"]


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = (
        "import sys, nbprov.clouds.aws; print([m for m in ('boto3', 'botocore', 'requests', "
        "'nbprov.clouds.aws.provisioner') if m in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "[]"


@pytest.mark.usefixtures("unhurried")
def test_a_profile_is_named_and_a_new_one_taken_up_at_once(
    aws: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert aws.cloud.check().problem is not None
    file.write_text(
        "[work]\naws_access_key_id = "
        f"{aws.double.env['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    told = aws.cloud.check()
    assert told.enabled
    assert told.credential == "shared credentials file, profile work, key AKIA…MPLE"
    monkeypatch.setenv("AWS_PROFILE", "missing")
    told = aws.cloud.check()
    assert told.problem is not None
    assert told.problem.cause is Cause.CREDENTIALS
    assert "missing" in told.problem.message


@pytest.mark.usefixtures("unhurried")
def test_a_key_that_is_refused_is_said(aws: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAXXXXXXXXXXXXXXXX")
    told = aws.cloud.check()
    assert told.problem is not None
    assert (told.enabled, told.problem.cause) == (False, Cause.CREDENTIALS)
    assert told.credential == "environment variables, key AKIA…XXXX"


@pytest.mark.usefixtures("unhurried")
def test_a_permission_that_is_missing_in_one_region_does_not_shut_the_cloud(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "permission", dry=True)
    told = aws.cloud.check()
    assert told.enabled
    assert any(
        line.startswith(
            "a test of launch permissions was refused: ec2:RunInstances is not allowed to this "
            "user in us-east-1"
        )
        for line in told.details
    )


@pytest.mark.usefixtures("unhurried")
def test_a_permission_that_is_missing_everywhere_is_named(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "permission", dry=True, times=9)
    told = aws.cloud.check()
    assert told.problem is not None
    assert told.problem.cause is Cause.PERMISSION
    assert told.problem.message.startswith(
        "ec2:RunInstances is not allowed to this user in us-east-1"
    )


@pytest.mark.usefixtures("unhurried")
def test_who_may_not_even_list_the_regions_may_launch_nowhere(aws: Account) -> None:
    aws.double.add_fault("RunInstances", "permission", dry=True, times=9)
    aws.double.add_fault("DescribeRegions", "permission", times=9)
    told = aws.cloud.check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.message.startswith("ec2:RunInstances is not allowed to this user")


@pytest.mark.usefixtures("unhurried")
def test_a_refusal_that_is_not_of_ec2_does_not_shut_the_cloud(aws: Account) -> None:
    message = (
        "You are not authorized to perform this operation. User: arn:x is not authorized "
        "to perform: ssm:GetParameters on resource: arn:y"
    )
    aws.double.add_fault(
        "RunInstances", "error", code="UnauthorizedOperation", message=message, status=403, dry=True
    )
    told = aws.cloud.check()
    assert told.enabled
    assert any(
        "a test of launch permissions was refused: ssm:GetParameters" in line
        for line in told.details
    )


@pytest.mark.usefixtures("unhurried")
def test_quotas_that_may_not_be_read_are_said_and_no_more(aws: Account) -> None:
    aws.double.add_fault(
        "GetServiceQuota", "error", code="AccessDeniedException", message="no", times=9
    )
    told = make().check()
    assert told.enabled
    assert "quotas in us-east-1 could not be read: no" in told.details


def test_a_service_that_hangs_ends_the_check_in_time(aws: Account) -> None:
    aws.double.tell("settings", answer=30)
    began = time.monotonic()
    told = make().check()
    assert time.monotonic() - began < 20, (
        f"{CHECK_SECONDS:g} s and what a busy machine adds, and not the thirty that the answer "
        "takes"
    )
    assert told.problem is not None
    assert told.problem.cause is Cause.TRANSIENT


def test_a_credential_process_that_hangs_ends_the_check_in_time(
    aws: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "config"
    file.write_text(
        f"[default]\ncredential_process = {sys.executable} -c 'import time; time.sleep(14)'\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    began = time.monotonic()
    told = make().check()
    assert time.monotonic() - began < 12, "and not the fourteen seconds that the process takes"
    assert not told.enabled


@pytest.mark.usefixtures("unhurried")
def test_without_boto3_the_extra_is_named(aws: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbprov.clouds.aws.account.detection.sdk_is_there", lambda: False)
    told = make().check()
    assert told.problem is not None
    assert "pip install nbprov[aws]" in told.problem.message


@pytest.mark.usefixtures("unhurried")
def test_credentials_that_hang_cost_one_thread_and_not_each_that_asks(
    aws: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CREDENTIALS_SECONDS", 0.1)
    reading, go_on, opened = threading.Event(), threading.Event(), clients._open

    def hang() -> object:
        reading.set()
        go_on.wait(60)
        return opened()

    monkeypatch.setattr(clients, "_open", hang)
    ours = clients.AwsAccount()
    first = threading.Thread(target=ours.boto, daemon=True)
    first.start()
    assert reading.wait(30)
    with pytest.raises(CloudError, match="could not be read within") as raised:
        ours.boto()
    assert raised.value.failure.cause is Cause.TRANSIENT
    go_on.set()
    first.join(30)
    assert ours.boto() is not None
