"""Errors of the API, and the one place where a cloud's failure becomes an error that a person reads."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError, Failure

T = TypeVar("T")


class DoesNotFit(NbprovError):
    """A running cluster has this name and is not what the spec asks for."""

    code = "cluster.does-not-fit"


class LaunchUnderWay(NbprovError):
    """A launch of this name is under way, and is not what the spec asks for."""

    code = "cluster.launch-under-way"


class NotSettled(NbprovError):
    """What was asked for is not known to be done: nothing is confirmed."""

    code = "run.not-settled"


class OtherCluster(NbprovError):
    """A handle or a panel is of a cluster that has ended, and another has its name now."""

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


def readable(error: BaseException) -> BaseException:
    """The error as a person should see it: a cloud's failure becomes a `CloudTrouble`, all else stays itself."""
    if isinstance(error, CloudError):
        trouble = CloudTrouble(error.failure)
        trouble.__cause__ = error
        return trouble
    return error


async def readably(work: Coroutine[Any, Any, T]) -> T:
    """Await something; what it raises is readable."""
    try:
        return await work
    except CloudError as error:
        raise CloudTrouble(error.failure) from error
