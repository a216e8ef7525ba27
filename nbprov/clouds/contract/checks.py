"""The list of checks, and what several of them use."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, Launch, Refused

from .relay import Relay
from .subject import CloudUnderTest

Check = Callable[[CloudUnderTest], None]
CHECKS: list[Check] = []
"""All checks; each takes a cloud of its own, empty at first."""

OUTLIVER = (
    "nohup setsid sleep 4242 >/dev/null 2>&1 </dev/null & (setsid env -i /bin/sleep "
    "4243 >/dev/null 2>&1 </dev/null &) ; true"
)
"""A command that leaves processes outside any session, one of them without the machine's
environment."""


def check(function: Check) -> Check:
    """Add a check to the contract."""
    CHECKS.append(function)
    return function


def needs(can: object, reason: str) -> None:
    """Skip the check, with its reason, if the cloud has nothing that it is about."""
    if not can:
        pytest.skip(reason)


def run_check(subject: CloudUnderTest, check: Check) -> None:
    """Run a check, and fail if it does not apply to the cloud, unless the subject says so.

    A check that is skipped for another reason, or that is listed in `does_not_apply` and applies,
    would otherwise pass for one that has run.
    """
    name, skipped = check.__name__, ""
    listed = subject.does_not_apply.get(name)
    try:
        check(subject)
    except pytest.skip.Exception as reason:
        skipped = str(reason)
    assert listed or not skipped, (
        f"{name} did not run for {subject.name}: {skipped}. If that is as it should be, list it in"
        " `does_not_apply` with the reason"
    )
    assert skipped or not listed, (
        f"`does_not_apply` of {subject.name} lists {name} ({listed}): it applies now, take it from"
        " the list"
    )


def answers(instance: Instance) -> bool:
    """Whether an ssh server answers at the instance's address."""
    try:
        with socket.create_connection((instance.host, instance.port), 2) as link:
            return link.recv(64).startswith(b"SSH-2.0")
    except OSError:
        return False


def refusal(subject: CloudUnderTest, launch: Launch) -> Failure:
    """Return the cause of a refusal, at once or later."""
    try:
        result = subject.decided(subject.cloud.submit(launch))
    except CloudError as error:
        return error.failure
    assert isinstance(result, Refused), f"expected a refusal, got {result}"
    return result.failure


def failure_of(subject: CloudUnderTest, call: Callable[[], object], what: str) -> Failure:
    """Return the failure with which a call ends, as the engine sees it."""
    try:
        answer = call()
    except Exception as error:
        return subject.cloud.classify(error)
    raise AssertionError(f"{what}: expected an error, got {answer!r}")


def expect_cause(failure: Failure, *causes: Cause, what: str) -> None:
    """Fail unless a failure has one of these causes."""
    wanted = " or ".join(causes)
    assert failure.cause in causes, (
        f"{what}: expected the cause {wanted}, got {failure.cause} ({failure.message!r})"
    )


def changed(relay: Relay, change: Callable[[Any], None]) -> AbstractContextManager[None]:
    """Change every JSON document that the cloud answers, before the adapter gets it."""

    def rewrite(_: int, body: bytes) -> bytes:
        try:
            document = json.loads(body)
        except ValueError:
            return body
        change(document)
        return json.dumps(document).encode()

    return relay.rewritten(rewrite)


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a document, outer ones first."""
    if isinstance(document, dict):
        yield document
    inside = document.values() if isinstance(document, dict) else document
    for one in [*inside] if isinstance(document, dict | list) else ():
        yield from objects(one)


def strings(value: Any) -> Iterator[str]:
    """Yield all strings of a document, keys left out."""
    if isinstance(value, str):
        yield value
    inside = value.values() if isinstance(value, dict) else value
    for one in inside if isinstance(value, dict | list) else ():
        yield from strings(one)


def rows(document: Any, machine: str) -> Iterator[dict[str, Any]]:
    """Yield the objects that have the id of this machine as a value of their own."""
    for one in objects(document):
        # An adapter may write the place before the id: ids of two regions may be the same.
        if machine in one.values() or machine.rpartition("/")[2] in one.values():
            yield one
