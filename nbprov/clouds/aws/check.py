"""The account check behind `%nbprov check`.

It says whose credentials these are, which permissions are missing and how far the quotas go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nbprov.clouds.aws.account import quotas
from nbprov.clouds.aws.account.clients import QUICK, REGIONS_VARIABLE, AwsAccount, narrowed
from nbprov.clouds.aws.account.detection import missing
from nbprov.clouds.aws.account.parallel_calls import call_each
from nbprov.clouds.aws.images import UBUNTU
from nbprov.clouds.aws.network.subnets import Networks
from nbprov.clouds.base import CHECK_SECONDS
from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.launches import CheckResult

ROOM = 0.4
"""Seconds of the check that are reserved for starting it and for collecting its answers."""
FAMILIES = ("Standard", "G and VT", "P")
"""The quotas that are shown: for general-purpose machines, and for those with GPUs."""
ZONES_SECONDS: Seconds = 3.0
"""How long the regions may take to list their zones, after the list of regions has arrived."""
ELSEWHERE_SECONDS: Seconds = 2.5
"""How long the other regions may take to say whether a launch is allowed there."""
PROBE_TYPE = "t3.micro"
_SOURCES = {
    "env": "environment variables",
    "shared-credentials-file": "shared credentials file",
    "config-file": "config file",
    "assume-role": "assumed role",
    "assume-role-with-web-identity": "web identity",
    "sso": "AWS SSO",
    "login": "AWS sign-in",
    "container-role": "container role",
    "iam-role": "role of this EC2 machine",
    "custom-process": "credential process",
}
_ACTION = re.compile(r"not authorized to perform: (\S+)")


def check(session: AwsAccount, networks: Networks, name: str) -> CheckResult:
    """Check the account. At most `CHECK_SECONDS`; never raises."""
    if lacking := missing():
        return CheckResult(name, enabled=False, problem=lacking)
    # Everything runs in a thread of its own, because a credential process or a sign-on of the
    # user's may hang.
    good, bad = call_each(
        ["check"], lambda _: _check(session, networks, name), CHECK_SECONDS - ROOM / 2
    )
    return (
        good["check"] if good else CheckResult(name, enabled=False, problem=_failure(bad["check"]))
    )


def _check(session: AwsAccount, networks: Networks, name: str) -> CheckResult:
    source, home = _source(session), session.home()
    looks: dict[str, Callable[[], Any]] = {
        "who": lambda: session.call(home, "GetCallerIdentity", QUICK, service="sts"),
        "may": lambda: _may_launch_somewhere(session, home),
        "zones": lambda: _zone_names(session, networks),
        **{f: partial(quotas.limit, session, home, f, spot=False) for f in FAMILIES},
    }
    good, bad = call_each(looks, lambda key: looks[key](), CHECK_SECONDS - ROOM)
    if "who" in bad:
        return CheckResult(name, enabled=False, credential=source, problem=_failure(bad["who"]))
    who, missing = good["who"], good.get("may")
    limits = ", ".join(
        f"{family} {good[family]:g}" for family in FAMILIES if good.get(family) is not None
    )
    unread = next((_failure(bad[family]).message for family in FAMILIES if family in bad), "")
    details = [
        f"user: {who['Arn']}",
        f"region of the configuration: {home}"
        + (f"; only these regions are used: {', '.join(narrowed())}" if narrowed() else ""),
        f"quota in {home}, vCPUs on demand: {limits}" if limits else "",
        f"quotas in {home} could not be read: {unread}" if unread and not limits else "",
        f"a test of launch permissions was refused: {missing.failure.message}"
        if missing and not _is_shut(missing)
        else "",
    ]
    names, closed = good.get("zones", ((), ()))
    problem = missing.failure if missing and _is_shut(missing) else _closed(closed)
    told = tuple(d for d in details if d)
    return CheckResult(
        name, problem is None, str(who["Account"]), source, problem, told, tuple(names)
    )


@dataclass(frozen=True, slots=True)
class _MissingPermission:
    """What AWS refused a test of launch permissions for: the action, and the failure to show."""

    action: str
    failure: Failure


def _is_shut(missing: _MissingPermission) -> bool:
    """Whether a refusal says that this user lacks an EC2 permission everywhere.

    Refusals that concern SSM do not count, because a launch can do without it; nor do those of one
    region, because organisations often close single regions by policy.
    """
    return _lacks_ec2(missing) and missing.failure.scope is not Scope.REGION


def _source(session: AwsAccount) -> str:
    """Say where the credentials come from, with the key masked."""
    boto = session.boto()
    found = boto.get_credentials()
    words = _SOURCES.get(found.method, str(found.method))
    if found.method in (
        "shared-credentials-file",
        "config-file",
        "assume-role",
        "sso",
        "login",
        "custom-process",
    ):
        words += f", profile {boto.profile_name}"
    key = str(found.get_frozen_credentials().access_key or "")
    return f"{words}, key {key[:4]}…{key[-4:]}" if len(key) >= 12 else words


def _zone_names(
    session: AwsAccount, networks: Networks
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """List this account's names for zones, and the regions that it may not use.

    Each name comes with the zone's id and region. Regions that do not answer in time are left out.
    """
    good, bad = call_each(session.regions(), networks.zone_ids, ZONES_SECONDS)
    closed = sorted(
        region
        for region, error in bad.items()
        if good and _failure(error).cause is Cause.PERMISSION
    )
    return sorted(
        (known, zone, region) for region, zones in good.items() for zone, known in zones.items()
    ), closed


def _closed(regions: Sequence[str]) -> Failure | None:
    """Return the problem of an account that may use only some regions.

    Its listings would be incomplete.
    """
    if not regions:
        return None
    words = (
        f"this user may not use {', '.join(regions)}, so no listing would be complete: "
        f"name the regions you use in {REGIONS_VARIABLE}"
    )
    return Failure(Cause.PERMISSION, words, "ClosedRegions", Scope.ACCOUNT)


def _may_launch_somewhere(session: AwsAccount, home: str) -> _MissingPermission | None:
    """Return the permission that a launch would lack; of the account if no region allows it.

    A policy may allow single regions, and what it does not name is refused in the same words as
    what nobody allows. Who may not even list the regions may launch in none.
    """
    end = time.monotonic() + CHECK_SECONDS - 2 * ROOM
    missing = _may_launch(session, home)
    if missing is None or missing.failure.scope is not Scope.REGION:
        return missing
    left = max(0.0, min(ELSEWHERE_SECONDS, end - time.monotonic()))
    good, bad = call_each(["regions"], lambda _: session.regions(), left)
    is_forbidden = any(_failure(error).cause is Cause.PERMISSION for error in bad.values())
    others = [region for region in good.get("regions", ()) if region != home]
    left = max(0.0, min(ELSEWHERE_SECONDS, end - time.monotonic()))
    told, unheard = call_each(others, partial(_may_launch, session), left)
    is_nowhere = bool(good) and not unheard and all(map(_lacks_ec2, told.values()))
    if not (is_forbidden or is_nowhere):
        return missing
    return replace(missing, failure=replace(missing.failure, scope=Scope.ACCOUNT))


def _lacks_ec2(missing: _MissingPermission | None) -> bool:
    return missing is not None and missing.action.startswith("ec2:")


def _may_launch(session: AwsAccount, region: str) -> _MissingPermission | None:
    """Return the permission that a launch would lack, or None.

    EC2 checks the permissions of a create without making anything (`DryRun`).
    """
    image = "resolve:ssm:" + UBUNTU.format(release="24.04", arch="amd64", disk="gp3")
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "nbprov-owner", "Value": "check"}]}]
    try:
        session.call(
            region,
            "RunInstances",
            QUICK,
            DryRun=True,
            ImageId=image,
            InstanceType=PROBE_TYPE,
            MinCount=1,
            MaxCount=1,
            TagSpecifications=tags,
        )
    except CloudError as error:
        failure = error.failure
        if failure.cause is not Cause.PERMISSION:
            # `DryRunOperation` means yes. Other refusals (no default network, say) do not concern
            # permissions.
            return None
        named = _ACTION.search(failure.message)
        action = named[1] if named else "ec2:RunInstances, or ec2:CreateTags with it"
        words = f"{action} is not allowed to this user in {region}: {failure.message}"
        return _MissingPermission(
            action, Failure(Cause.PERMISSION, words, failure.code, failure.scope)
        )
    return None


def _failure(error: Exception) -> Failure:
    return (
        error.failure
        if isinstance(error, CloudError)
        else Failure(Cause.UNKNOWN, without_proxy_logins(f"{type(error).__name__}: {error}"))
    )
