"""Each code that a cloud documents for a launch has the cause that its documentation means.

EC2's error codes and their words are those of its page, and Google's reasons those of its package.
The words of the other codes are ours. Labels came before the comparison; two changed after it:
`InvalidState` and `FAILED_PRECONDITION`, which were `bad_request`. Codes of other calls have none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from google.api.error_reason_pb2 import ErrorReason

from nbprov.clouds.aws import errors as aws
from nbprov.clouds.gcp import errors as gcp
from nbprov.clouds.lambda_cloud import errors as lambda_errors
from nbprov.clouds.runpod import errors as runpod
from nbprov.model.failures import Failure

FOLDER = Path(__file__).parent / "documented_codes"
NOT_OF_A_LAUNCH = "-"


def rows(cloud: str) -> list[list[str]]:
    lines = (FOLDER / f"{cloud}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("|") for line in lines if not line.startswith("#")]


def of_aws(status: str, code: str, words: str) -> Failure:
    if status == "state":
        return aws.of_state(code, words)
    return aws.failure_of(code, words, status=int(status), call="RunInstances")


def of_gcp(status: str, code: str, words: str) -> Failure:
    if status == "op":
        error = {"errors": [{"code": code, "message": words}]}
        return gcp.worst_of(gcp.said_of_operation({"error": error}), call="insert")
    body = {"error": {"message": words, "errors": [{"reason": code}]}}
    return gcp.failure_of(gcp.said_of_answer(int(status), body), call="insert")


def of_lambda(status: str, code: str, words: str) -> Failure:
    body = json.dumps({"error": {"code": code, "message": words}})
    return lambda_errors.failure_of(int(status), body, path=lambda_errors.LAUNCH_PATH, creates=True)


def of_runpod(status: str, code: str, words: str) -> Failure:
    body = {"title": words, "status": int(status), "detail": words}
    if code:
        body = {"errors": [{"message": words, "extensions": {"code": code}}]}
    return runpod.failure_of(int(status), json.dumps(body), path="/v2/pods", creates=True)


READERS: dict[str, Callable[[str, str, str], Failure]] = {
    "aws": of_aws,
    "gcp": of_gcp,
    "lambda": of_lambda,
    "runpod": of_runpod,
}


@pytest.mark.parametrize("cloud", READERS)
def test_a_documented_code_means_what_its_documentation_says(cloud: str) -> None:
    wrong = []
    for status, code, *rest in rows(cloud):
        if status != NOT_OF_A_LAUNCH:
            cause, words = rest
            found = READERS[cloud](status, code, words).cause.value
            wrong += [(code or status, cause, found)] if found != cause else []
    assert wrong == []


def test_every_reason_of_google_is_listed() -> None:
    listed = [name for _, codes, *_ in rows("gcp") for name in codes.split()]
    names = list(ErrorReason.keys())
    assert [n for n in names if not any(fnmatchcase(n, one) for one in listed)] == []
