"""Blocks: what is not tried again for a while after it was refused.

How long each cause blocks stands in `failures.RULES`. The ledger's `BlockTable` ends blocks early.
"""

from __future__ import annotations

from dataclasses import dataclass

from .clock import Instant, Seconds
from .failures import Cause, Failure, Scope
from .offers import Candidate


@dataclass(frozen=True, slots=True)
class Block:
    """A pattern over candidates with a cause, a scope and an expiry.

    An empty field is a wildcard; all named fields must match. `min_count` matches candidates of at
    least that many nodes.

    Examples
    --------
    A zone without A100s does not block the next zone:

    >>> zone = {"cloud": "aws", "region": "us-east-1", "zone": "use1-az1"}
    >>> block = Block(**zone, instance_type="p4d.24xlarge", expires=100.0)
    >>> block.is_live(now=99.0), block.is_live(now=100.0)
    (True, False)
    """

    cloud: str = ""
    account: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    market: str = ""
    quota_family: str = ""
    min_count: int = 0
    cause: Cause = Cause.UNKNOWN
    scope: Scope = Scope.OFFER
    message: str = ""
    since: Instant = 0.0
    expires: Instant = 0.0

    def is_live(self, now: Instant) -> bool:
        """Whether the block still holds."""
        return now < self.expires

    def matches(self, candidate: Candidate) -> bool:
        """Whether the block matches the candidate, whether it has expired or not."""
        offer = candidate.offer
        return (
            (not self.cloud or self.cloud == offer.cloud)
            and (not self.account or self.account == candidate.account)
            and (not self.region or self.region == offer.region)
            and (not self.zone or self.zone == offer.zone)
            and (not self.instance_type or self.instance_type == offer.instance_type)
            and (not self.market or self.market == offer.market.value)
            and (not self.quota_family or self.quota_family == offer.quota_family)
            and candidate.count >= self.min_count
        )

    @property
    def pattern(self) -> tuple[str, ...]:
        """The fields that name what is blocked. Two blocks with one pattern are repeats of each
        other.
        """
        return (
            self.cloud,
            self.account,
            self.region,
            self.zone,
            self.instance_type,
            self.market,
            self.quota_family,
            str(self.min_count),
            self.cause.value,
        )

    def words(self) -> str:
        """What is blocked, as a person would say it."""
        place = "/".join(p for p in (self.cloud, self.region, self.zone) if p) or "everywhere"
        what = " ".join(p for p in (self.instance_type or self.quota_family, self.market) if p)
        return f"{what or 'everything'} in {place}"


def block_after(
    candidate: Candidate, failure: Failure, now: Instant, *, repeats: int = 0
) -> Block | None:
    """The block that follows from a failure; None if its cause blocks nothing.

    Parameters
    ----------
    repeats
        How often the same pattern was blocked before without a success in between. Each doubles the
        time, up to the rule's limit.
    """
    rule = failure.rule
    if rule.seconds <= 0 or rule.scope is Scope.NOTHING:
        return None
    offer = candidate.offer
    seconds: Seconds = rule.seconds
    if rule.most > rule.seconds:
        seconds = min(rule.most, rule.seconds * 2 ** min(repeats, 16))
    is_quota = failure.cause is Cause.QUOTA
    narrow = rule.scope in (Scope.OFFER, Scope.ZONE, Scope.REGION)
    return Block(
        cloud=offer.cloud,
        account=candidate.account,
        region=offer.region if narrow else "",
        zone=offer.zone if rule.scope in (Scope.OFFER, Scope.ZONE) else "",
        instance_type=offer.instance_type
        if narrow and not (is_quota and offer.quota_family)
        else "",
        market=offer.market.value if narrow and failure.cause is not Cause.NOT_OFFERED else "",
        quota_family=offer.quota_family if is_quota else "",
        min_count=candidate.count if failure.cause is Cause.CAPACITY else 0,
        cause=failure.cause,
        scope=rule.scope,
        message=failure.message,
        since=now,
        expires=now + seconds,
    )
