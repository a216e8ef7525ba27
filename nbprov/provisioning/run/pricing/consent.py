"""What Launch agrees to: the most a run may pay without asking the user again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nbprov.model.clock import short_duration
from nbprov.model.guards import Guards
from nbprov.model.money import SECONDS_PER_HOUR, Micros, exact_usd
from nbprov.model.offers import Candidate, Plan
from nbprov.model.run_policies import ConfirmAbove
from nbprov.model.spec import Spec
from nbprov.provisioning.supervision.guard_config import LEAST_BUDGET_SECONDS
from nbprov.remote.agent.config import BUDGET_RESERVE_SECONDS


@dataclass(frozen=True, slots=True)
class Consent:
    """What pressing Launch agrees to.

    Attributes
    ----------
    plan
        Its `dearest` is the dearest place that may be taken.
    hourly
        The most the whole cluster may cost an hour.
    passed_over
        How many places are dearer than that.
    words
        The note on them before Launch; empty where there are none.
    """

    plan: Plan
    hourly: Micros
    passed_over: int = 0
    words: str = ""


def consent_to(plan: Plan, *, agreed: bool = False) -> Consent:
    """What Launch agrees to for a plan; with `agreed` (`--yes`), all that the spec's caps allow."""
    dearest = plan.dearest or plan.chosen
    if plan.chosen is None or dearest is None:
        return Consent(plan, 0)
    if agreed:
        return Consent(plan, max(dearest.hourly, (cap_of(plan.spec) or 0) * plan.spec.num_nodes))
    ceiling = _ceiling(plan.spec, plan.chosen)
    if ceiling is None or dearest.hourly <= ceiling:
        return Consent(plan, dearest.hourly)
    kept: Candidate | None = None
    beyond: list[Micros] = []
    for candidate in plan.candidates:
        if candidate.hourly > ceiling:
            beyond.append(candidate.hourly)
        elif kept is None or candidate.hourly > kept.hourly:
            kept = candidate
    places, are = ("places", "are") if len(beyond) > 1 else ("place", "is")
    words = (
        f"confirm_above: {len(beyond):,} {places} from {exact_usd(min(beyond))}/h on"
        f" {are} passed over (beyond {exact_usd(ceiling)}/h); --yes takes them too"
    )
    return Consent(replace(plan, dearest=kept), ceiling, len(beyond), words)


def cap_of(spec: Spec) -> Micros | None:
    """The highest hourly cap of a spec's alternatives for one node; None where one has none."""
    caps = [r.max_hourly for r in spec.requests]
    return max((c for c in caps if c is not None), default=None) if None not in caps else None


def _ceiling(spec: Spec, first: Candidate) -> Micros | None:
    confirm, limits = spec.confirm_above, []
    if confirm.jump is not None:
        limits.append(first.hourly + int(first.hourly * confirm.jump))
    if confirm.hourly is not None:
        limits.append(confirm.hourly)
    lifetime = spec.guards.max_lifetime
    if confirm.total is not None and lifetime:
        limits.append(int(confirm.total * SECONDS_PER_HOUR / lifetime))
    return min(limits, default=None)


def total_note(confirm: ConfirmAbove, guards: Guards) -> str:
    """The note on a total that cannot be foreseen; empty where it can."""
    if (
        confirm.total is None
        or guards.max_lifetime
        or (guards.budget is not None and guards.budget <= confirm.total)
    ):
        return ""
    return (
        "confirm_above: without max_lifetime a total cannot be foreseen;"
        f" {exact_usd(confirm.total)} holds for the launch, and budget caps what comes after"
    )


def budget_note(guards: Guards, candidate: Candidate | None) -> str:
    """The note on how long the budget lasts at a candidate's price; empty without a budget."""
    if guards.budget is None or candidate is None or candidate.hourly <= 0:
        return ""
    seconds = max(0.0, guards.budget * SECONDS_PER_HOUR / candidate.hourly - BUDGET_RESERVE_SECONDS)
    return (
        f"budget: {exact_usd(guards.budget)} lasts {short_duration(seconds // 60 * 60)}"
        f" at {exact_usd(candidate.hourly)}/h,"
        f" {short_duration(BUDGET_RESERVE_SECONDS)} for ending it kept back"
    )


def fits_budget(guards: Guards, hourly: Micros, *, spent: Micros = 0) -> bool:
    """Whether the budget pays for this much an hour for long enough to be of use."""
    return (
        guards.budget is None
        or spent + hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR <= guards.budget
    )
