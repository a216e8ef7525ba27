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
from nbprov.provisioning.ledger import Ledger

from .hedging import Hedging
from .pricing.consent import fits_budget

USUAL_ACCEPT: Seconds = 30.0
"""How long a cloud takes to accept a create while nothing was seen of it yet."""
LEAST_ACCEPT: Seconds = 5.0
"""The least such time, however quick a cloud is: a moment is not worth a second machine."""
SAMPLES = 50
"""This many of the latest acceptances of a cloud count."""
LEAST_SAMPLES = 5
"""Fewer acceptances than this say nothing."""
QUARTILE = 0.75
MOST_GANGS = 2
"""How many clusters of several nodes race at most; more would be a fleet."""


@dataclass(frozen=True, slots=True)
class RaceRule:
    """How a run races, and the note on it before Launch.

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


def usual_accept(ledger: Ledger, cloud: str) -> Seconds:
    """The time within which a cloud accepted three of four creates."""
    seen = sorted(ledger.observations.accept_seconds(cloud, SAMPLES))
    if len(seen) < LEAST_SAMPLES:
        return USUAL_ACCEPT
    return max(LEAST_ACCEPT, seen[min(len(seen) - 1, int(len(seen) * QUARTILE))])


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
