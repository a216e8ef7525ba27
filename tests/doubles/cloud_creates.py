"""One create at each cloud, sent by the client that its adapter sends it with, to any server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.aws.account import clients as aws
from nbprov.clouds.gcp.account import clients as gcp
from nbprov.clouds.gcp.account.credentials import open_login
from nbprov.clouds.lambda_cloud import api as lambda_api
from nbprov.clouds.runpod.api import Api

KEY = "secret-key-1234567"
SECONDS = 5.0
IMPORTED = 60.0
"""Google's library is imported within the deadline of its first call."""


def log_in(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Set the variables that the clouds' clients read: logins of nobody, and this server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAxxxxxxxxxxxxxxxx")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("NBPROV_GCP_ENDPOINT", url)


def aws_create(url: str) -> object:
    """Send RunInstances."""
    return aws.AwsAccount().call(
        "us-east-1", "RunInstances", aws.CREATE, MinCount=1, MaxCount=1, ImageId="ami-1"
    )


def gcp_create(url: str) -> object:
    """Send instances.insert."""
    return gcp.Compute(open_login()).call(
        "Instances",
        "insert_unary",
        gcp.Deadline(IMPORTED),
        body=("instance_resource", "Instance", {"name": "one"}),
        creates="insert",
        zone="us-central1-a",
    )


def runpod_create(url: str) -> object:
    """Send a create of RunPod's."""
    api = Api(KeyAccess(url, KEY, "test"))
    return api.call("POST", "/v2/pods", {}, seconds=SECONDS, creates=True)


def lambda_create(url: str) -> object:
    """Send a launch of Lambda's."""
    access = KeyAccess(url, KEY, "test")
    return lambda_api.call(access, "POST", "/instances", {}, seconds=SECONDS, creates=True)


CREATES: list[Callable[[str], object]] = [aws_create, gcp_create, runpod_create, lambda_create]
"""Each takes the address of the server."""
