"""What the network in front of a provider says, and APIs that were retired."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from nbprov.clouds.aws import errors as aws
from nbprov.clouds.gcp import errors as gcp
from nbprov.clouds.lambda_cloud import errors as lambda_errors
from nbprov.clouds.runpod import errors as runpod
from nbprov.clouds.web.edge import edge_failure
from nbprov.model.failures import Cause, Failure, Scope


@pytest.mark.parametrize("code", [1006, 1020])
def test_a_standing_ban_stops_creates_at_this_cloud(code: int) -> None:
    found = edge_failure("no", f"error code: {code}", 403, creates=True)
    assert (found.cause, found.scope) == (Cause.PERMISSION, Scope.ACCOUNT)


@pytest.mark.parametrize("body", ["error code: 1020", "<title>Just a moment...</title>"])
def test_what_ends_a_machine_is_asked_again(body: str) -> None:
    assert edge_failure("no", body, 403).cause is Cause.TRANSIENT


def test_a_page_to_a_create_says_that_it_meets_all_of_the_cloud() -> None:
    page = "<html><title>Blocked</title></html>"
    assert edge_failure("no", page, 403, creates=True).scope is Scope.ACCOUNT
    assert edge_failure("no", page, 403).scope is None
    assert edge_failure("no", "error code: 1015", 403, creates=True).scope is None


RETIRED: list[Failure] = [
    aws.failure_of(str(HTTPStatus.GONE), "Gone", status=HTTPStatus.GONE, call="RunInstances"),
    gcp.failure_of(gcp.GoogleRefusal(HTTPStatus.GONE, (), "Gone"), call="insert"),
    lambda_errors.failure_of(HTTPStatus.GONE, '{"detail": "Gone"}', creates=True),
    lambda_errors.failure_of(404, '{"detail": "Not Found"}', creates=True),
    lambda_errors.failure_of(405, '{"detail": "Method Not Allowed"}', creates=True),
    runpod.failure_of(HTTPStatus.GONE, '{"title": "Gone"}', path="/v2/pods", creates=True),
]


@pytest.mark.parametrize("found", RETIRED, ids=str)
def test_an_api_that_is_not_there_leaves_out_its_cloud(found: Failure) -> None:
    assert (found.cause, found.scope) == (Cause.BAD_REQUEST, Scope.ACCOUNT)


def test_a_key_that_aws_quarantined_is_to_be_replaced() -> None:
    words = "not authorized: explicit deny: arn:aws:iam::aws:policy/AWSCompromisedKeyQuarantineV3"
    found = aws.failure_of("UnauthorizedOperation", words, status=403, call="RunInstances")
    assert (found.cause, found.scope) == (Cause.PERMISSION, Scope.ACCOUNT)
    assert "replace it" in found.message
