"""The price and the guards of a stopped cluster that is started again.

The price is asked anew, and the caps and the budget hold for it as at launch.
"""

from __future__ import annotations

from dataclasses import replace

from nbprov.model.errors import UsageError
from nbprov.model.guards import Guards
from nbprov.model.offers import Candidate
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.run.pricing.consent import cap_of
from nbprov.provisioning.run.pricing.price_check import agreed_for
from nbprov.provisioning.run.pricing.requote import beyond_agreed, quoted
from nbprov.provisioning.supervision.guard_config import (
    check_budget,
    guard_config,
    guards_from,
    guards_known,
    hold_known,
    kept,
)


async def start_terms(
    ledger: Ledger,
    cloud: AsyncCloud,
    row: ClusterRow,
    *,
    spec: Spec | None = None,
    agreed: bool = False,
) -> Candidate:
    """The cluster's candidate at the price of now, if that may be paid.

    The guards for it are written to the ledger.

    Parameters
    ----------
    spec
        What the person runs again: its cap and its guards hold instead of those of the launch.
    agreed
        The person agrees to what it costs now, up to the cap.

    Raises
    ------
    UsageError
        If it costs more than the cap, or than what was agreed to, or the budget buys next to
        nothing more.
    """
    candidate = quoted(row.candidate, await cloud.quote(row.candidate))
    if spec is not None:
        candidate = replace(candidate, request=replace(candidate.request, max_hourly=cap_of(spec)))
    limit = candidate.hourly if agreed else agreed_for(ledger, row)
    beyond = beyond_agreed(candidate, limit)
    if beyond:
        raise too_dear(row, beyond)
    asked = spec.guards if spec is not None and spec.guards != Guards() else None
    guards = asked or guards_known(ledger, row.run_id)
    if guards is not None:
        check_budget(guards, candidate, spent=ledger.prices.cost(row.run_id))
        _write_guards(ledger, cloud, row, candidate, guards)
    return candidate


def too_dear(row: ClusterRow, beyond: str) -> UsageError:
    """The error of a start that costs more than was agreed to."""
    return UsageError(
        f"{row.name} stays stopped: {beyond}",
        hint=(
            "run its %%provision cell with --yes to agree to the price of now, up to max_price;"
            f" or end it: %nbprov down {row.name}"
        ),
        code="cluster.price",
    )


def _write_guards(
    ledger: Ledger, cloud: AsyncCloud, row: ClusterRow, candidate: Candidate, guards: Guards
) -> None:
    # Before the start: an agent that starts with a spent budget would end the machine before it
    # could be told of another one.
    hold = hold_known(ledger, row.run_id)
    stored = kept(
        guard_config(
            guards, cloud.capabilities, candidate, spent=ledger.prices.cost(row.run_id), hold=hold
        ),
        guards,
    )
    known = ledger.guards.get(row.run_id)
    counted = (
        known[0].get("budget", {}).get("hourly_micros", row.candidate.hourly)
        if known is not None
        else row.candidate.hourly
    )
    if candidate.hourly == row.candidate.hourly == counted and guards_from(stored) == guards_known(
        ledger, row.run_id
    ):
        return
    ledger.guards.set_all(row.run_id, candidate.count, stored)
