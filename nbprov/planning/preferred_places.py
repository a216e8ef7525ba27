"""The order of a plan once a person has put some of its places first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from nbprov.model.offers import Plan

from .candidates import CandidateList

MOST_LOOKED_AT = 5000
"""The first places of a plan, as many as a panel shows; a place behind them keeps its own place."""


def put_first(plan: Plan, keys: Sequence[tuple[str, ...]]) -> Plan:
    """Return a plan with the candidates of these keys first, in their order.

    Those that the plan does not have are left out. The dearest candidate may be one of them, also
    where its price is in doubt: who puts it first has seen its price.
    """
    if not keys or not isinstance(plan.candidates, CandidateList):
        return plan
    wanted, ranks = set(keys), {}
    for candidate in islice(plan.candidates, MOST_LOOKED_AT):
        if candidate.key in wanted:
            ranks[candidate.key] = candidate.rank
        if len(ranks) == len(wanted):
            break
    found = [ranks[key] for key in keys if key in ranks]
    candidates = plan.candidates.put_first(found)
    dearest = plan.dearest
    for candidate in candidates[: len(found)]:
        if dearest is None or candidate.hourly > dearest.hourly:
            dearest = candidate
    return replace(plan, candidates=candidates, dearest=dearest, preferred=len(found))
