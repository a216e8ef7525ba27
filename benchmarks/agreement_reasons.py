"""Which line of docs/compatibility.md explains why nbprov's choice differs from SkyPilot's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agreement_validity import PriceFiles

LANGUAGE_ERRORS = frozenset(
    {"InvalidSkyPilotConfigError", "ValueError", "InvalidSkyPilotTaskError"}
)
NO_OFFER = "ResourcesUnavailableError"
"""How SkyPilot says that nothing satisfies a request; any other name is a refusal of the text, or
an error of its own.
"""
UNEXPLAINED = "unexplained"


def explain(
    case: Mapping[str, Any],
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    verdict: str,
    files: PriceFiles,
) -> str:
    """The key of the line; `unexplained` where there is none."""
    asked = case.get("resources") or {}
    capped = _says(asked, "max_hourly_cost") or _says(asked, "max_price")
    if verdict in ("refused_where_accepted", "dearer"):
        return "cap-kept" if capped else UNEXPLAINED
    if verdict == "accepted_where_refused" and theirs["error"] != NO_OFFER:
        return "language" if theirs["error"] in LANGUAGE_ERRORS else "peer-error"
    if all(not line.zone for line in files.by_cloud[ours["cloud"]]):
        return "empty-zone"
    hardware = any(_says(asked, name) for name in ("accelerators", "gpus", "instance_type"))
    if ours["use_spot"] and not hardware:
        return "spot-default"
    return "every-type"


def _says(asked: Mapping[str, Any], name: str) -> bool:
    items = [asked, *(asked.get("any_of") or []), *(asked.get("ordered") or [])]
    return any((item or {}).get(name) is not None for item in items)
