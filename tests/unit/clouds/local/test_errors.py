"""Every code that the daemon of the `local` cloud can answer has a cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbprov.clouds import local
from nbprov.clouds.local import make
from nbprov.clouds.local.errors import CAUSES, failure_of, failure_of_exception
from nbprov.clouds.local.rpc import AnswerLost, Refusal, Unreachable
from nbprov.model.failures import Cause, CloudError, Failure, Scope


def test_every_code_in_the_source_is_in_the_table() -> None:
    folder = Path(local.__file__).parent
    text = "".join(p.read_text() for p in folder.rglob("*.py") if p.name != "errors.py")
    used = (
        set(re.findall(r'Refusal\(\s*"(\w+)"', text))
        | set(re.findall(r'"code": "(\w+)"', text))
        | {"SpotCapacity", "QuotaIsZero"}
    )
    assert len(used) > 10
    assert used <= set(CAUSES)


def test_details_of_a_refusal_reach_the_failure() -> None:
    failure = failure_of(Refusal("QuotaIsZero", "limit 0", {"scope": "account", "retry_after": 2}))
    assert (failure.cause, failure.scope, failure.retry_after, failure.limit_is_zero) == (
        Cause.QUOTA,
        Scope.ACCOUNT,
        2.0,
        True,
    )
    assert failure.rule.scope is Scope.ACCOUNT


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (AnswerLost("?"), Cause.TRANSIENT),
        (Unreachable("?"), Cause.TRANSIENT),
        (Refusal("Invented", "?"), Cause.UNKNOWN),
        (CloudError(Failure(Cause.SPOT)), Cause.SPOT),
        (TimeoutError(), Cause.UNKNOWN_OUTCOME),
        (KeyError("x"), Cause.UNKNOWN),
    ],
)
def test_whatever_is_raised_is_classified(error: Exception, cause: Cause) -> None:
    assert make().classify(error).cause is cause


def test_a_lost_answer_to_a_create_is_an_unknown_outcome() -> None:
    failure = failure_of_exception(AnswerLost("?"), creates=True)
    assert failure is not None
    assert failure.cause is Cause.UNKNOWN_OUTCOME
