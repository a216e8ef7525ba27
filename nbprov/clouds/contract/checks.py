"""The list of checks, and what several of them use."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, Launch, Refused

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
