"""The closed set of causes of failure: what each blocks, for how long, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from .clock import Seconds
from .text.plain import plain


class Cause(StrEnum):
    """Why an attempt failed. Each cloud's `errors.py` maps its codes and messages to a cause."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    NOT_OFFERED = "not_offered"
    CREDENTIALS = "credentials"
    BALANCE = "balance"
    PERMISSION = "permission"
    BAD_REQUEST = "bad_request"
    RATE_LIMIT = "rate_limit"
    TRANSIENT = "transient"
    SPOT = "spot"
    UNHEALTHY = "unhealthy"
    TIMEOUT = "timeout"
    UNKNOWN_OUTCOME = "unknown_outcome"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """How far a block reaches, from the narrowest place to the whole account."""

    OFFER = "offer"
    ZONE = "zone"
    REGION = "region"
    ACCOUNT = "account"
    NOTHING = "nothing"


class Retry(StrEnum):
    """Where the next attempt goes."""

    ELSEWHERE = "elsewhere"
    OTHER_CLOUDS = "other_clouds"
    OTHER_MARKET = "other_market"
    SAME = "same"
    RESOLVE = "resolve"
    STOP = "stop"


MINUTE = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CauseRule:
    """The consequences of a cause.

    Attributes
    ----------
    scope
        How far the block reaches, unless the failure itself says otherwise.
    seconds
        How long the block holds; 0 blocks nothing.
    most
        The longest time after repeats, each of which doubles it; else equal to `seconds`.
    retry
        Where the next attempt goes.
    words
        The cause in words that a person understands.
    advice
        The next step for the person.
    """

    scope: Scope
    seconds: Seconds
    most: Seconds
    retry: Retry
    words: str
    advice: str


def _rule(
    scope: Scope, seconds: Seconds, retry: Retry, words: str, advice: str, most: Seconds = 0.0
) -> CauseRule:
    return CauseRule(scope, seconds, max(seconds, most), retry, words, advice)


CHECKED = frozenset({Cause.CREDENTIALS, Cause.BALANCE})
"""Causes whose blocks end when a check of the account passes, and after an hour at the latest.

Not every cloud's check can see the balance: after an hour a launch asks again, at no cost.
"""

