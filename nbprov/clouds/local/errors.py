"""The table from the daemon's codes to causes of failure."""

from __future__ import annotations

from nbprov.model.failures import Cause, CloudError, Failure, Scope

from .rpc import STRANGER, AnswerLost, Refusal, Unreachable

CAUSES: dict[str, Cause] = {
    "InsufficientCapacity": Cause.CAPACITY,
    "SpotCapacity": Cause.SPOT,
    "Preempted": Cause.SPOT,
    "QuotaExceeded": Cause.QUOTA,
    "QuotaIsZero": Cause.QUOTA,
    "NotOffered": Cause.NOT_OFFERED,
    "NoSuchInstance": Cause.NOT_OFFERED,
    "Unauthorized": Cause.CREDENTIALS,
    "InsufficientBalance": Cause.BALANCE,
    "AccessDenied": Cause.PERMISSION,
    "InvalidParameter": Cause.BAD_REQUEST,
    "InvalidMarket": Cause.BAD_REQUEST,
    "IdempotentParameterMismatch": Cause.BAD_REQUEST,
    "UnknownCall": Cause.BAD_REQUEST,
    STRANGER: Cause.TRANSIENT,
    "RateExceeded": Cause.RATE_LIMIT,
    "InternalError": Cause.TRANSIENT,
    "Unavailable": Cause.TRANSIENT,
    "StillStopping": Cause.TRANSIENT,
    "NoMachines": Cause.PERMISSION,
    "BootFailed": Cause.UNHEALTHY,
    "TooLate": Cause.TIMEOUT,
    "OperationForgotten": Cause.UNKNOWN,
}
"""The cause of every code that the daemon itself uses. A market file may invent others, which are
`unknown`."""


def failure_of(refusal: Refusal) -> Failure:
    """Return the failure that a refusal of the daemon means."""
    details = refusal.details
    scope = details.get("scope")
    retry_after = details.get("retry_after")
    return Failure(
        cause=CAUSES.get(refusal.code, Cause.UNKNOWN),
        message=refusal.message,
        code=refusal.code,
        scope=Scope(scope) if scope else None,
        retry_after=float(retry_after) if retry_after is not None else None,
        limit_is_zero=refusal.code == "QuotaIsZero",
    )


def failure_of_exception(error: BaseException, *, creates: bool = False) -> Failure | None:
    """Return the failure behind an exception of `rpc`; None for any other exception.

    With `creates`, a lost answer may have created machines.
    """
    if isinstance(error, CloudError):
        return error.failure
    if isinstance(error, Refusal):
        return failure_of(error)
    if isinstance(error, AnswerLost):
        return Failure(
            Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT, str(error), "AnswerLost"
        )
    if isinstance(error, Unreachable):
        return Failure(Cause.TRANSIENT, str(error), "Unreachable")
    from .daemon.market import (
        MarketError,  # raised in the daemon; the adapter never loads the market's parser
    )

    if isinstance(error, MarketError):
        return Failure(Cause.BAD_REQUEST, str(error), "InvalidMarket")
    return None
