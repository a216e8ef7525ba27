"""Make a plan: a spec, the catalogue and the conditions in, the ordered candidates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nbprov.market import SuccessModel
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant
from nbprov.model.offers import Plan, Unusable
from nbprov.model.spec import Spec

from .candidates import CandidateBuilder, CandidateList
from .conditions import PlanConditions
from .lookup.enabled_clouds import EnabledCloud

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .candidate_search import CandidateSearch
    from .lookup.catalog_columns import CatalogColumns
    from .lookup.resolved_request import ResolvedRequest
    from .search_result import SearchResult


def plan(
    spec: Spec,
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block] = (),
    now: Instant = 0.0,
    disabled: Mapping[str, str] | None = None,
    silent: Mapping[str, Instant] | None = None,
    demo: bool = False,
    success_model: SuccessModel | None = None,
) -> Plan:
    """Order every offer that satisfies a spec.

    Inside a tier the cheapest node comes first; equal prices are in the order of the requests,
    then of cloud, region, zone and type by name, so the same inputs always give the same plan.
    An offer that satisfies several requests stands once, for the most preferred.

    Parameters
    ----------
    catalog
        Prices, live offers included.
    enabled, disabled, silent, demo, success_model
        As in `PlanConditions`. Without a success model nothing is known of the stock.
    blocks
        Patterns that take candidates out, each until it expires.
    now
        The instant that decides whether a block still holds.

    Returns
    -------
    Plan
        Without candidates where nothing satisfies the spec; the notes then say why.

    Raises
    ------
    PlanError
        With every name that does not exist or is ambiguous, and every type that contradicts
        what is asked beside it.

    Examples
    --------
    >>> from nbprov.catalog import default_catalog
    >>> from nbprov.model.resources import Accelerator, Request
    >>> spec = Spec(requests=(Request(accelerator=Accelerator("A100", 8)),))
    >>> clouds = {"aws": EnabledCloud("me"), "gcp": EnabledCloud("me")}
    >>> made = plan(spec, default_catalog(), clouds)
    >>> made.chosen.offer.gpus, made.chosen.why
    ('A100:8', 'cheapest')
    """
    conditions = PlanConditions(
        enabled=enabled,
        disabled=disabled or {},
        silent=silent or {},
        blocks=tuple(block for block in blocks if block.is_live(now)),
        now=now,
        demo=demo,
        success_model=success_model or SuccessModel(now=now),
    )
    return plan_under(spec, catalog, conditions)


def plan_under(spec: Spec, catalog: Catalog, conditions: PlanConditions) -> Plan:
    """Make the plan of a spec under given conditions; see `plan`."""
    from .explain import dropped_lines
    from .lookup.catalog_columns import CatalogColumns
    from .plan_notes import plan_notes

    table = CatalogColumns(catalog)
    requests, search, result = search_spec(spec, catalog, table, conditions)
    candidates = _candidates(spec, catalog, table, conditions, result)
    dearest = _dearest(table, result) if len(candidates) else None
    return Plan(
        spec=spec,
        candidates=candidates,
        dearest=None if dearest is None else candidates[dearest],
        unknown=tuple(
            r.request.accelerator.name
            for r in requests
            if r.unknown is not None and r.request.accelerator is not None
        ),
        dropped=dropped_lines(spec, result.dropped, result.blocked, conditions.now),
        notes=plan_notes(spec, requests, search, result, table, conditions),
        made_at=conditions.now,
        unusable=_unusable(result, catalog, conditions),
        silent=tuple(sorted(conditions.silent)),
    )


def _dearest(table: CatalogColumns, result: SearchResult) -> int:
    """The rank of the dearest candidate whose price is not in doubt, else of the dearest one."""
    hourly, doubtful = table.of("hourly", result.rows), table.is_price_doubtful(result.rows)
    return int(hourly.argmax() if doubtful.all() else (hourly * ~doubtful).argmax())


def search_spec(
    spec: Spec, catalog: Catalog, table: CatalogColumns, conditions: PlanConditions
) -> tuple[list[ResolvedRequest], CandidateSearch, SearchResult]:
    """Find the rows of a plan, without the words about them."""
    from .candidate_search import CandidateSearch
    from .request_resolution import resolve_requests

    requests = resolve_requests(spec, catalog, table, conditions)
    search = CandidateSearch(
        table, conditions, count=spec.num_nodes, expose=spec.expose, prefer=spec.prefer
    )
    return requests, search, search.run(requests)


def _candidates(
    spec: Spec,
    catalog: Catalog,
    table: CatalogColumns,
    conditions: PlanConditions,
    result: SearchResult,
) -> CandidateList:
    return CandidateList(
        CandidateBuilder(
            result.rows,
            result.request_of,
            requests=spec.requests,
            offer=catalog.offer,
            accounts={name: cloud.account for name, cloud in conditions.enabled.items()},
            count=spec.num_nodes,
            cloud_codes=lambda rows: table.of("cloud", rows),
            prefer=spec.prefer,
            success_model=conditions.success_model,
        )
    )


def _unusable(
    result: SearchResult, catalog: Catalog, conditions: PlanConditions
) -> tuple[Unusable, ...]:
    """What clouds that are not set up, or do not answer, would offer, the cheapest first."""
    offers = [
        Unusable(catalog.offer(row), conditions.why_not(cloud), silent=cloud in conditions.silent)
        for cloud, row in result.unusable.items()
    ]
    return tuple(sorted(offers, key=lambda u: (u.offer.hourly, u.offer.cloud)))
