"""The account check behind `%nbprov check`: credentials, project, quotas and obstacles."""

from __future__ import annotations

from typing import Any

from nbprov.clouds.gcp.account.clients import ComputeRest, Deadline
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult

SHOWN_QUOTAS = {
    "GPUS_ALL_REGIONS": "GPUs in all regions",
    "CPUS_ALL_REGIONS": "vCPUs in all regions",
}


def check(rest: ComputeRest, deadline: Deadline) -> CheckResult:
    """Check the account with one request (`projects.get`, permission `compute.projects.get`).

    Raises
    ------
    CloudError
        With the cause and, if there is one, the next step in the message.
    """
    login = rest.login
    try:
        told = rest.ask("", deadline)
    except CloudError as error:
        return CheckResult(
            "gcp", False, login.project, login.source, helped(error.failure, login.project)
        )
    return CheckResult(
        "gcp",
        True,
        str(told.get("name") or login.project),
        login.source,
        None,
        tuple(details(told)),
    )


def details(project: dict[str, Any]) -> list[str]:
    """Describe the quotas of the whole project; for a GPU limit of 0, say what to do."""
    found = []
    for quota in project.get("quotas") or ():
        words = SHOWN_QUOTAS.get(str(quota.get("metric")))
        if words is None:
            continue
        limit, usage = float(quota.get("limit") or 0), float(quota.get("usage") or 0)
        line = f"{words}: {usage:g} of {limit:g} used"
        if not limit:
            line += (
                " - no machine with a GPU can be created until you ask Google for more "
                "(IAM & Admin > Quotas, GPUS_ALL_REGIONS)"
            )
        found.append(line)
    return found


def helped(failure: Failure, project: str) -> Failure:
    """Add the next step for the user to a failure."""
    step = {
        Cause.CREDENTIALS: "run `gcloud auth application-default login`",
        Cause.BALANCE: f"link the project {project} to a billing account",
    }.get(failure.cause, "")
    message = failure.message
    if failure.cause is Cause.PERMISSION:
        if "has not been used in project" in message or failure.code in (
            "accessNotConfigured",
            "SERVICE_DISABLED",
        ):
            step = f"run `gcloud services enable compute.googleapis.com --project {project}`"
        elif "was not found" in message:
            step = f"is {project} the right project? GOOGLE_CLOUD_PROJECT names another"
        else:
            step = (
                "ask for the role Compute Instance Admin (v1) and Compute Security Admin in "
                "the project"
            )
    if not step:
        return failure
    return Failure(
        failure.cause,
        f"{message} - {step}",
        failure.code,
        failure.scope,
        failure.retry_after,
        failure.limit_is_zero,
    )
