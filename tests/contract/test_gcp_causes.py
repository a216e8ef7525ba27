"""Google's real answers, labelled by hand, are mapped to the right causes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions as core
from google.auth import exceptions as auth
from google.protobuf.json_format import ParseError

from nbprov.clouds.gcp import errors
from nbprov.clouds.gcp.provisioner import GcpCloud
from nbprov.model.failures import Cause, Failure, Scope

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus" / "gcp.jsonl").read_text().splitlines()
]
LEAST = 0.95


def failure(row: dict[str, Any]) -> Failure:
    """Return the adapter's failure for a row, read in the way that such an answer arrives."""
    spot = row["market"] == "spot"
    if row.get("form") == "token":
        error = auth.RefreshError(
            f"{row['reason_or_code']}: {row['message']}", {"error": row["reason_or_code"]}
        )
        return GcpCloud().classify(error)
    if not row["http"]:
        entry: dict[str, Any] = {"code": row["reason_or_code"], "message": row["message"]}
        if "zones_available" in row:
            entry["errorDetails"] = [
                {
                    "errorInfo": {
                        "reason": "resource_availability",
                        "metadatas": {"zonesAvailable": row["zones_available"]},
                    }
                }
            ]
        operation = {"status": "DONE", "httpErrorStatusCode": 503, "error": {"errors": [entry]}}
        return errors.worst_of(errors.said_of_operation(operation), call=row["call"], spot=spot)
    response = requests.Response()
    response.status_code = row["http"]
    response.request = requests.Request(
        "POST", "https://compute.googleapis.com/compute/v1/x"
    ).prepare()
    if row.get("form") == "html":
        response._content = f"<html><title>{row['message']}</title></html>".encode()
    else:
        entry = {"message": row["message"], "domain": "global", "reason": row["reason_or_code"]}
        body = {"error": {"code": row["http"], "message": row["message"], "errors": [entry]}}
        response._content = json.dumps(body).encode()
    found = errors.failure_of_exception(
        core.from_http_response(response), call=row["call"], spot=spot
    )
    assert found is not None
    return found


def fits(row: dict[str, Any]) -> bool:
    """Whether a row gets its label: cause, scope, and for quotas whether the limit is zero."""
    found = failure(row)
    scope = Scope(row["scope"]) if row["scope"] else None
    return (
        found.cause is Cause(row["cause"])
        and found.scope is scope
        and found.limit_is_zero is row.get("limit_is_zero", False)
    )


def test_corpus_is_classified_as_labelled() -> None:
    assert len(ROWS) >= 60
    wrong = [
        (row["reason_or_code"], row["message"][:60], row["cause"], failure(row))
        for row in ROWS
        if not fits(row)
    ]
    assert 1 - len(wrong) / len(ROWS) >= LEAST, wrong


def test_unknown_is_only_what_was_labelled_so_and_then_narrow() -> None:
    for row in ROWS:
        found = failure(row)
        assert (found.cause is Cause.UNKNOWN) == (row["cause"] == "unknown"), row
        if found.cause is Cause.UNKNOWN:
            assert found.rule.scope is Scope.OFFER


def test_corpus_holds_every_cause_that_a_cloud_gives() -> None:
    of_the_cloud = set(Cause) - {Cause.UNHEALTHY, Cause.TIMEOUT}
    assert {Cause(row["cause"]) for row in ROWS} == of_the_cloud


def test_every_row_has_a_source_and_is_there_once() -> None:
    assert all(row["source"] for row in ROWS)
    again = Counter(
        (row["http"], row["reason_or_code"], row["message"], row["call"], row["market"])
        for row in ROWS
    )
    assert [key for key, times in again.items() if times > 1] == []


def test_zones_that_google_names_are_told() -> None:
    row = next(row for row in ROWS if "zones_available" in row)
    assert "us-central1-f" in failure(row).message


