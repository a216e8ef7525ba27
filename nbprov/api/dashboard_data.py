"""What the dashboard shows: clusters, costs, launches under way, blocks, stock and tunnels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros
from nbprov.model.stock import Stock

from .context import Context
from .reports import is_simulated
from .services import Services

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import Ledger
    from nbprov.provisioning.ledger.rows import RunRow

STOCK_AGE: Seconds = 1800.0
"""How old an answer on stock may be that the dashboard shows."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent since an instant, and what it grows by an hour.

    What is paid and what is only simulated are counted apart.
    """

    since: Instant
    paid: Micros = 0
    paid_hourly: Micros = 0
    simulated: Micros = 0
    simulated_hourly: Micros = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """A snapshot of everything.

    Attributes
    ----------
    today, ever
        What was spent since this computer's midnight, and in all.
    under_way
        Launches that are no clusters yet.
    stock
        What clouds said within the last half hour, newest first.
    tunnels
        The tunnels of this kernel, a line each.
    """

    now: Instant
    clusters: tuple[ClusterView, ...]
    today: Spending
    ever: Spending
    under_way: tuple[RunRow, ...]
    blocks: tuple[Block, ...]
    stock: tuple[Stock, ...]
    tunnels: tuple[str, ...]


def overview(context: Context, services: Services) -> Overview:
    """Read a snapshot from the ledger. Any thread; asks no cloud."""
    from nbprov.provisioning.cluster_lookup import UNDER_WAY

    ledger, now = context.engine.ledger, context.engine.clock.now()
    clusters = tuple(services.views.views())
    return Overview(
        now,
        clusters,
        _spent(ledger, clusters, midnight(now)),
        _spent(ledger, clusters, 0.0),
        tuple(run for run in ledger.runs.unfinished() if run.state in UNDER_WAY),
        tuple(ledger.blocks.standing()),
        tuple(reversed(ledger.observations.probes(now - STOCK_AGE))),
        tuple(services.tunnels.all_words()),
    )


def midnight(now: Instant) -> Instant:
    """When today began in this computer's time zone."""
    return (
        datetime.fromtimestamp(now)
        .astimezone()
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .timestamp()
    )


def _spent(ledger: Ledger, clusters: tuple[ClusterView, ...], since: Instant) -> Spending:
    paid = simulated = 0
    for run_id, cost in ledger.prices.costs_since(since).items():
        launches = ledger.launches.of_run(run_id)
        if launches and all(is_simulated(launch.candidate.offer) for launch in launches):
            simulated += cost
        else:
            paid += cost
    return Spending(
        since,
        paid,
        sum(c.hourly_now for c in clusters if not c.simulated),
        simulated,
        sum(c.hourly_now for c in clusters if c.simulated),
    )
