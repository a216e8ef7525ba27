"""Errors of the API; here a cloud's failure becomes an error that a person reads."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError, Failure

T = TypeVar("T")


class DoesNotFit(NbprovError):
    """A running cluster has this name and does not fit the spec."""

    code = "cluster.does-not-fit"


class LaunchUnderWay(NbprovError):
    """A launch of this name is under way that cannot be joined."""

    code = "cluster.launch-under-way"


class NotSettled(NbprovError):
    """An operation ended without a confirmation that it is done."""

    code = "run.not-settled"


class OtherCluster(NbprovError):
    """The cluster of a handle or a panel has ended, and another one has its name now."""

    code = "cluster.other"


class CloudTrouble(NbprovError):
    """A cloud, or a machine of it, did not do what it was asked.

    Attributes
    ----------
    failure
        The failure with its cause and the raw message.
    """

    code = "cloud"

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            failure.sentence(), hint=failure.rule.advice, code=f"cloud.{failure.cause.value}"
        )
        self.failure = failure


def readable_error(error: BaseException) -> BaseException:
    """The error as a person should see it: a cloud's failure becomes a `CloudTrouble`."""
    if isinstance(error, CloudError):
        trouble = CloudTrouble(error.failure)
        trouble.__cause__ = error
        return trouble
    return error


async def with_readable_errors(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine; a cloud's failure is raised as `CloudTrouble`."""
    try:
        return await work
    except CloudError as error:
        raise CloudTrouble(error.failure) from error
