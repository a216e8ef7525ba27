"""The order of a plan once a person has put some of its places first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from nbprov.model.errors import UsageError
from nbprov.model.offers import PLAN_ROWS, Plan

from .candidates import CandidateList

Key = tuple[str, ...]


def keys_at(plan: Plan, places: Sequence[int | Key]) -> tuple[Key, ...]:
    """Return the keys of a plan's places by their ranks; keys stay as they are.

    Raises
    ------
    UsageError
        If none of the places that can be put first has such a rank.
    """
    shown = plan.candidates
    most = min(len(shown), PLAN_ROWS)
    keys = []
    for place in places:
        if isinstance(place, tuple):
            keys.append(place)
        elif 0 <= place < most:
            keys.append(shown[place].key)
        else:
            raise UsageError(
                f"the plan has no place {place + 1}",
                hint=f"its places are 1 to {most}",
                code="run.no-place",
            )
    return tuple(dict.fromkeys(keys))


def put_first(plan: Plan, keys: Sequence[Key]) -> Plan:
    """Return a plan with the candidates of these keys first, in their order.

    Those that are not among the plan's first places are left out. The dearest candidate may be one
    of them, also where its price is in doubt: who puts it first has seen its price.
    """
    if not keys or not isinstance(plan.candidates, CandidateList):
        return plan
    wanted, ranks = set(keys), {}
    for candidate in islice(plan.candidates, PLAN_ROWS):
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
