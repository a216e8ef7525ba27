"""Lambda's real answers, labelled by hand, are mapped to the right causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbprov.clouds.lambda_cloud import errors
from nbprov.model.failures import RULES, Cause, Scope

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus" / "lambda.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
ELSEWHERE = {Cause.SPOT, Cause.TIMEOUT, Cause.CANCELLED, Cause.UNHEALTHY}
"""Causes that no answer of Lambda has: it sells no spot machines; the others are the adapter's or
the engine's."""


def failure(entry: dict[str, Any]) -> Any:
    is_launch = entry["call"] == "launch"
    return errors.failure_of(
        entry["status"],
        entry["body"],
        path=errors.LAUNCH_PATH if is_launch else "/other",
        creates=is_launch,
    )


def test_corpus_is_large_enough_and_says_where_each_answer_is_from() -> None:
    assert len(CORPUS) >= 40
    assert all(len(entry["source"]) > 10 for entry in CORPUS)
    assert len({(entry["status"], entry["body"], entry["call"]) for entry in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: f"{e['status']}-{e['call']}-{e['cause']}")
def test_answer_means_what_its_label_says(entry: dict[str, Any]) -> None:
    said = failure(entry)
    assert (said.cause.value, said.scope and said.scope.value) == (entry["cause"], entry["scope"])
    assert said.message


def test_every_cause_that_lambda_can_give_occurs() -> None:
    assert {Cause(entry["cause"]) for entry in CORPUS} == {*Cause} - ELSEWHERE


def test_what_is_unknown_blocks_the_narrowest_place() -> None:
    unknown = [failure(entry) for entry in CORPUS if entry["cause"] == "unknown"]
    assert unknown
    assert all(
        said.rule.scope is Scope.OFFER and said.rule == RULES[Cause.UNKNOWN] for said in unknown
    )


def test_too_many_requests_say_when_to_come_again() -> None:
    pauses = {
        entry["call"]: failure(entry).retry_after
        for entry in CORPUS
        if entry["cause"] == "rate_limit"
    }
    assert pauses == {"launch": 12.0, "list": 1.0, "types": 1.0}
    assert errors.failure_of(429, "", 7.0, path=errors.LAUNCH_PATH).retry_after == 7.0


def test_the_words_are_kept_with_the_fields_they_are_about() -> None:
    (entry,) = [entry for entry in CORPUS if '"quantity"' in entry["body"]]
    assert (
        failure(entry).message
        == "Invalid request data. quantity: Input should be less than or equal to 1"
    )
    assert failure(CORPUS[0]).message.startswith(
        "Not enough capacity to fulfill launch request. Choose an instance type"
    )
