"""What is wrong with the names in a spec, whichever clouds are set up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.market import SuccessModel
from nbprov.model.spec import Spec

from .conditions import PlanConditions
from .errors import PlanError, PlanProblem
from .lookup.catalog_columns import CatalogColumns
from .lookup.skypilot_capabilities import skypilot_clouds
from .request_resolution import resolve_requests

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

UNKNOWN_ACCELERATOR = "plan.unknown-accelerator"
NOT_ABOUT_NAMES = frozenset({"plan.unsupported"})
"""Codes of problems that depend on the clouds that are set up."""


def name_problems(
    spec: Spec, catalog: Catalog, other_clouds: Iterable[str] = ()
) -> list[PlanProblem]:
    """Return the problems with clouds, places, types and GPUs that a catalogue does not have.

    Nothing is asked of a cloud, so it can be called at every change of a cell.

    Parameters
    ----------
    spec
        A spec that could be read.
    other_clouds
        Clouds that exist beside those of the catalogue. What stands beside their names is not
        looked at, since nothing is known of it here.

    Examples
    --------
    >>> import nbprov
    >>> from nbprov.catalog import default_catalog
    >>> spec = nbprov.parse("resources: {accelerators: H1000, cloud: awz}")
    >>> [problem.message for problem in name_problems(spec, default_catalog())]
    ["no cloud is called 'awz'"]
    """
    sold = catalog.clouds()
    not_here = {cloud for cloud in other_clouds if cloud not in sold}
    requests = tuple(one for one in spec.requests if one.cloud.lower() not in not_here)
    if not requests:
        return []
    conditions = PlanConditions(
        enabled=skypilot_clouds([*sold, *not_here]), success_model=SuccessModel(now=0.0)
    )
    try:
        resolved = resolve_requests(
            replace(spec, requests=requests), catalog, CatalogColumns(catalog), conditions
        )
    except PlanError as error:
        return [problem for problem in error.problems if problem.code not in NOT_ABOUT_NAMES]
    return [
        PlanProblem(
            UNKNOWN_ACCELERATOR,
            one.request.origin,
            f"no cloud in the catalogue sells {one.request.accelerator.name}",
            f"did you mean {' or '.join(one.unknown)}?" if one.unknown else "",
            one.unknown,
            word=one.request.accelerator.name,
        )
        for one in resolved
        if one.unknown is not None and one.request.accelerator is not None
    ]
