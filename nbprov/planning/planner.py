"""Spec x offers x blocks x enabled clouds -> Plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.market import Chances
from nbprov.model.clock import Instant
from nbprov.model.offers import Block, Plan, Unusable
from nbprov.model.spec import Request, Spec

from .candidates import CandidateList, ordinal
from .errors import PlanError, PlanProblem
from .lookup.enabled_clouds import NO_ADAPTER, EnabledCloud, why_disabled
from .lookup.unusable_clouds import unusable, without_adapter

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .candidate_search import Found, Search
    from .lookup.catalog_columns import Table
    from .lookup.name_resolution import Demand

OF_A_PLACE = frozenset({"plan.unknown-place", "plan.unknown-region", "plan.unknown-zone"})
"""Slips that are none where another cloud of the same list has the place."""


def plan(
    spec: Spec,
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block] = (),
    now: Instant = 0.0,
    disabled: Mapping[str, str] | None = None,
    demo: bool = False,
    chances: Chances | None = None,
) -> Plan:
    """Order every offer that satisfies a spec.

    Inside a tier the cheapest node comes first; equal prices are in the order of the requests, then of cloud, region, zone and type by name, so the
    same inputs always give the same plan. An offer that satisfies several requests stands once, for the most preferred.

    Parameters
    ----------
    catalog
        Prices, live offers included.
    enabled
        The clouds that may be used, by name.
    blocks
        Patterns that take candidates out, each until it expires.
    now
        The instant that decides whether a block still holds.
    disabled
        Why other clouds may not be used, by name; what is in neither mapping has no adapter.
    demo
        Lets clouds take part that otherwise enter a plan only when a spec names them.
    chances
        How likely an attempt is to be accepted, for this many nodes at this instant; decides between equal prices, and what is `soonest` and
        `balanced`. None: nothing is known.

    Returns
    -------
    Plan
        Without candidates where nothing satisfies the spec; the notes then say why and what would.

    Raises
    ------
    PlanError
        A cloud, region, zone or type that does not exist or is ambiguous, an ambiguous accelerator, or a type at odds with what stands beside it; all
        of a spec's at once.

    Examples
    --------
    >>> from nbprov.catalog import default_catalog
    >>> from nbprov.model.spec import Accelerator, Request
    >>> spec = Spec(requests=(Request(accelerator=Accelerator("A100", 8)),))
    >>> made = plan(spec, default_catalog(), {"aws": EnabledCloud("me"), "gcp": EnabledCloud("me")})
    >>> made.chosen.offer.gpus, made.chosen.why
    ('A100:8', 'cheapest')
    """
    from .explain import Explainer, dropped_lines, idle_lines
    from .lookup.catalog_columns import Table

    disabled, chances = disabled or {}, chances or Chances(now=now)
    table = Table(catalog)
    demands, search, found = looked_up(
        spec,
        catalog,
        table,
        enabled,
        blocks=blocks,
        now=now,
        disabled=disabled,
        demo=demo,
        chances=chances,
    )
    candidates = CandidateList(
        found.rows,
        found.request_of,
        requests=spec.requests,
        offer=catalog.offer,
        accounts={name: cloud.account for name, cloud in enabled.items()},
        count=spec.num_nodes,
        tiers=sorted({request.tier for request in spec.requests}),
        cloud_codes=lambda rows: table.of("cloud", rows),
        prefer=spec.prefer,
        chances=chances,
    )
    dearest = int(table.of("hourly", found.rows).argmax()) if len(candidates) else None
    notes = [
        *(() if len(candidates) else (_why_empty(found),)),
        *(note for demand in demands for note in demand.notes),
        *_empty_tiers(spec, found),
        *Explainer(search, table).lines(demands, found),
        *idle_lines(found.idle),
        *_stock_notes(found),
        *_notes(spec, demands, found, table, enabled, disabled),
    ]
    return Plan(
        spec=spec,
        candidates=candidates,
        dearest=None if dearest is None else candidates[dearest],
        dropped=dropped_lines(found.dropped, found.blocked, now),
        notes=tuple(dict.fromkeys(notes)),
        made_at=now,
        unusable=_unusable(found, catalog, disabled),
    )


def _unusable(found: Found, catalog: Catalog, disabled: Mapping[str, str]) -> tuple[Unusable, ...]:
    """What clouds that are not set up would offer, the cheapest first."""
    offers = [
        Unusable(catalog.offer(row), disabled.get(cloud) or NO_ADAPTER)
        for cloud, row in found.unusable.items()
    ]
    return tuple(sorted(offers, key=lambda u: (u.offer.hourly, u.offer.cloud)))


def looked_up(
    spec: Spec,
    catalog: Catalog,
    table: Table,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block],
    now: Instant,
    disabled: Mapping[str, str],
    demo: bool,
    chances: Chances,
) -> tuple[list[Demand], Search, Found]:
    """The part of a plan that finds its rows, without the words about them; parameters as for `plan`."""
    from .candidate_search import Search

    demands = _resolved(spec, catalog, table, enabled, disabled, demo)
    search = Search(
        table,
        enabled,
        disabled,
        count=spec.num_nodes,
        demo=demo,
        expose=spec.expose,
        prefer=spec.prefer,
        chances=chances,
    )
    return demands, search, search.run(demands, [block for block in blocks if block.is_live(now)])


def _resolved(
    spec: Spec,
    catalog: Catalog,
    table: Table,
    enabled: Mapping[str, EnabledCloud],
    disabled: Mapping[str, str],
    demo: bool,
) -> list[Demand]:
    from .filters.features import needs_of, refused_outright
    from .lookup.name_resolution import Refused, Resolver

    usable = {name for name, cloud in enabled.items() if demo or not cloud.capabilities.named_only}
    resolver = Resolver(catalog, table, usable, {*enabled, *disabled})
    demands: list[Demand] = []
    problems: list[PlanProblem] = []
    impossible: list[PlanProblem] = []
    elsewhere: list[tuple[Request, PlanProblem]] = []
    beside = _clouds_beside(spec.requests)
    found: dict[Request, int] = {}
    for request in spec.requests:
        alike = _but_for_its_cloud(request)
        try:
            demand = resolver.resolve(request, beside[alike])
        except Refused as refused:
            if refused.problem.code in OF_A_PLACE and len(beside[alike]) > 1:
                elsewhere.append((alike, refused.problem))
            else:
                problems.append(refused.problem)
            continue
        found.setdefault(alike, len(demands))
        demands.append(demand)
        cloud = enabled.get(demand.cloud) if request.cloud else None
        if cloud is not None:
            rule = refused_outright(
                demand.cloud, cloud.capabilities, needs_of(request, spec.num_nodes, spec.expose)
            )
            if rule is not None:
                impossible.append(
                    PlanProblem(
                        "plan.unsupported",
                        request.origin,
                        rule.words,
                        "name another cloud, or leave this out",
                    )
                )
    for alike, problem in elsewhere:
        if alike in found:
            there = demands[found[alike]]
            demands[found[alike]] = replace(
                there, notes=(*there.notes, f"{problem.message}: passed over")
            )
        else:
            problems.append(problem)
    if len(impossible) == len(spec.requests):
        problems = impossible
    problems = problems or unusable(spec, demands, table, enabled, disabled)
    if problems:
        raise PlanError(_distinct(problems))
    return demands


def _but_for_its_cloud(request: Request) -> Request:
    """What all requests share that a list of clouds was expanded to."""
    return replace(request, index=0, cloud="")


def _clouds_beside(requests: Iterable[Request]) -> dict[Request, tuple[str, ...]]:
    """The clouds that each request was written with: of `cloud: [aws, gcp]`, a place that one of them has is no slip."""
    beside: dict[Request, tuple[str, ...]] = {}
    for request in requests:
        alike = _but_for_its_cloud(request)
        beside[alike] = (*beside.get(alike, ()), request.cloud)
    return beside


def _why_empty(found: Found) -> str:
    if found.blocked:
        return "all that satisfies this spec is blocked for now: %nbprov blocks shows why and until when"
    return "nothing satisfies this spec as it stands"


def _distinct(problems: Iterable[PlanProblem]) -> list[PlanProblem]:
    """Each problem once: forty requests made of one line name one slip."""
    return list({(p.origin.line, p.message): p for p in reversed(list(problems))}.values())[::-1]


def _empty_tiers(spec: Spec, found: Found) -> list[str]:
    """A line for each choice that is passed over while a later one has candidates."""
    tiers = sorted({request.tier for request in spec.requests})
    if len(tiers) == 1 or not len(found.rows):
        return []
    placed = {spec.requests[i].tier for i in set(found.request_of.tolist())}
    return [
        f"the {ordinal(place)} choice has no candidate and is passed over"
        for place, tier in enumerate(tiers)
        if tier not in placed
    ]


def _stock_notes(found: Found) -> list[str]:
    """What the clouds' own word on stock did to the order."""
    all_of_them, out = len(found.rows), found.sold_out
    if not out:
        return []
    if out < all_of_them:
        return [
            f"{out:,} of {all_of_them:,} places {'is' if out == 1 else 'are'} out of stock by {'its' if out == 1 else 'their'} cloud's own word: tried last"
        ]
    whose = "the only place is" if out == 1 else f"all {out:,} places are"
    return [
        f"{whose} out of stock by {'its' if out == 1 else 'their'} cloud's own word, which may be out of date: the best is tried all the same"
    ]


