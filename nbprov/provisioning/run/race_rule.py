"""How a run races: how wide, and after how long a further place joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.money import Micros, format_usd
from nbprov.model.offers import Candidate, Plan
from nbprov.model.run_policies import Race
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger

from .consent import fits_budget
from .hedging import Hedging

USUAL_ACCEPT: Seconds = 30.0
"""From the request to the acceptance, where nothing was seen of a cloud yet."""
LEAST_ACCEPT: Seconds = 5.0
"""However quick a cloud usually is: a second machine is not bought for the sake of a moment."""
SAMPLES = 50
"""So many of the latest acceptances of a cloud count."""
LEAST_SAMPLES = 5
"""From so few nothing is learnt."""
QUARTILE = 0.75
MOST_GANGS = 2
"""Of several nodes, whole clusters race, and more than two would be a fleet."""


@dataclass(frozen=True, slots=True)
class RaceRule:
    """How a run races, and what is said of it before Launch.

    Attributes
    ----------
    eager
        Asked for on the magic line or by argument: a further place joins even where the others were accepted.
    """

    width: int
    hedge: Seconds | None
    eager: bool = False
    words: str = ""


def usual_accept(ledger: Ledger, cloud: str) -> Seconds:
    """The time in which three of four accepted creates of a cloud were accepted."""
    seen = sorted(ledger.observations.accept_seconds(cloud, SAMPLES))
    if len(seen) < LEAST_SAMPLES:
        return USUAL_ACCEPT
    return max(LEAST_ACCEPT, seen[min(len(seen) - 1, int(len(seen) * QUARTILE))])


def race_rule(
    race: Race, plan: Plan, *, usual: Callable[[str], Seconds], eager: bool = False
) -> RaceRule:
    """How wide a race over a plan may be, after gangs and budget had their say."""
    spec, first = plan.spec, plan.chosen
    width = min(race.width, MOST_GANGS) if spec.num_nodes > 1 else race.width
    width = max(1, min(width, len(plan.candidates)))
    if first is None or width == 1:
        return RaceRule(1, race.hedge, eager)
    if not fits_budget(spec.guards, first.hourly * width):
        said = f"race: one place at a time: {width} at once at {format_usd(first.hourly)}/h do not fit the budget"
        return RaceRule(1, race.hedge, eager, said)
    after = usual(first.offer.cloud) if race.hedge is None else race.hedge
    what = "clusters" if spec.num_nodes > 1 else "places"
    if eager:
        joins = f"the next joins {short_duration(after)} after the one before"
    else:
        how = f"{first.offer.cloud}'s usual time" if race.hedge is None else "your hedge"
        joins = f"a further one only beside one that has not answered within {short_duration(after)} ({how})"
    return RaceRule(
        width,
        race.hedge,
        eager,
        f"race: up to {width} {what} at once; {joins}; the first ready is kept, the others are ended",
    )


def hedging_of(rule: RaceRule, spec: Spec, ledger: Ledger, spent: Callable[[], Micros]) -> Hedging:
    """The rule as the failover takes it."""

    @lru_cache(maxsize=32)
    def usual(cloud: str) -> Seconds:
        return usual_accept(ledger, cloud)

    def after(candidate: Candidate) -> Seconds:
        return rule.hedge if rule.hedge is not None else usual(candidate.offer.cloud)

    def affords(racing: Sequence[Candidate], candidate: Candidate) -> bool:
        return spec.guards.budget is None or fits_budget(
            spec.guards, sum(c.hourly for c in (*racing, candidate)), spent=spent()
        )

    return Hedging(rule.width, after, rule.eager, affords)