def test_one_reason_is_found_among_several() -> None:
    several = [
        {
            "code": "VM_MIN_COUNT_NOT_REACHED",
            "message": "Requested minimum count of 2 VMs could not be created.",
        },
        {
            "code": "QUOTA_EXCEEDED",
            "message": "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-east1.",
        },
    ]
    found = errors.worst_of(
        errors.said_of_operation({"error": {"errors": several}}), call="bulkInsert"
    )
    assert (found.cause, found.code) == (Cause.QUOTA, "QUOTA_EXCEEDED")


@pytest.mark.parametrize(
    ("error", "asked", "created"),
    [
        (requests.exceptions.ReadTimeout("read timed out"), Cause.TRANSIENT, Cause.UNKNOWN_OUTCOME),
        (requests.exceptions.ConnectTimeout("connect timed out"), Cause.TRANSIENT, Cause.TRANSIENT),
        (
            requests.exceptions.ConnectionError(
                "Failed to establish a new connection: NewConnectionError"
            ),
            Cause.TRANSIENT,
            Cause.TRANSIENT,
        ),
        (
            requests.exceptions.ConnectionError("('Connection aborted.', RemoteDisconnected())"),
            Cause.TRANSIENT,
            Cause.UNKNOWN_OUTCOME,
        ),
        (
            requests.exceptions.ChunkedEncodingError("ended early"),
            Cause.TRANSIENT,
            Cause.UNKNOWN_OUTCOME,
        ),
        (ParseError("no JSON"), Cause.TRANSIENT, Cause.UNKNOWN_OUTCOME),
        (auth.TransportError("no way"), Cause.TRANSIENT, Cause.TRANSIENT),
        (auth.RefreshError("503", retryable=True), Cause.TRANSIENT, Cause.TRANSIENT),
        (auth.DefaultCredentialsError("none"), Cause.CREDENTIALS, Cause.CREDENTIALS),
        (ImportError("google"), Cause.CREDENTIALS, Cause.CREDENTIALS),
    ],
)
def test_exceptions_have_causes(error: Exception, asked: Cause, created: Cause) -> None:
    questions, creates = (
        errors.failure_of_exception(error, call="aggregatedList"),
        errors.failure_of_exception(error, call="insert"),
    )
    assert questions is not None
    assert creates is not None
    assert (questions.cause, creates.cause) == (asked, created)


def test_pause_that_google_asks_for_is_kept() -> None:
    response = requests.Response()
    response.status_code = 403
    response.headers["Retry-After"] = "7"
    response.request = requests.Request("GET", "https://compute.googleapis.com/x").prepare()
    response._content = json.dumps(
        {"error": {"code": 403, "message": "slow", "errors": [{"reason": "rateLimitExceeded"}]}}
    ).encode()
    found = errors.failure_of_exception(core.from_http_response(response))
    assert found is not None
    assert (found.cause, found.retry_after) == (Cause.RATE_LIMIT, 7.0)


def test_rate_without_a_pause_is_tried_again_in_the_next_minute() -> None:
    found = errors.failure_of(
        errors.said_of_answer(
            403, {"error": {"message": "slow", "errors": [{"reason": "rateLimitExceeded"}]}}
        )
    )
    assert found.retry_after is not None
    assert 0 < found.retry_after <= 60


def test_message_never_holds_a_whole_address() -> None:
    error = requests.exceptions.SSLError(
        "https://compute.googleapis.com/compute/v1/projects/p?key=SECRET failed"
    )
    found = errors.failure_of_exception(error)
    assert found is not None
    assert "SECRET" not in found.message


def test_status_of_a_machine_that_google_took_has_a_cause() -> None:
    taken = errors.of_state("Instance was preempted.", spot=True)
    full = errors.of_state("The zone does not have enough resources available to run it.")
    assert taken is not None
    assert full is not None
    assert (taken.cause, full.cause) == (Cause.SPOT, Cause.CAPACITY)
    assert errors.of_state("Instance terminated by guest OS shutdown.") is None
    assert errors.of_state("") is None
