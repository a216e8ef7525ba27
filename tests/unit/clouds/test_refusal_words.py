"""Words overrule a code only where they say more, and say how far a refusal reaches."""

from __future__ import annotations

import pytest

from nbprov.clouds.refusal_words import meaning_of
from nbprov.model.failures import Cause, Scope


@pytest.mark.parametrize(
    ("words", "coded", "cause", "scope"),
    [
        ("We have no p5 capacity in this zone", Cause.TRANSIENT, Cause.CAPACITY, None),
        ("Please try another region", Cause.UNKNOWN, Cause.CAPACITY, None),
        ("The GPU is incompatible with this host", Cause.CAPACITY, Cause.NOT_OFFERED, None),
        ("The architecture does not match the AMI", Cause.CAPACITY, Cause.BAD_REQUEST, Scope.OFFER),
        ("You have reached your vCPU limit", Cause.CAPACITY, Cause.QUOTA, None),
        ("Quota exceeded: 20 reads per minute", Cause.QUOTA, Cause.RATE_LIMIT, None),
        ("GPU quota exceeded for the project", Cause.PERMISSION, Cause.QUOTA, None),
        ("Billing is disabled for this project", Cause.PERMISSION, Cause.BALANCE, None),
        ("The region is not enabled", Cause.CREDENTIALS, Cause.PERMISSION, Scope.REGION),
        ("No access to region us-9", Cause.PERMISSION, Cause.PERMISSION, Scope.REGION),
        ("Not available on the free plan", Cause.UNKNOWN, Cause.BAD_REQUEST, Scope.ACCOUNT),
        ("The subnet s-1 does not exist", Cause.BAD_REQUEST, Cause.BAD_REQUEST, Scope.REGION),
        ("The API key has expired", Cause.PERMISSION, Cause.CREDENTIALS, None),
        ("pq: relation volumes does not exist", Cause.NOT_OFFERED, Cause.TRANSIENT, None),
        ("dial tcp: connection refused", Cause.BAD_REQUEST, Cause.TRANSIENT, None),
        ("limit 'CPUS-per-project-region' is 8", Cause.RATE_LIMIT, Cause.QUOTA, None),
        ("Spot pods are no longer offered", Cause.UNKNOWN, Cause.SPOT, None),
        ("Spot machines are not sold here", Cause.NOT_OFFERED, Cause.SPOT, None),
        ("Region 'r-1' does not have enough GPUs", Cause.CAPACITY, Cause.CAPACITY, Scope.REGION),
        ("No capacity: not enough GPUs in any zone", Cause.CAPACITY, Cause.CAPACITY, Scope.REGION),
        ("The reservation does not match the type", Cause.CAPACITY, Cause.BAD_REQUEST, Scope.OFFER),
        (
            "You may not launch nodes in region r-1",
            Cause.PERMISSION,
            Cause.PERMISSION,
            Scope.REGION,
        ),
        ("You cannot rent gpu_8x_b200", Cause.PERMISSION, Cause.PERMISSION, Scope.OFFER),
        ("GPU B300 is limited to beta users", Cause.PERMISSION, Cause.PERMISSION, Scope.OFFER),
        ("We could not find a machine that fits", Cause.UNKNOWN, Cause.CAPACITY, None),
        ("Your request cannot be fulfilled", Cause.UNKNOWN, Cause.CAPACITY, None),
        ("Zone z-1 is under maintenance", Cause.UNKNOWN, Cause.CAPACITY, None),
        ("You need $0.79 in your account", Cause.UNKNOWN, Cause.BALANCE, None),
        ("The machine type m1 is deprecated", Cause.BAD_REQUEST, Cause.NOT_OFFERED, None),
        ("No permission to use that image", Cause.PERMISSION, Cause.PERMISSION, Scope.NOTHING),
        ("The instance type is only available with a plan", Cause.UNKNOWN, Cause.NOT_OFFERED, None),
        (
            "It requires a quota project, not set by default",
            Cause.PERMISSION,
            Cause.CREDENTIALS,
            None,
        ),
        ("Your account is not verified", Cause.UNKNOWN, Cause.PERMISSION, Scope.ACCOUNT),
        ("Check the billing account and retry", Cause.PERMISSION, Cause.BALANCE, None),
        (
            "Placement groups are not supported by the instance type",
            Cause.NOT_OFFERED,
            Cause.BAD_REQUEST,
            Scope.OFFER,
        ),
        ("manifest for a/b not found", Cause.UNKNOWN, Cause.BAD_REQUEST, None),
        ("capacity pool empty", Cause.TRANSIENT, Cause.CAPACITY, None),
        ("We ran out of vCPU on the hosts", Cause.TRANSIENT, Cause.CAPACITY, None),
        ("L40S is not offered in EUR-IS-1", Cause.UNKNOWN, Cause.NOT_OFFERED, None),
        ("account quota=10 already allocated", Cause.UNKNOWN, Cause.QUOTA, None),
        ("The subnet is in a different VPC", Cause.BAD_REQUEST, Cause.BAD_REQUEST, Scope.REGION),
    ],
)
def test_words_that_say_more_than_a_code(
    words: str, coded: Cause, cause: Cause, scope: Scope | None
) -> None:
    found = meaning_of(words, coded)
    assert found is not None
    assert (found.cause, found.scope) == (cause, scope)


