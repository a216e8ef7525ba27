"""Explain why a request has no candidate, and which change would give it one.

Requests that differ only in place share one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, short_duration
from nbprov.model.failures import RULES, Cause
from nbprov.model.money import exact_usd
from nbprov.model.offers import Dropped, DropRule, RuleKind
from nbprov.model.places import Market
from nbprov.model.resources import Compare, PlaceGlob, Quantity
from nbprov.model.spec import Spec

from .candidate_search import CandidateSearch
from .filters.features import FIELDS
from .filters.place_patterns import glob_words, rule_words
from .search_result import SearchResult, SearchStage

if TYPE_CHECKING:
    from .lookup.catalog_columns import CatalogColumns, Ints
    from .lookup.resolved_request import ResolvedRequest

MOST_LINES = 8
"""A spec of hundreds of alternatives is not explained one by one."""
MOST_NAMES = 6
MOST_BLOCKS = 3


class Explainer:
    """Explains the requests of one search that have no candidate."""

    def __init__(self, search: CandidateSearch, table: CatalogColumns) -> None:
        self._search = search
        self._table = table

    def lines(self, requests: Sequence[ResolvedRequest], found: SearchResult) -> list[str]:
        """One line for each kind of failure, the most preferred requests first."""
        groups: dict[tuple[object, ...], list[ResolvedRequest]] = {}
        for i, (resolved, stage) in enumerate(zip(requests, found.stages, strict=True)):
            if i in found.blocked_requests:
                stage = SearchStage.BLOCKED
            unpriced = resolved.cloud and resolved.cloud not in self._table.places
            if stage not in (SearchStage.PLACED, SearchStage.TAKEN) and not unpriced:
                groups.setdefault(_kind(resolved, stage), []).append(resolved)
        said = [self._line(key[0], group) for key, group in groups.items()]
        lines = list(dict.fromkeys(said))
        if len(lines) > MOST_LINES:
            lines[MOST_LINES:] = [
                f"and {len(lines) - MOST_LINES} further alternatives have no candidate"
            ]
        return lines

    def _line(self, stage: object, group: Sequence[ResolvedRequest]) -> str:
        resolved = group[0]
        what = hardware_words(resolved)
        places = _join(sorted({_place(d) for d in group if _place(d)}))
        where = f" in {places}" if places else ""
        if resolved.unknown is not None:
            near = (
                f"; did you mean {' or '.join(resolved.unknown[:3])}?" if resolved.unknown else ""
            )
            return f"no cloud in the catalogue sells {resolved.query.accelerator}{near}"
        if stage is SearchStage.HARDWARE:
            return f"{what}: {self._missing_hardware(resolved)}"
        if stage is SearchStage.PLACE:
            return f"{what} is not sold{where}; {self._sold_where(resolved)}"
        if stage is SearchStage.BLOCKED:
            return f"{what}{where}: every place was refused a moment ago"
        rows = self._search.hardware(resolved)
        rows = self._table.concatenated([self._search.in_place(rows, d) for d in group])
        if stage is SearchStage.PRICE:
            open_rows = self._search.capable(self._search.allowed(rows, resolved), resolved, [])
            cheapest = min(self._table.of("hourly", open_rows).tolist())
            cap = max(d.request.max_hourly or 0 for d in group)
            return (
                f"{what}{where}: the cheapest costs {exact_usd(cheapest)} an hour, "
                f"the cap is {exact_usd(cap)}"
            )
        reasons = self._search.reasons(rows, resolved)
        if stage is SearchStage.MACHINE:
            dropped: list[tuple[DropRule, Ints]] = []
            self._search.capable(self._search.allowed(rows, resolved), resolved, dropped)
            reasons = [*dict.fromkeys(rule.words for rule, _ in dropped), *reasons]
        return f"{what}{where}: {'; '.join(reasons)}"

    def _missing_hardware(self, resolved: ResolvedRequest) -> str:
        """Which part of a request no machine meets."""
        query, request, table = resolved.query, resolved.request, self._table
        other = Market.ON_DEMAND if request.market is Market.SPOT else Market.SPOT
        turned = replace(
            resolved, query=replace(query, market=other), request=replace(request, market=other)
        )
        if len(self._search.hardware(turned)):
            return (
                "not sold as spot; use_spot: false buys on demand"
                if request.market is Market.SPOT
                else "sold as spot only; use_spot: true"
            )
        if resolved.plain:
            return self._missing_size(resolved, table.select(replace(query, market=None)))
        bare = replace(query, market=None, cpus=None, memory=None)
        if not len(table.select(bare)):
            return self._missing_count(resolved)
        return self._missing_size(resolved, table.select(bare))

    def _missing_count(self, resolved: ResolvedRequest) -> str:
        query = resolved.query
        if query.accelerator and isinstance(query.count, int | float):
            sold = self._table.figures(
                "accelerator_count",
                self._table.select(replace(query, market=None, count=None, cpus=None, memory=None)),
            )
            if sold:
                asked = float(query.count)
                nearest = min(sold, key=lambda count: (abs(count - asked), count))
                return (
                    f"nobody sells that count; sold: {_figures(sold)}; "
                    f"nearest {query.accelerator}:{nearest:g}"
                )
        if query.device_gib is not None:
            return "no accelerator with that memory is sold in that count"
        return "not sold"

    def _missing_size(self, resolved: ResolvedRequest, rows: Ints) -> str:
        """For vCPUs and memory: the nearest sizes, and the form that permits larger machines."""
        said = []
        for name, column, asked in (
            ("cpus", "vcpus", resolved.request.cpus),
            ("memory", "memory_gib", resolved.request.memory),
        ):
            if asked is None:
                continue
            sold = self._table.figures(column, rows)
            if asked.compare is Compare.EXACTLY:
                near = _nearest(sold, asked.value)
                if not any(asked.allows(size) for size in sold):
                    said.append(
                        f"no machine has {name} {asked}; nearest {_figures(near)}; "
                        f"{name}: {asked}+ takes larger ones"
                    )
            elif asked.compare is Compare.AT_LEAST and sold and sold[-1] < asked.value:
                said.append(f"the largest machine has {name} {sold[-1]:g}, asked {asked}")
        return "; ".join(said) or f"no machine has {_asked(resolved)} together"

    def _sold_where(self, resolved: ResolvedRequest) -> str:
        rows = self._search.hardware(resolved)
        in_cloud = (
            self._search.in_place(rows, replace(resolved, region="", zone="", rules=()))
            if resolved.cloud
            else rows
        )
        if not len(in_cloud):
            return f"sold by {_join(self._table.distinct('cloud', rows))}"
        return f"cheapest in {_join(self._table.in_order('region', in_cloud))}"


def hardware_words(resolved: ResolvedRequest) -> str:
    """The hardware of a request in a few words: `A100:8 spot`."""
    request = resolved.request
    words = [
        str(request.accelerator) if request.accelerator else "",
        request.instance_type,
        _sizes(request.cpus, request.memory),
    ]
    named = " ".join(w for w in words if w) or "a default machine"
    return f"{named} spot" if request.market is Market.SPOT else named


def idle_lines(idle: Sequence[tuple[ResolvedRequest, PlaceGlob]]) -> list[str]:
    """A line for each allowed pattern whose places do not sell what is asked."""
    lines = [
        f"{hardware_words(resolved)} is not sold in {glob_words(glob)}: passed over"
        for resolved, glob in idle
    ]
    return list(dict.fromkeys(lines))[:MOST_LINES]


def dropped_lines(
    spec: Spec, dropped: Mapping[DropRule, int], blocked: Sequence[tuple[Block, int]], now: Instant
) -> tuple[Dropped, ...]:
    """How many offers each rule dropped, with the line that asked for it; blocks of one cause
    together.
    """
    lines = [
        Dropped(with_line(rule, spec), count)
        for rule, count in sorted(dropped.items(), key=lambda item: item[0].name)
    ]
    by_cause: dict[Cause, list[tuple[Block, int]]] = {}
    for block, count in blocked:
        by_cause.setdefault(block.cause, []).append((block, count))
    for cause in sorted(by_cause):
        same = by_cause[cause]
        until = min(block.expires for block, _ in same) - now
        places = _join(
            [block.words() for block, _ in same[:MOST_BLOCKS]], more=max(0, len(same) - MOST_BLOCKS)
        )
        words = f"{RULES[cause].words}: {places}; open again in {short_duration(until)}" + (
            " at the earliest" if len(same) > 1 else ""
        )
        lines.append(
            Dropped(DropRule(RuleKind.BLOCKED, words, cause.value), sum(count for _, count in same))
        )
    return tuple(lines)


def with_line(rule: DropRule, spec: Spec) -> DropRule:
    """The rule with the line of the field that it is about; itself if none is written."""
    line = line_of(spec, FIELDS.get(rule.kind, ""))
    return replace(rule, words=f"{rule.words} (line {line})") if line else rule


def line_of(spec: Spec, name: str) -> int:
    """The first line of a cell in which a field is written; 0 if it is not written."""
    lines = [request.line_of(name) for request in spec.requests]
    return next((line for line in (dict(spec.lines).get(name, 0), *lines) if line), 0)


def _kind(resolved: ResolvedRequest, stage: SearchStage) -> tuple[object, ...]:
    """The kind of a failure; requests of one kind share a line."""
    cloud = resolved.cloud if stage is SearchStage.PLACE else ""
    return (
        stage,
        resolved.query,
        resolved.request.cpus,
        resolved.request.memory,
        resolved.unknown,
        cloud,
    )


def _place(resolved: ResolvedRequest) -> str:
    named = "/".join(
        part or "*" for part in (resolved.cloud, resolved.region, resolved.zone)
    ).rstrip("/*")
    return " and ".join(
        part for part in (named, *(f"({rule_words(rule)})" for rule in resolved.rules)) if part
    )


def _sizes(cpus: Quantity | None, memory: Quantity | None) -> str:
    return " ".join(
        w for w in (f"cpus {cpus}" if cpus else "", f"memory {memory}" if memory else "") if w
    )


def _asked(resolved: ResolvedRequest) -> str:
    return _sizes(resolved.request.cpus, resolved.request.memory) or "all that is asked"


def _nearest(sold: Sequence[float], value: float) -> list[float]:
    below = [size for size in sold if size < value][-1:]
    return below + [size for size in sold if size > value][:1]


def _figures(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values) or "none"


def _join(names: Sequence[str], more: int = 0) -> str:
    """The first names, and how many more there are; `more` counts those not in `names`."""
    more += max(0, len(names) - MOST_NAMES)
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {more} more" if more else shown
