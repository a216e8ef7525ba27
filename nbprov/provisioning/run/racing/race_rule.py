"""How a run races: how many places at once, and after how long another one joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.money import Micros, exact_usd
from nbprov.model.offers import Candidate, Plan
from nbprov.model.run_policies import Race
from nbprov.model.spec import Spec
from nbprov.provisioning.run.pricing.consent import fits_budget

from .hedging import Hedging

MOST_GANGS = 2
"""How many clusters of several nodes race at most; more would be a fleet."""


@dataclass(frozen=True, slots=True)
class RaceRule:
    """How many places a run tries at once and when one joins, as its note says before Launch.

    Attributes
    ----------
    width
        How many places may be tried at once.
    hedge
        See `Race.hedge`.
    """

    width: int
    hedge: Seconds | None
    words: str = ""


def race_rule(race: Race, plan: Plan, *, usual: Callable[[str], Seconds]) -> RaceRule:
    """How wide a race over a plan may be, given its nodes and its budget."""
    spec, first = plan.spec, plan.chosen
    width = min(race.width, MOST_GANGS) if spec.num_nodes > 1 else race.width
    width = max(1, min(width, len(plan.candidates)))
    if first is None or width == 1:
        return RaceRule(1, race.hedge)
    if not fits_budget(spec.guards, first.hourly * width):
        said = (
            f"race: one place at a time: {width} at once at {exact_usd(first.hourly)}/h"
            " do not fit the budget"
        )
        return RaceRule(1, race.hedge, said)
    what = "clusters" if spec.num_nodes > 1 else "places"
    if race.hedge is None:
        joins = (
            "a further one only beside one that has not answered within"
            f" {short_duration(usual(first.offer.cloud))} ({first.offer.cloud}'s usual time)"
        )
    else:
        joins = f"a further one beside one that is not ready within {short_duration(race.hedge)}"
    words = (
        f"race: up to {width} {what} at once; {joins};"
        " the first ready is kept, the others are ended"
    )
    return RaceRule(width, race.hedge, words)


def hedging_of(
    rule: RaceRule, spec: Spec, usual: Callable[[str], Seconds], spent: Callable[[], Micros]
) -> Hedging:
    """A race rule as the failover takes it.

    Parameters
    ----------
    usual
        How long a cloud usually takes to accept a create.
    spent
        What the run cost so far.
    """
    usual_once = lru_cache(maxsize=32)(usual)

    def after(candidate: Candidate) -> Seconds:
        return rule.hedge if rule.hedge is not None else usual_once(candidate.offer.cloud)

    def affords(racing: Sequence[Candidate], candidate: Candidate) -> bool:
        return spec.guards.budget is None or fits_budget(
            spec.guards, sum(c.hourly for c in (*racing, candidate)), spent=spent()
        )

    return Hedging(rule.width, after, rule.hedge is not None, affords)
