"""The notes of a plan: what a person should know of it, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.model.money import format_usd
from nbprov.model.offers import Offer, is_moved
from nbprov.model.spec import Spec

from .candidates import ordinal
from .conditions import PlanConditions
from .explain import Explainer, idle_lines, line_of
from .filters.features import NO_TIER
from .filters.machines import without_premium_disk
from .lookup.unusable_clouds import without_adapter

if TYPE_CHECKING:
    from .candidate_search import CandidateSearch
    from .lookup.catalog_columns import CatalogColumns
    from .lookup.resolved_request import ResolvedRequest
    from .search_result import SearchResult

MOST_DISK_TYPES = 3
"""So many instance types without a premium disk are named in one line."""


def plan_notes(
    spec: Spec,
    requests: Sequence[ResolvedRequest],
    search: CandidateSearch,
    result: SearchResult,
    table: CatalogColumns,
    conditions: PlanConditions,
) -> tuple[str, ...]:
    """The notes in the order in which a person should read them, each once."""
    notes = [
        *(() if len(result.rows) else (_why_empty(result, conditions),)),
        *(note for request in requests for note in request.notes),
        *_empty_tiers(spec, result),
        *Explainer(search, table).lines(requests, result),
        *idle_lines(result.idle),
        *_stock_notes(result),
        *_moved_notes(result, table),
        *_unpriced_clouds(requests, table, conditions),
    ]
    if len(result.rows):
        notes += _default_size_notes(requests)
        notes += _typical_memory_notes(requests, result, table)
        notes += _disk_notes(requests, result, table)
        notes += _disk_size_notes(spec, result, table, conditions)
        notes += _autostop_notes(spec, result, table, conditions)
    else:
        notes += without_adapter(requests, conditions.enabled, conditions.disabled)
    return tuple(dict.fromkeys(notes))


def _why_empty(result: SearchResult, conditions: PlanConditions) -> str:
    if result.blocked:
        return (
            "all that satisfies this spec is blocked for now: "
            "%nbprov blocks shows why and until when"
        )
    if conditions.silent:
        return "nothing is known that satisfies this spec: not every cloud answers"
    return "nothing satisfies this spec as it stands"


def _empty_tiers(spec: Spec, result: SearchResult) -> list[str]:
    """A line for each choice that is passed over while a later one has candidates."""
    tiers = sorted({request.tier for request in spec.requests})
    if len(tiers) == 1 or not len(result.rows):
        return []
    placed = {spec.requests[i].tier for i in set(result.request_of.tolist())}
    return [
        f"the {ordinal(place)} choice adds no place and is passed over"
        for place, tier in enumerate(tiers)
        if tier not in placed
    ]


def _stock_notes(result: SearchResult) -> list[str]:
    """How reports of the clouds on their stock changed the order."""
    count, out = len(result.rows), result.sold_out
    if not out:
        return []
    word = f"{'its' if out == 1 else 'their'} cloud's own word"
    if out < count:
        verb = "is" if out == 1 else "are"
        return [f"{out:,} of {count:,} places {verb} out of stock by {word}: tried last"]
    whose = "the only place is" if out == 1 else f"all {out:,} places are"
    return [
        f"{whose} out of stock by {word}, which may be out of date: the best is tried all the same"
    ]


def _moved_notes(result: SearchResult, table: CatalogColumns) -> list[str]:
    """Places whose price moved by more than half: what they cost, cost before, and what becomes."""
    moved = result.rows[table.is_price_doubtful(result.rows)]
    if not len(moved):
        return []
    first = table.offer(int(moved[0]))
    many = len(moved) > 1
    example = (
        f"{first.cloud} {first.instance_type} {format_usd(first.hourly)}/h, {first.moved_words}"
    )
    clouds = ", ".join(sorted(table.distinct("cloud", moved)))
    return [
        f"the price of {len(moved):,} place{'s' if many else ''} {_doubt(first)}"
        f" ({'such as ' if many else ''}{example}): tried last, and bought only if the cloud itself"
        f" confirms the price or you accept it: %nbprov catalog accept {clouds.split(', ')[0]}"
    ]


def _doubt(offer: Offer) -> str:
    if is_moved(offer.hourly, offer.moved_from):
        return "moved by more than half"
    return "is of a type that had other hardware"


def _unpriced_clouds(
    requests: Sequence[ResolvedRequest], table: CatalogColumns, conditions: PlanConditions
) -> list[str]:
    """Clouds without prices: those that a request names, and those that do not answer."""
    clouds = {request.cloud for request in requests if request.cloud} | conditions.silent.keys()
    return [
        f"the catalogue has no prices of {cloud}"
        if cloud in conditions.enabled
        else conditions.why_closed(cloud)
        for cloud in sorted(clouds - table.places.keys())
    ]


def _default_size_notes(requests: Sequence[ResolvedRequest]) -> Iterator[str]:
    if any(r.plain and r.request.cpus is None and r.request.memory is None for r in requests):
        yield (
            "no vCPUs and no memory asked: machines from 8 vCPUs and 4 GiB a vCPU on "
            "(Lambda: 30 vCPUs), where a cloud has such a default"
        )


def _typical_memory_notes(
    requests: Sequence[ResolvedRequest], result: SearchResult, table: CatalogColumns
) -> Iterator[str]:
    typical = sorted(MEMORY_IS_TYPICAL.intersection(table.distinct("cloud", result.rows)))
    if typical and any(r.request.memory is not None and not r.plain for r in requests):
        yield (
            f"memory beside a GPU is a typical figure on {', '.join(typical)}: "
            "counted as met, checked when the machine is up"
        )


def _disk_notes(
    requests: Sequence[ResolvedRequest], result: SearchResult, table: CatalogColumns
) -> Iterator[str]:
    """Azure machines that take no premium disk start from a standard one if no tier is asked."""
    if any(r.request.disk_tier not in NO_TIER for r in requests):
        return
    kinds = without_premium_disk(table, result.rows)
    if kinds:
        hidden = len(kinds) - MOST_DISK_TYPES
        more = f" and {hidden} more" if hidden > 0 else ""
        yield (
            f"azure: {', '.join(kinds[:MOST_DISK_TYPES])}{more} take no premium disk: "
            "they start from a standard one (disk_tier low)"
        )


def _disk_size_notes(
    spec: Spec, result: SearchResult, table: CatalogColumns, conditions: PlanConditions
) -> Iterator[str]:
    line = line_of(spec, "disk_size")
    fixed = [
        cloud
        for cloud in table.distinct("cloud", result.rows)
        if not conditions.enabled[cloud].capabilities.disk_sizes
    ]
    if line and fixed:
        yield (
            f"{', '.join(fixed)}: the size of a machine's disk cannot be chosen, so disk_size "
            f"(line {line}) is not asked there"
        )


def _autostop_notes(
    spec: Spec, result: SearchResult, table: CatalogColumns, conditions: PlanConditions
) -> Iterator[str]:
    autostop = spec.guards.autostop
    if autostop is None or autostop.down:
        return
    cannot = [
        cloud
        for cloud in table.distinct("cloud", result.rows)
        if not conditions.enabled[cloud].capabilities.stop
    ]
    if cannot:
        line = line_of(spec, "autostop")
        where = f" (line {line})" if line else ""
        yield (
            f"{', '.join(cannot)} cannot stop a machine: autostop{where} ends it there, its disk "
            "with it"
        )
