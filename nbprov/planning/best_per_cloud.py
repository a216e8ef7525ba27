"""The best candidates of each cloud, for a table that compares clouds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from nbprov.model.offers import Candidate, Plan


def best_by_cloud(
    plan: Plan, most: int = 1, *, clouds: Collection[str] | None = None
) -> tuple[Candidate, ...]:
    """The first candidate of every cloud in a plan, in the plan's order.

    Parameters
    ----------
    most
        So many of each cloud at most.
    clouds
        Only of these clouds; of all by default.

    Examples
    --------
    >>> from nbprov.catalog import default_catalog
    >>> from nbprov.model.resources import Accelerator, Request
    >>> from nbprov.model.spec import Spec
    >>> from nbprov.planning import EnabledCloud, plan
    >>> spec = Spec(requests=(Request(accelerator=Accelerator("A100", 8)),))
    >>> made = plan(spec, default_catalog(), {"aws": EnabledCloud("me"), "gcp": EnabledCloud("me")})
    >>> len(best_by_cloud(made)), best_by_cloud(made)[0] == made.chosen
    (2, True)
    """
    from .candidates import CandidateList

    if isinstance(plan.candidates, CandidateList):
        return tuple(plan.candidates.first_of_clouds(most, clouds=clouds))
    counted: Counter[str] = Counter()
    first = []
    for candidate in plan.candidates:
        if clouds is not None and candidate.offer.cloud not in clouds:
            continue
        counted[candidate.offer.cloud] += 1
        if counted[candidate.offer.cloud] <= most:
            first.append(candidate)
    return tuple(first)
