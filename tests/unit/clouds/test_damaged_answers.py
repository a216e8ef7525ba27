"""A create that arrived counts as sent, though its answer could not be decrypted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tls_double import TlsDouble

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.aws.account import clients as aws
from nbprov.clouds.gcp.account import clients as gcp
from nbprov.clouds.gcp.account.credentials import open_login
from nbprov.clouds.lambda_cloud import api as lambda_api
from nbprov.clouds.runpod.api import Api
from nbprov.model.failures import Cause, CloudError, Failure

KEY = "secret-key-1234567"


def aws_create(url: str) -> object:
    return aws.AwsAccount().call(
        "us-east-1", "RunInstances", aws.CREATE, MinCount=1, MaxCount=1, ImageId="ami-1"
    )


def gcp_create(url: str) -> object:
    return gcp.Compute(open_login()).call(
        "Instances",
        "insert_unary",
        gcp.Deadline(60),
        body=("instance_resource", "Instance", {"name": "one"}),
        creates="insert",
        zone="us-central1-a",
    )


def runpod_create(url: str) -> object:
    return Api(KeyAccess(url, KEY, "test")).call("POST", "/v2/pods", {}, seconds=5, creates=True)


def lambda_create(url: str) -> object:
    access = KeyAccess(url, KEY, "test")
    return lambda_api.call(access, "POST", "/instances", {}, seconds=5, creates=True)


CREATES: list[Callable[[str], object]] = [aws_create, gcp_create, runpod_create, lambda_create]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsDouble]:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAxxxxxxxxxxxxxxxx")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    with TlsDouble(tmp_path) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", made.url)
        monkeypatch.setenv("NBPROV_GCP_ENDPOINT", made.url)
        yield made


def failure(create: Callable[[str], object], server: TlsDouble) -> Failure:
    with pytest.raises(CloudError) as raised:
        create(server.url)
    return raised.value.failure


@pytest.mark.parametrize("create", CREATES)
def test_a_create_whose_answer_is_damaged_has_an_unknown_outcome(
    create: Callable[[str], object], server: TlsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(server.authority))
    assert failure(create, server).cause is Cause.UNKNOWN_OUTCOME
    (request,) = server.heard
    assert request.startswith(b"POST /")


@pytest.mark.parametrize("create", CREATES)
def test_a_create_for_a_server_that_nobody_vouches_for_is_not_sent(
    create: Callable[[str], object], server: TlsDouble
) -> None:
    assert failure(create, server).cause is Cause.TRANSIENT
    assert server.heard == []
