"""What the guards of a cluster are told: the spec's wishes in the agent's terms."""

from __future__ import annotations

from dataclasses import replace

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.launches import OnShutdown
from nbprov.model.money import MICROS_PER_USD, SECONDS_PER_HOUR, Micros, format_usd
from nbprov.model.offers import Candidate
from nbprov.model.places import Market
from nbprov.model.spec import Guards
from nbprov.remote.agent.values import GuardConfig

LEAST_BUDGET_SECONDS: Seconds = 600.0
"""A budget that buys less than this of the first candidate is refused: the machine would be ended before it is of use."""


def can_stop(capabilities: Capabilities, candidate: Candidate) -> bool:
    """Whether a machine may be stopped rather than ended: a stopped spot machine may never come back."""
    return capabilities.stop and candidate.offer.market is not Market.SPOT


def on_shutdown(guards: Guards, capabilities: Capabilities, candidate: Candidate) -> OnShutdown:
    """What the cloud shall do when the machine powers itself off: the spec's `down: false` keeps the disk, where that can be."""
    keeps = guards.autostop is not None and not guards.autostop.down and can_stop(capabilities, candidate)
    return OnShutdown.STOP if keeps else OnShutdown.TERMINATE


def check_budget(guards: Guards, candidate: Candidate, *, spent: Micros = 0) -> None:
    """Refuse a budget of which next to nothing can be bought.

    Parameters
    ----------
    spent
        What failed attempts of the run have cost already.

    Raises
    ------
    UsageError
        Naming what the budget buys and the least that makes sense.
    """
    if guards.budget is None or candidate.hourly <= 0:
        return
    seconds = max(0, guards.budget - spent) * SECONDS_PER_HOUR / candidate.hourly
    if seconds < LEAST_BUDGET_SECONDS:
        least = spent + int(candidate.hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR)
        rest = f", {format_usd(spent)} of it spent," if spent else ""
        raise UsageError(
            f"a budget of {format_usd(guards.budget)}{rest} buys {seconds / 60:.0f} minutes of {candidate.offer.instance_type}"
            f" at {format_usd(candidate.hourly)}/h",
            hint=f"raise it to {format_usd(max(least, MICROS_PER_USD // 100))} or more, or cap the price with max_price",
            code="budget.too-small",
        )


def guard_config(guards: Guards, capabilities: Capabilities, candidate: Candidate, *, spent: Micros = 0) -> GuardConfig:
    """What the agent of every node is told. The budget counts the whole cluster's price on each; what cannot be stopped is ended."""
    if guards.autostop is not None and not can_stop(capabilities, candidate):
        guards = replace(guards, autostop=replace(guards.autostop, down=True))
    return GuardConfig.of(guards, poweroff=capabilities.poweroff, hourly=candidate.hourly, spent=spent)
