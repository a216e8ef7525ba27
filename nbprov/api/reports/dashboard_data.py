"""What the dashboard shows: clusters, costs, launches under way, blocks, markets and tunnels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.services import Services
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterView

from .history import History, ended_since
from .market_report import MarketReport
from .spending import DailyCosts, Spending, midnight, month_begin, month_forecast

if TYPE_CHECKING:
    from nbprov.provisioning.ledger.rows import RunRow

LISTED = 6
"""The most lines of a section, because a dashboard is looked at and not read."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A snapshot of everything.

    Attributes
    ----------
    today, month, ever
        What was spent since this computer's midnight, since its month began, and in all.
    forecast
        What the month will have cost if what runs goes on.
    days
        What was spent on each of the last days.
    under_way
        Launches that are no clusters yet.
    ended
        Launches that ended since this computer's midnight, or whose cluster did, latest first.
    market
        What clouds answered in the last day, as far as it was read.
    tunnels
        The tunnels of this kernel, a line each.
    """

    now: Instant
    clusters: tuple[ClusterView, ...]
    today: Spending
    month: Spending
    ever: Spending
    forecast: Spending
    days: DailyCosts
    under_way: tuple[RunRow, ...]
    ended: History
    blocks: tuple[Block, ...]
    market: MarketReport
    tunnels: tuple[str, ...]


def overview(context: Context, services: Services) -> Overview:
    """Read a snapshot from the ledger. Any thread; asks no cloud."""
    from nbprov.provisioning.cluster_lookup import UNDER_WAY

    ledger, now = context.engine.ledger, context.engine.clock.now()
    clusters = tuple(services.views.views())
    bill = services.bills.read()
    month = bill.since(month_begin(now))
    return Overview(
        now,
        clusters,
        bill.since(midnight(now)),
        month,
        bill.since(0.0),
        month_forecast(month, clusters, now),
        bill.daily(),
        tuple(run for run in ledger.runs.unfinished() if run.state in UNDER_WAY),
        ended_since(ledger, midnight(now), LISTED),
        tuple(ledger.blocks.standing()),
        services.market.report,
        tuple(services.tunnels.all_words()),
    )
