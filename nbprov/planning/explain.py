"""Why a request has no candidate, and what would have one: a line each, requests that differ only in place together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, short_duration
from nbprov.model.failures import RULES, Cause
from nbprov.model.money import format_usd
from nbprov.model.offers import Block, Dropped, DropRule, RuleKind
from nbprov.model.places import Market
from nbprov.model.spec import Compare, PlaceGlob, Quantity

from .candidate_search import Found, Search, Stage
from .filters.place_patterns import glob_words, rule_words

if TYPE_CHECKING:
    from .lookup.catalog_columns import Ints, Table
    from .lookup.name_resolution import Demand

MOST_LINES = 8
"""A spec of hundreds of alternatives is not explained one by one."""
MOST_NAMES = 6
MOST_BLOCKS = 3


class Explainer:
    """Explains the requests of one search that were left without a candidate."""

    def __init__(self, search: Search, table: Table) -> None:
        self._search = search
        self._table = table

    def lines(self, demands: Sequence[Demand], found: Found) -> list[str]:
        """One line for each kind of failure, most preferred requests first."""
        groups: dict[tuple[object, ...], list[Demand]] = {}
        for i, (demand, stage) in enumerate(zip(demands, found.stages, strict=True)):
            if i in found.blocked_requests:
                stage = Stage.BLOCKED
            unpriced = demand.cloud and demand.cloud not in self._table.places
            if stage not in (Stage.PLACED, Stage.TAKEN) and not unpriced:
                groups.setdefault(_kind(demand, stage), []).append(demand)
        said = [self._line(key[0], group) for key, group in groups.items()]
        lines = list(dict.fromkeys(said))
        if len(lines) > MOST_LINES:
            lines[MOST_LINES:] = [
                f"and {len(lines) - MOST_LINES} further alternatives have no candidate"
            ]
        return lines

    def _line(self, stage: object, group: Sequence[Demand]) -> str:
        demand = group[0]
        what = hardware_words(demand)
        places = _join(sorted({_place(d) for d in group if _place(d)}))
        where = f" in {places}" if places else ""
        if demand.unknown is not None:
            near = f"; did you mean {' or '.join(demand.unknown[:3])}?" if demand.unknown else ""
            return f"no cloud in the catalogue sells {demand.query.accelerator}{near}"
        if stage is Stage.HARDWARE:
            return f"{what}: {self._missing_hardware(demand)}"
        if stage is Stage.PLACE:
            return f"{what} is not sold{where}; {self._sold_where(demand)}"
        if stage is Stage.BLOCKED:
            return f"{what}{where}: every place was refused a moment ago"
        rows = self._search.hardware(demand)
        rows = self._table.concatenated([self._search.in_place(rows, d) for d in group])
        if stage is Stage.PRICE:
            open_rows = self._search.capable(self._search.allowed(rows, demand), demand, [])
            cheapest = min(self._table.of("hourly", open_rows).tolist())
            cap = max(d.request.max_hourly or 0 for d in group)
            return f"{what}{where}: the cheapest costs {format_usd(cheapest)} an hour, the cap is {format_usd(cap)}"
        reasons = self._search.reasons(rows, demand)
        if stage is Stage.MACHINE:
            dropped: list[tuple[DropRule, Ints]] = []
            self._search.capable(self._search.allowed(rows, demand), demand, dropped)
            reasons = [*dict.fromkeys(rule.words for rule, _ in dropped), *reasons]
        return f"{what}{where}: {'; '.join(reasons)}"

    def _missing_hardware(self, demand: Demand) -> str:
        """Which part of the demand no machine meets."""
        query, request, table = demand.query, demand.request, self._table
        other = Market.ON_DEMAND if request.market is Market.SPOT else Market.SPOT
        turned = replace(
            demand, query=replace(query, market=other), request=replace(request, market=other)
        )
        if len(self._search.hardware(turned)):
            return (
                "not sold as spot; use_spot: false buys on demand"
                if request.market is Market.SPOT
                else "sold as spot only; use_spot: true"
            )
        if demand.plain:
            return self._missing_size(demand, table.select(replace(query, market=None)))
        bare = replace(query, market=None, cpus=None, memory=None)
        if not len(table.select(bare)):
            return self._missing_count(demand)
        return self._missing_size(demand, table.select(bare))

    def _missing_count(self, demand: Demand) -> str:
        query = demand.query
        if query.accelerator and isinstance(query.count, int | float):
            sold = self._table.figures(
                "accelerator_count",
                self._table.select(replace(query, market=None, count=None, cpus=None, memory=None)),
            )
            if sold:
                nearest = min(sold, key=lambda c: (abs(c - float(query.count or 0)), c))  # type: ignore[arg-type]
                return f"nobody sells that count; sold: {_figures(sold)}; nearest {query.accelerator}:{nearest:g}"
        if query.device_gib is not None:
            return "no accelerator with that memory is sold in that count"
        return "not sold"

    def _missing_size(self, demand: Demand, rows: Ints) -> str:
        """For vCPUs and memory: the nearest sizes, and the form that takes larger machines too."""
        said = []
        for name, column, asked in (
            ("cpus", "vcpus", demand.request.cpus),
            ("memory", "memory_gib", demand.request.memory),
        ):
            if asked is None:
                continue
            sold = self._table.figures(column, rows)
            if asked.compare is Compare.EXACTLY:
                near = _nearest(sold, asked.value)
                if not any(asked.allows(size) for size in sold):
                    said.append(
                        f"no machine has {name} {asked}; nearest {_figures(near)}; {name}: {asked}+ takes larger ones"
                    )
            elif asked.compare is Compare.AT_LEAST and sold and sold[-1] < asked.value:
                said.append(f"the largest machine has {name} {sold[-1]:g}, asked {asked}")
        return "; ".join(said) or f"no machine has {_asked(demand)} together"

    def _sold_where(self, demand: Demand) -> str:
        rows = self._search.hardware(demand)
        in_cloud = (
            self._search.in_place(rows, replace(demand, region="", zone="", rules=()))
            if demand.cloud
            else rows
        )
        if not len(in_cloud):
            return f"sold by {_join(self._table.distinct('cloud', rows))}"
        return f"cheapest in {_join(self._table.in_order('region', in_cloud))}"


def hardware_words(demand: Demand) -> str:
    """The hardware of a request in a few words: `A100:8 spot`."""
    request = demand.request
    words = [
        str(request.accelerator) if request.accelerator else "",
        request.instance_type,
        _sizes(request.cpus, request.memory),
    ]
    named = " ".join(w for w in words if w) or "a default machine"
    return f"{named} spot" if request.market is Market.SPOT else named


def idle_lines(idle: Sequence[tuple[Demand, PlaceGlob]]) -> list[str]:
    """A line for each allowed pattern that means places, none of which sells what is asked."""
    lines = [
        f"{hardware_words(demand)} is not sold in {glob_words(glob)}: passed over"
        for demand, glob in idle
    ]
    return list(dict.fromkeys(lines))[:MOST_LINES]


def dropped_lines(
    dropped: Mapping[DropRule, int], blocked: Sequence[tuple[Block, int]], now: Instant
) -> tuple[Dropped, ...]:
    """What was dropped by which rule; blocks of one cause together."""
    lines = [
        Dropped(rule, count)
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


def _kind(demand: Demand, stage: Stage) -> tuple[object, ...]:
    """What makes two requests fail alike."""
    cloud = demand.cloud if stage is Stage.PLACE else ""
    return (stage, demand.query, demand.request.cpus, demand.request.memory, demand.unknown, cloud)


def _place(demand: Demand) -> str:
    named = "/".join(part or "*" for part in (demand.cloud, demand.region, demand.zone)).rstrip(
        "/*"
    )
    return " and ".join(
        part for part in (named, *(f"({rule_words(rule)})" for rule in demand.rules)) if part
    )


def _sizes(cpus: Quantity | None, memory: Quantity | None) -> str:
    return " ".join(
        w for w in (f"cpus {cpus}" if cpus else "", f"memory {memory}" if memory else "") if w
    )


def _asked(demand: Demand) -> str:
    return _sizes(demand.request.cpus, demand.request.memory) or "all that is asked"


def _nearest(sold: Sequence[float], value: float) -> list[float]:
    below = [size for size in sold if size < value][-1:]
    return below + [size for size in sold if size > value][:1]


def _figures(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values) or "none"


def _join(names: Sequence[str], more: int = 0) -> str:
    """The first names, and how many further ones there are, `more` of them uncounted by `names`."""
    more += max(0, len(names) - MOST_NAMES)
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {more} more" if more else shown