# Block times follow Karpenter (3 min for a market, type and zone), Azure (1 h, quota 10 min or 1
# h, SKU 23 h) and ParallelCluster (10 min).
RULES: dict[Cause, CauseRule] = {
    Cause.CAPACITY: _rule(
        Scope.ZONE,
        3 * MINUTE,
        Retry.ELSEWHERE,
        "out of stock",
        "nothing to do: the next place is tried; "
        "allow more places or GPU types for a better chance",
        30 * MINUTE,
    ),
    Cause.QUOTA: _rule(
        Scope.REGION,
        10 * MINUTE,
        Retry.ELSEWHERE,
        "over your quota",
        "ask the cloud for a higher quota in this region, or end machines of this family",
        HOUR,
    ),
    Cause.NOT_OFFERED: _rule(
        Scope.ZONE,
        24 * HOUR,
        Retry.ELSEWHERE,
        "not sold there",
        "nothing to do: this type is not offered in this place",
    ),
    Cause.CREDENTIALS: _rule(
        Scope.ACCOUNT,
        HOUR,
        Retry.OTHER_CLOUDS,
        "credentials refused",
        "renew this cloud's credentials, then run %nbprov check",
    ),
    Cause.BALANCE: _rule(
        Scope.ACCOUNT,
        HOUR,
        Retry.OTHER_CLOUDS,
        "no funds in the account",
        "add funds or a payment method at this cloud, then run %nbprov check",
    ),
    Cause.PERMISSION: _rule(
        Scope.ACCOUNT,
        30 * MINUTE,
        Retry.OTHER_CLOUDS,
        "permission missing",
        "ask the account's administrator for the permission named in the message",
    ),
    Cause.BAD_REQUEST: _rule(
        Scope.NOTHING,
        0,
        Retry.ELSEWHERE,
        "request refused as invalid",
        "correct the spec as the message says",
    ),
    Cause.RATE_LIMIT: _rule(
        Scope.NOTHING,
        0,
        Retry.SAME,
        "asked too often",
        "nothing to do: the same request is repeated after a pause",
    ),
    Cause.TRANSIENT: _rule(
        Scope.NOTHING,
        0,
        Retry.SAME,
        "passing fault at the cloud",
        "nothing to do: the same request is repeated after a pause",
    ),
    Cause.SPOT: _rule(
        Scope.ZONE,
        10 * MINUTE,
        Retry.OTHER_MARKET,
        "no spot capacity",
        "nothing to do: other places are tried; use_spot: false buys on demand",
    ),
    Cause.UNHEALTHY: _rule(
        Scope.ZONE,
        10 * MINUTE,
        Retry.ELSEWHERE,
        "the machine did not work",
        "nothing to do: it is ended and the next place is tried",
    ),
    Cause.TIMEOUT: _rule(
        Scope.ZONE,
        10 * MINUTE,
        Retry.ELSEWHERE,
        "took too long",
        "nothing to do: it is ended and the next place is tried",
    ),
    Cause.UNKNOWN_OUTCOME: _rule(
        Scope.NOTHING,
        0,
        Retry.RESOLVE,
        "the answer was lost",
        "nothing to do: the cloud's own list is asked before anything else starts",
    ),
    Cause.CANCELLED: _rule(
        Scope.NOTHING, 0, Retry.STOP, "cancelled", "run the cell again when you want the machine"
    ),
    Cause.UNKNOWN: _rule(
        Scope.OFFER,
        3 * MINUTE,
        Retry.ELSEWHERE,
        "refused for a reason nbprov does not know",
        "read the cloud's message below",
    ),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure with its cause, as an adapter or the engine reports it.

    Attributes
    ----------
    cause
        One cause of the closed set.
    message
        The cloud's message, word for word, as plain text. It never holds a secret: adapters
        remove what they sent.
    code
        The cloud's own code, where it has one.
    scope
        How far the failure reaches, where the message says it; None leaves it to the cause's rule.
        Three causes read it in their own way. An invalid request (`BAD_REQUEST`) leaves out, for
        the rest of the launch: with a zone, a region or the cloud, that place for this image; with
        None, this alternative on this cloud; with `NOTHING`, everything, so the launch stops. A
        missing permission with `NOTHING` is one for a part of the request, such as its image: only
        this alternative is left out. A passing fault (`TRANSIENT`) with `ACCOUNT` meets whatever is
        asked of the cloud: after the tries of one candidate, its others come last.
    retry_after
        Seconds that the cloud asked us to wait.
    limit_is_zero
        For quota: the account has no allowance at all, so waiting does not help.
    """

    cause: Cause
    message: str = ""
    code: str = ""
    scope: Scope | None = None
    retry_after: Seconds | None = None
    limit_is_zero: bool = False

    def __post_init__(self) -> None:
        for name in ("message", "code"):  # whoever shows it need not think of that
            object.__setattr__(self, name, plain(getattr(self, name)))

    @property
    def rule(self) -> CauseRule:
        """The consequences of this failure, with its own scope and quota limit."""
        rule = RULES[self.cause]
        if self.scope is not None and rule.scope is not Scope.NOTHING:
            rule = replace(rule, scope=self.scope)
        if self.cause is Cause.QUOTA and self.limit_is_zero:
            rule = replace(rule, seconds=HOUR)
        return rule

    def sentence(self) -> str:
        """The failure in one line: the words of its cause, then the cloud's message."""
        words = RULES[self.cause].words
        detail = self.message.strip().splitlines()[0] if self.message.strip() else ""
        return f"{words}: {detail}" if detail else words


class CloudError(Exception):
    """An adapter's call did not do what it was asked; the failure says why.

    Examples
    --------
    >>> str(CloudError(Failure(Cause.CAPACITY, "no A100 left in CZ-1")))
    'out of stock: no A100 left in CZ-1'
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence())
        self.failure = failure