def _notes(
    spec: Spec,
    demands: Iterable[Demand],
    found: Found,
    table: Table,
    enabled: Mapping[str, EnabledCloud],
    disabled: Mapping[str, str],
) -> list[str]:
    demands = list(demands)
    unpriced = sorted({d.cloud for d in demands if d.cloud and d.cloud not in table.places})
    notes = [
        f"the catalogue has no prices of {c}" if c in enabled else why_disabled(c, disabled)
        for c in unpriced
    ]
    if not len(found.rows):
        return notes + without_adapter(demands, enabled, disabled)
    clouds = set(table.distinct("cloud", found.rows))
    if any(d.plain and d.request.cpus is None and d.request.memory is None for d in demands):
        notes.append(
            "no vCPUs and no memory asked: machines from 8 vCPUs and 4 GiB a vCPU on (Lambda: 30 vCPUs), where a cloud has such a default"
        )
    typical = sorted(clouds & MEMORY_IS_TYPICAL)
    if typical and any(d.request.memory is not None and not d.plain for d in demands):
        notes.append(
            f"memory beside a GPU is a typical figure on {', '.join(typical)}: counted as met, checked when the machine is up"
        )
    notes += _disk_notes(demands, found, table)
    autostop = spec.guards.autostop
    if autostop is not None and not autostop.down:
        cannot = sorted(c for c in clouds if not enabled[c].capabilities.stop)
        if cannot:
            notes.append(
                f"{', '.join(cannot)} cannot stop a machine: autostop ends it there, its disk with it"
            )
    return notes


def _disk_notes(demands: Iterable[Demand], found: Found, table: Table) -> list[str]:
    """Azure's fall-back: machines that take no premium disk start from a standard one where no tier was asked."""
    from .filters.features import NO_TIER
    from .filters.machines import without_premium_disk

    if any(d.request.disk_tier not in NO_TIER for d in demands):
        return []
    kinds = without_premium_disk(table, found.rows)
    if not kinds:
        return []
    more = f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
    return [
        f"azure: {', '.join(kinds[:3])}{more} take no premium disk: they start from a standard one (disk_tier low)"
    ]
