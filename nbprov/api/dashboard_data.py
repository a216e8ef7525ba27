"""What one look at everything shows: costs of today, launches under way, what is blocked, what clouds said of their stock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.money import Micros
from nbprov.model.offers import Block
from nbprov.model.stock import Stock

from .reports import is_simulated

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import Ledger
    from nbprov.provisioning.ledger.rows import RunRow

    from .session import Session

STOCK_AGE: Seconds = 1800.0
"""What clouds said of their stock within that is still worth a look."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent since an instant, by what is paid and what is only simulated; and what it grows by an hour."""

    since: Instant
    paid: Micros = 0
    paid_hourly: Micros = 0
    simulated: Micros = 0
    simulated_hourly: Micros = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """How things stand.

    Attributes
    ----------
    today, ever
        Since this computer's midnight, and in all.
    under_way
        Launches that are no clusters yet.
    stock
        What clouds said within the last half hour, newest first.
    tunnels
        Of this kernel, a line each.
    """

    now: Instant
    clusters: tuple[ClusterView, ...]
    today: Spent
    ever: Spent
    under_way: tuple[RunRow, ...]
    blocks: tuple[Block, ...]
    stock: tuple[Stock, ...]
    tunnels: tuple[str, ...]


def overview(session: Session) -> Overview:
    """Read it all from the ledger. Any thread; asks no cloud."""
    from nbprov.machines.tunnels.tunnels import in_words
    from nbprov.provisioning.engine import UNDER_WAY

    ledger, now = session.engine.ledger, session.engine.clock.now()
    clusters = tuple(session.clusters())
    return Overview(
        now,
        clusters,
        _spent(ledger, clusters, midnight(now)),
        _spent(ledger, clusters, 0.0),
        tuple(run for run in ledger.runs.unfinished() if run.state in UNDER_WAY),
        tuple(session.blocks()),
        tuple(reversed(ledger.observations.probes(now - STOCK_AGE))),
        tuple(in_words(session.tunnelling.views())),
    )


def midnight(now: Instant) -> Instant:
    """When today began, by this computer's clock on the wall."""
    return (
        datetime.fromtimestamp(now)
        .astimezone()
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .timestamp()
    )


def _spent(ledger: Ledger, clusters: tuple[ClusterView, ...], since: Instant) -> Spent:
    paid = simulated = 0
    for run_id, cost in ledger.prices.costs_since(since).items():
        launches = ledger.launches.of_run(run_id)
        if launches and all(is_simulated(launch.candidate.offer) for launch in launches):
            simulated += cost
        else:
            paid += cost
    return Spent(
        since,
        paid,
        sum(c.hourly_now for c in clusters if not c.simulated),
        simulated,
        sum(c.hourly_now for c in clusters if c.simulated),
    )
