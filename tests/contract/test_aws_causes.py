"""AWS's real answers, labelled by hand, and boto3's exceptions are mapped to the right causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore import exceptions

from nbprov.clouds.aws import errors
from nbprov.clouds.aws.provisioner import AwsCloud
from nbprov.model.failures import Cause, Failure, Scope

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus" / "aws.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
OURS = {Cause.TIMEOUT}
"""Causes that no answer of AWS has: a create that comes too late is not sent."""


def failure(entry: dict[str, Any]) -> Failure:
    if entry["call"] == "state":
        return errors.of_state(entry["code"], entry["message"])
    said = {
        "Error": {"Code": entry["code"], "Message": entry["message"]},
        "ResponseMetadata": {"HTTPStatusCode": entry["status"], "HTTPHeaders": {}},
    }
    return AwsCloud().classify(exceptions.ClientError(said, entry["call"]))


def test_corpus_is_large_enough_and_says_where_each_answer_is_from() -> None:
    assert len(CORPUS) >= 60
    assert all(len(entry["source"]) > 10 for entry in CORPUS)
    assert len({(entry["code"], entry["message"], entry["call"]) for entry in CORPUS}) == len(
        CORPUS
    )


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: f"{e['code']}-{e['call']}-{e['cause']}")
def test_answer_means_what_its_label_says(entry: dict[str, Any]) -> None:
    said = failure(entry)
    scope = said.scope or said.rule.scope
    assert (said.cause.value, scope.value) == (entry["cause"], entry["scope"])
    assert said.code == entry["code"]
    assert said.message
    assert "Encoded authorization" not in said.message


def test_every_cause_that_aws_can_give_occurs() -> None:
    assert {Cause(entry["cause"]) for entry in CORPUS} == {*Cause} - OURS


def test_what_is_unknown_blocks_the_narrowest_place() -> None:
    unknown = [failure(entry) for entry in CORPUS if entry["cause"] == "unknown"]
    assert unknown
    assert all(said.rule.scope is Scope.OFFER for said in unknown)


def test_a_limit_of_nothing_is_known_as_such() -> None:
    limits = [
        failure(entry).limit_is_zero for entry in CORPUS if entry["code"] == "VcpuLimitExceeded"
    ]
    assert limits == [True, False, False]


@pytest.mark.parametrize(
    ("error", "call", "cause"),
    [
        (
            exceptions.ReadTimeoutError(endpoint_url="http://x"),
            "RunInstances",
            Cause.UNKNOWN_OUTCOME,
        ),
        (
            exceptions.ReadTimeoutError(endpoint_url="http://x"),
            "DescribeInstances",
            Cause.TRANSIENT,
        ),
        (
            exceptions.ConnectionClosedError(endpoint_url="http://x"),
            "RunInstances",
            Cause.UNKNOWN_OUTCOME,
        ),
        (exceptions.ConnectTimeoutError(endpoint_url="http://x"), "RunInstances", Cause.TRANSIENT),
        (
            exceptions.EndpointConnectionError(endpoint_url="http://x"),
            "RunInstances",
            Cause.TRANSIENT,
        ),
        (exceptions.NoCredentialsError(), "RunInstances", Cause.CREDENTIALS),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var="secret"),
            "",
            Cause.CREDENTIALS,
        ),
        (exceptions.ProfileNotFound(profile="work"), "", Cause.CREDENTIALS),
        (exceptions.UnauthorizedSSOTokenError(), "", Cause.CREDENTIALS),
        (
            exceptions.TokenRetrievalError(provider="sso", error_msg="expired"),
            "",
            Cause.CREDENTIALS,
        ),
        (exceptions.NoRegionError(), "", Cause.BAD_REQUEST),
        (exceptions.ConfigParseError(path="~/.aws/config"), "RunInstances", Cause.CREDENTIALS),
        (exceptions.RefreshWithMFAUnsupportedError(), "RunInstances", Cause.CREDENTIALS),
        (exceptions.MetadataRetrievalError(error_msg="x"), "RunInstances", Cause.CREDENTIALS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_exceptions_of_botocore_have_causes(error: Exception, call: str, cause: Cause) -> None:
    said = errors.failure_of_exception(error, call=call)
    assert said is not None
    assert said.cause is cause
    assert said.message


def test_a_refusal_by_botocore_does_not_repeat_the_start_script() -> None:
    report = (
        "Parameter validation failed:\nInvalid type for parameter UserData, value: "
        "['SECRET KEY'], type: <class 'list'>, valid types: x"
    )
    said = errors.failure_of_exception(exceptions.ParamValidationError(report=report))
    assert said is not None
    assert said.cause is Cause.BAD_REQUEST
    assert "SECRET" not in said.message
    assert "UserData" in said.message


def test_other_exceptions_go_by_the_general_rule() -> None:
    assert AwsCloud().classify(TimeoutError()).cause is Cause.UNKNOWN_OUTCOME
    assert AwsCloud().classify(ConnectionResetError("x")).cause is Cause.TRANSIENT
    assert AwsCloud().classify(KeyError("x")).cause is Cause.UNKNOWN
