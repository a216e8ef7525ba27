"""The answer to a spec that names only clouds that cannot be used.

It names the clouds at hand, and gives the same spec for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec
from nbprov.planning.errors import PlanProblem

from .enabled_clouds import EnabledCloud

if TYPE_CHECKING:
    from .catalog_columns import CatalogColumns
    from .resolved_request import ResolvedRequest


def unusable(
    spec: Spec,
    resolved: Iterable[ResolvedRequest],
    table: CatalogColumns,
    enabled: Mapping[str, EnabledCloud],
    disabled: Mapping[str, str],
) -> list[PlanProblem]:
    """Refuse a spec if every request names a cloud with neither prices nor an adapter.

    A cloud that has one of them is known but not set up: its plan is empty and says what is
    missing.
    """
    foreign = [
        d.cloud
        for d in resolved
        if d.cloud
        and d.cloud not in table.places
        and d.cloud not in enabled
        and d.cloud not in disabled
    ]
    if not foreign or len(foreign) < len(spec.requests):
        return []
    names = " and ".join(dict.fromkeys(foreign))
    them = "it" if len(set(foreign)) == 1 else "them"
    message = f"{names} cannot be used: nbprov has no adapter for {them}"
    hint = f"{_at_hand(enabled)}; to use them, paste\n{_anywhere(spec)}"
    return [PlanProblem("plan.no-adapter", spec.requests[0].origin, message, hint)]


def without_adapter(
    resolved: Iterable[ResolvedRequest],
    enabled: Mapping[str, EnabledCloud],
    disabled: Mapping[str, str],
) -> list[str]:
    """A note with the way out if every request names a cloud with prices but no adapter."""
    clouds = [d.cloud for d in resolved]
    if not all(cloud and cloud not in enabled and cloud not in disabled for cloud in clouds):
        return []
    return [f"{_at_hand(enabled)}; leaving out the place takes them"]


def _at_hand(enabled: Mapping[str, EnabledCloud]) -> str:
    names = sorted(name for name, cloud in enabled.items() if not cloud.capabilities.named_only)
    return (
        f"clouds at hand: {', '.join(names)}"
        if names
        else "%nbprov check says which clouds are at hand"
    )


def _anywhere(spec: Spec) -> str:
    """The resources of a spec without any place, as YAML."""
    from nbprov.spec import to_yaml

    anywhere = [replace(r, cloud="", region="", zone="", places=()) for r in spec.requests]
    distinct = {replace(r, index=0, origin=Origin("")): r for r in anywhere}
    requests = tuple(replace(r, index=i) for i, r in enumerate(distinct.values()))
    lines = to_yaml(Spec(requests=requests, guards=spec.guards)).splitlines()
    below = next(
        (at for at, line in enumerate(lines[1:], 1) if not line.startswith((" ", "-"))), len(lines)
    )
    return (
        "\n".join(lines[:below]) if lines and lines[0].startswith("resources:") else "resources: {}"
    )
