"""Spec x offers x blocks x enabled clouds -> Plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nbprov.catalog.families import MEMORY_IS_TYPICAL
from nbprov.model.clock import Instant
from nbprov.model.offers import Block, Plan
from nbprov.model.spec import Spec

from .candidates import CandidateList, ordinal
from .enabled import EnabledCloud, why_disabled
from .errors import PlanError, PlanProblem

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .resolve import Demand
    from .search import Found
    from .table import Table


def plan(
    spec: Spec,
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block] = (),
    now: Instant = 0.0,
    disabled: Mapping[str, str] | None = None,
    demo: bool = False,
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
    from .explain import Explainer, dropped_lines
    from .search import Search
    from .table import Table

    disabled = disabled or {}
    table = Table(catalog)
    demands = _resolved(spec, catalog, table, enabled, disabled, demo)
    search = Search(table, enabled, disabled, count=spec.num_nodes, demo=demo)
    live = [block for block in blocks if block.is_live(now)]
    found = search.run(demands, live)
    candidates = CandidateList(
        found.rows,
        found.request_of,
        requests=spec.requests,
        offer=catalog.offer,
        accounts={name: cloud.account for name, cloud in enabled.items()},
        count=spec.num_nodes,
        tiers=sorted({request.tier for request in spec.requests}),
    )
    dearest = int(table.of("hourly", found.rows).argmax()) if len(candidates) else None
    notes = [
        *(() if len(candidates) else (_why_empty(found),)),
        *(note for demand in demands for note in demand.notes),
        *_empty_tiers(spec, found),
        *Explainer(search, table).lines(demands, found),
        *_notes(spec, demands, found, table, enabled, disabled),
    ]
    return Plan(
        spec=spec,
        candidates=candidates,
        dearest=None if dearest is None else candidates[dearest],
        dropped=dropped_lines(found.dropped, found.blocked, now),
        notes=tuple(dict.fromkeys(notes)),
        made_at=now,
    )


def _resolved(
    spec: Spec,
    catalog: Catalog,
    table: Table,
    enabled: Mapping[str, EnabledCloud],
    disabled: Mapping[str, str],
    demo: bool,
) -> list[Demand]:
    from .resolve import Refused, Resolver

    usable = {name for name, cloud in enabled.items() if demo or not cloud.capabilities.named_only}
    resolver = Resolver(catalog, table, usable, {*enabled, *disabled})
    demands, problems = [], []
    for request in spec.requests:
        try:
            demands.append(resolver.resolve(request))
        except Refused as refused:
            problems.append(refused.problem)
    if problems:
        raise PlanError(_distinct(problems))
    return demands


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
    return [f"the {ordinal(place)} choice has no candidate and is passed over" for place, tier in enumerate(tiers) if tier not in placed]


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
    notes = [f"the catalogue has no prices of {c}" if c in enabled else why_disabled(c, disabled) for c in unpriced]
    if not len(found.rows):
        return notes
    clouds = set(table.distinct("cloud", found.rows))
    if any(d.plain and d.request.cpus is None and d.request.memory is None for d in demands):
        notes.append(
            "no vCPUs and no memory asked: machines from 8 vCPUs and 4 GiB a vCPU on (Lambda: 30 vCPUs), where a cloud has such a default"
        )
    typical = sorted(clouds & MEMORY_IS_TYPICAL)
    if typical and any(d.request.memory is not None and not d.plain for d in demands):
        notes.append(f"memory beside a GPU is a typical figure on {', '.join(typical)}: counted as met, checked when the machine is up")
    autostop = spec.guards.autostop
    if autostop is not None and not autostop.down:
        cannot = sorted(c for c in clouds if not enabled[c].capabilities.stop)
        if cannot:
            notes.append(f"{', '.join(cannot)} cannot stop a machine: autostop ends it there, its disk with it")
    return notes