@pytest.mark.parametrize(
    ("words", "coded"),
    [
        ("You have requested more vCPU capacity than we can count", Cause.QUOTA),
        ("An internal error has occurred", Cause.TRANSIENT),
        ("Spot is not supported when a behaviour is set to stop", Cause.BAD_REQUEST),
        ("Access denied", Cause.CREDENTIALS),
        ("A thing came to pass.", Cause.UNKNOWN),
        ("Quota exceeded for limit 'Queries-per-minute-per-project'", Cause.RATE_LIMIT),
        ("The machine type m1 is not in this zone", Cause.NOT_OFFERED),
        ("We could not find a machine image of that name", Cause.BAD_REQUEST),
        ("Spot is not allowed with this behaviour", Cause.BAD_REQUEST),
        ("It cannot be fulfilled, because a field is wrong", Cause.BAD_REQUEST),
        ("Not valid. Choose a different market type and try again", Cause.BAD_REQUEST),
        ("Permission 'serviceusage.quotas.get' denied: no quota project", Cause.PERMISSION),
    ],
)
def test_a_code_stands_where_words_say_no_more(words: str, coded: Cause) -> None:
    found = meaning_of(words, coded)
    assert found is None or found.cause is coded


@pytest.mark.parametrize(
    ("words", "coded", "cause"),
    [
        ("The service is temporarily unavailable: no capacity", Cause.TRANSIENT, Cause.CAPACITY),
        ("server is not available: insufficient capacity", Cause.TRANSIENT, Cause.CAPACITY),
        ("The requested server is not available", Cause.UNKNOWN, Cause.CAPACITY),
        ("GPU server unavailable, try another type", Cause.UNKNOWN, Cause.CAPACITY),
        ("Failed to fetch instance types: no capacity", Cause.UNKNOWN, Cause.CAPACITY),
        ("Server is currently unavailable", Cause.TRANSIENT, Cause.TRANSIENT),
        ("Service is temporarily unavailable in this region", Cause.TRANSIENT, Cause.TRANSIENT),
        ("Disk size exceeds your quota", Cause.BAD_REQUEST, Cause.QUOTA),
        ("Disk size exceeds the limit of 65536 GB", Cause.BAD_REQUEST, Cause.BAD_REQUEST),
        ("Insufficient permissions for this resource", Cause.PERMISSION, Cause.PERMISSION),
    ],
)
def test_a_server_that_answers_is_not_one_that_is_for_sale(
    words: str, coded: Cause, cause: Cause
) -> None:
    found = meaning_of(words, coded)
    assert found is not None
    assert found.cause is cause
