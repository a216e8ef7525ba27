"""Google's answers when something goes wrong: scripted faults, and its formats of refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIASES = {
    **dict.fromkeys(
        ("create", "submit", "insert"),
        ("instances.insert", "instances.bulkInsert", "regionInstances.bulkInsert"),
    ),
    "list": ("instances.aggregatedList",),
    "poll": ("zoneOperations.get", "regionOperations.get"),
    "terminate": ("instances.delete",),
    "start": ("instances.start",),
    "stop": ("instances.stop",),
    "check": ("projects.get",),
    "stock": ("advice.capacity", "regions.get"),
}
LATER = ("capacity", "quota", "spot", "late_failure", "half_made")
"""Refusals that come in the operation, after the request was accepted."""


class Refusal(Exception):
    """An HTTP refusal in Google's form."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        info: str = "",
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.headers, self.info = (
            status,
            reason,
            message,
            dict(headers or {}),
            info,
        )

    def body(self) -> dict[str, Any]:
        """The JSON of it."""
        error: dict[str, Any] = {
            "code": self.status,
            "message": self.message,
            "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
        }
        if self.info:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": self.info,
                    "domain": "googleapis.com",
                }
            ]
        return {"error": error}


def refusal(do: str, place: Mapping[str, str], seconds: float) -> Refusal:
    """The refusal that a fault means, for those that come at once."""
    project, zone = place.get("project", "p"), place.get("zone", "z")
    if do == "credentials":
        words = (
            "Request had invalid authentication credentials. Expected OAuth 2 access "
            "token, login cookie or other valid authentication credential."
        )
        return Refusal(401, "authError", words, info="ACCESS_TOKEN_EXPIRED")
    if do == "balance":
        return Refusal(
            403,
            "forbidden",
            (
                "This API method requires billing to be enabled. Billing is disabled for project "
                f"{project}."
            ),
            info="BILLING_DISABLED",
        )
    if do == "permission":
        return Refusal(
            403,
            "forbidden",
            (
                "Required 'compute.instances.create' permission for "
                f"'projects/{project}/zones/{zone}/instances/x'"
            ),
        )
    if do == "not_enabled":
        words = (
            f"Compute Engine API has not been used in project {project} before or it is "
            "disabled. Enable it by visiting the console then retry."
        )
        return Refusal(403, "accessNotConfigured", words, info="SERVICE_DISABLED")
    if do == "bad_request":
        return Refusal(
            400,
            "invalid",
            (
                "Invalid value for field 'resource.disks[0].initializeParams.diskSizeGb': '5'. "
                "Requested disk size is smaller."
            ),
        )
    if do == "not_offered":
        return Refusal(
            404,
            "notFound",
            (
                f"The resource 'projects/{project}/zones/{zone}/acceleratorTypes/nvidia-tesla-t4' "
                "was not found"
            ),
        )
    if do == "rate_limit":
        words = (
            "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of "
            "service 'compute.googleapis.com'."
        )
        return Refusal(
            403, "rateLimitExceeded", words, headers={"Retry-After": str(round(seconds) or 3)}
        )
    return Refusal(503, "backendError", "The service is currently unavailable.")


def operation_error(do: str, place: Mapping[str, str], left: str = "") -> list[dict[str, Any]]:
    """The errors of an operation that fails."""
    project, zone, kind = place.get("project", "p"), place.get("zone", "z"), place.get("type", "")
    if do == "quota":
        words = (
            f"Quota '{place.get('metric', 'NVIDIA_T4_GPUS')}' exceeded.  Limit: "
            f"{place.get('limit', '1.0')} in region {place.get('region', '')}."
        )
        return [{"code": "QUOTA_EXCEEDED", "message": words}]
    if do in ("late_failure", "half_made"):
        return [
            {
                "code": "INTERNAL_ERROR",
                "message": (
                    "Internal error. Please try again or contact Google Support. (Code: "
                    "'5E3C8A1B2F4D6')"
                ),
            }
        ]
    info = {"reason": "resource_availability", "domain": "compute.googleapis.com"}
    info["metadatas"] = {"vmType": kind, "zone": zone, "zonesAvailable": left, "attachment": ""}  # type: ignore[assignment]
    words = (
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources "
        "available to fulfill the request.  '(resource type:compute)'."
    )
    return [
        {
            "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "message": words,
            "errorDetails": [{"errorInfo": info}],
        }
    ]
