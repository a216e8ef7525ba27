"""What the guards of a cluster are told: the spec's wishes in the agent's terms."""

from __future__ import annotations

from dataclasses import replace

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.launches import OnShutdown
from nbprov.model.money import MICROS_PER_USD, SECONDS_PER_HOUR, Micros, format_usd
from nbprov.model.offers import Candidate
from nbprov.model.spec import Guards
from nbprov.remote.agent.values import GuardConfig

LEAST_BUDGET_SECONDS: Seconds = 600.0
"""A budget that buys less than this of the first candidate is refused: the machine would be ended before it is of use."""


def on_shutdown(guards: Guards, capabilities: Capabilities) -> OnShutdown:
    """What the cloud shall do when the machine powers itself off: the spec's `down: false` keeps the disk, where the cloud can."""
    keeps = guards.autostop is not None and not guards.autostop.down and capabilities.stop
    return OnShutdown.STOP if keeps else OnShutdown.TERMINATE


def check_budget(guards: Guards, candidate: Candidate) -> None:
    """Refuse a budget that buys next to nothing.

    Raises
    ------
    UsageError
        Naming what the budget buys and the least that makes sense.
    """
    if guards.budget is None or candidate.hourly <= 0:
        return
    seconds = guards.budget * SECONDS_PER_HOUR / candidate.hourly
    if seconds < LEAST_BUDGET_SECONDS:
        least = int(candidate.hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR)
        raise UsageError(
            f"a budget of {format_usd(guards.budget)} buys {seconds / 60:.0f} minutes of {candidate.offer.instance_type}"
            f" at {format_usd(candidate.hourly)}/h",
            hint=f"raise it to {format_usd(max(least, MICROS_PER_USD // 100))} or more, or cap the price with max_price",
            code="budget.too-small",
        )


def guard_config(guards: Guards, capabilities: Capabilities, candidate: Candidate, *, spent: Micros = 0) -> GuardConfig:
    """What the agent of every node is told. The budget counts the whole cluster's price on each; where the cloud cannot stop, it ends."""
    if guards.autostop is not None and not capabilities.stop:
        guards = replace(guards, autostop=replace(guards.autostop, down=True))
    return GuardConfig.of(guards, poweroff=capabilities.poweroff, hourly=candidate.hourly, spent=spent)
