"""RunPod's real answers, labelled by hand, are mapped to the right causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbprov.clouds.runpod import errors
from nbprov.model.failures import Cause, Failure, Scope

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus" / "runpod.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
OTHERS = {Cause.UNHEALTHY, Cause.TIMEOUT, Cause.CANCELLED}
"""Causes that no answer of RunPod has: they are the adapter's or the engine's."""


def failure(entry: dict[str, Any]) -> Failure:
    return errors.failure_of(
        entry["status"], entry["body"], path=entry["path"], creates=entry["creates"]
    )


def test_corpus_is_large_enough_and_says_where_each_answer_is_from() -> None:
    assert len(CORPUS) >= 40
    assert all(len(entry["source"]) > 10 for entry in CORPUS)
    assert len(
        {(entry["status"], entry["body"], entry["path"], entry["creates"]) for entry in CORPUS}
    ) == len(CORPUS)


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: f"{e['status']}-{e['path']}-{e['cause']}")
def test_answer_means_what_its_label_says(entry: dict[str, Any]) -> None:
    said = failure(entry)
    assert (said.cause.value, said.scope and said.scope.value) == (entry["cause"], entry["scope"])
    assert said.code == str(entry["status"])
    assert said.message


def test_every_cause_that_runpod_can_give_occurs() -> None:
    assert {Cause(entry["cause"]) for entry in CORPUS} == {*Cause} - OTHERS


def test_what_is_unknown_blocks_the_narrowest_place() -> None:
    unknown = [failure(entry) for entry in CORPUS if entry["cause"] == "unknown"]
    assert unknown
    assert all(said.rule.scope is Scope.OFFER for said in unknown)


def test_a_pause_is_kept() -> None:
    (entry,) = [entry for entry in CORPUS if entry["status"] == 429]
    assert (
        errors.failure_of(429, entry["body"], 12.0, path=entry["path"], creates=True).retry_after
        == 12.0
    )


def test_each_violation_of_a_422_is_told() -> None:
    body = json.dumps(
        {
            "title": "",
            "status": 422,
            "detail": "Request validation failed.",
            "errors": ["$.a: x", "$.b: y"],
        }
    )
    assert errors.failure_of(422, body).message == "Request validation failed. $.a: x; $.b: y"
