"""Resolve the names in all requests of a spec; refuse the spec if one has no meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.resources import Request
from nbprov.model.spec import Spec

from .conditions import PlanConditions
from .errors import PlanError, PlanProblem
from .excerpts import excerpt
from .filters.features import FIELDS, needs_of, refused_outright
from .lookup.name_resolution import NameResolver
from .lookup.resolved_request import ResolvedRequest, UnresolvedName
from .lookup.unusable_clouds import unusable

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .lookup.catalog_columns import CatalogColumns

PLACE_PROBLEMS = frozenset({"plan.unknown-place", "plan.unknown-region", "plan.unknown-zone"})
"""Codes of problems that are forgiven where another cloud of the same list has the place."""


def resolve_requests(
    spec: Spec, catalog: Catalog, table: CatalogColumns, conditions: PlanConditions
) -> list[ResolvedRequest]:
    """Resolve the names in every request.

    Raises
    ------
    PlanError
        With all problems of the spec.
    """
    usable = {
        name
        for name, cloud in conditions.enabled.items()
        if conditions.demo or not cloud.capabilities.named_only
    }
    resolver = NameResolver(catalog, table, usable, {*conditions.enabled, *conditions.disabled})
    without_cloud = [replace(request, index=0, cloud="") for request in spec.requests]
    clouds = _clouds_by_request(spec.requests, without_cloud)
    resolved: list[ResolvedRequest] = []
    problems: list[PlanProblem] = []
    unsupported: list[PlanProblem] = []
    missing_places: list[tuple[Request, PlanProblem]] = []
    first_of: dict[Request, int] = {}
    for request, alike in zip(spec.requests, without_cloud, strict=True):
        try:
            one = resolver.resolve(request, clouds[alike])
        except UnresolvedName as refused:
            refused.problem = _shown(refused.problem, request, spec)
            if not request.cloud:
                refused.problem = _with_silence(refused.problem, table, conditions)
            if refused.problem.code in PLACE_PROBLEMS and len(clouds[alike]) > 1:
                missing_places.append((alike, refused.problem))
            else:
                problems.append(refused.problem)
            continue
        first_of.setdefault(alike, len(resolved))
        resolved.append(one)
        unsupported += _unsupported(one, spec, conditions)
    for alike, problem in missing_places:
        if alike in first_of:
            other = resolved[first_of[alike]]
            note = f"{problem.message}: passed over"
            resolved[first_of[alike]] = replace(other, notes=(*other.notes, note))
        else:
            problems.append(problem)
    if len(unsupported) == len(spec.requests):
        problems = unsupported
    problems = problems or unusable(spec, resolved, table, conditions.enabled, conditions.disabled)
    if problems:
        raise PlanError(_distinct(problems))
    return resolved


def _with_silence(
    problem: PlanProblem, table: CatalogColumns, conditions: PlanConditions
) -> PlanProblem:
    """Return a problem with the clouds whose names are not known, since they do not answer."""
    words = [
        conditions.why_closed(cloud) for cloud in conditions.silent if cloud not in table.places
    ]
    return replace(problem, message="; ".join([problem.message, *words]))


def _shown(problem: PlanProblem, request: Request, spec: Spec) -> PlanProblem:
    """Return a problem with the line of the cell that it is about."""
    words = (str(getattr(request, name)) for name in _WRITTEN.get(problem.code, ()))
    for word in words:
        if lines := excerpt(spec.source, word, problem.origin.line):
            return replace(problem, excerpt=lines, word=word)
    return problem


_WRITTEN = {
    "plan.unknown-cloud": ("cloud",),
    "plan.unknown-type": ("instance_type",),
    "plan.type-disagrees": ("instance_type",),
    "plan.ambiguous-type": ("instance_type",),
    "plan.unknown-zone": ("zone",),
    "plan.zone-of-other-region": ("zone",),
    "plan.unknown-region": ("region", "zone"),
    "plan.unknown-place": ("region", "zone"),
    "plan.ambiguous-place": ("region", "zone"),
}
"""The fields of a request that hold the word a problem is about, by the problem's code."""


def _clouds_by_request(
    requests: Sequence[Request], without_cloud: Sequence[Request]
) -> dict[Request, tuple[str, ...]]:
    """The clouds in one list, by request.

    Of `cloud: [aws, gcp]` a place is right if any of them has it.
    """
    clouds: dict[Request, tuple[str, ...]] = {}
    for request, alike in zip(requests, without_cloud, strict=True):
        clouds[alike] = (*clouds.get(alike, ()), request.cloud)
    return clouds


def _unsupported(
    resolved: ResolvedRequest, spec: Spec, conditions: PlanConditions
) -> list[PlanProblem]:
    """A problem where a request names a cloud that cannot do what the request needs."""
    request = resolved.request
    cloud = conditions.enabled.get(resolved.cloud) if request.cloud else None
    if cloud is None:
        return []
    needs = needs_of(request, spec.num_nodes, spec.expose)
    rule = refused_outright(resolved.cloud, cloud.capabilities, needs)
    if rule is None:
        return []
    hint = "name another cloud, or leave this out"
    line = request.line_of(FIELDS[rule.kind]) or request.origin.line
    origin = replace(request.origin, line=line)
    return [PlanProblem("plan.unsupported", origin, rule.words, hint)]


def _distinct(problems: Iterable[PlanProblem]) -> list[PlanProblem]:
    """Each problem once: forty requests that one line expands to have one problem."""
    return list({(p.origin.line, p.message): p for p in reversed(list(problems))}.values())[::-1]
