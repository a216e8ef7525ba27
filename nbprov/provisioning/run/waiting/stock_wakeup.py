"""Keep what clouds say of their stock as observations, and wake the runs that wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Protocol

from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError
from nbprov.model.stock import Pool, Stock, StockLevel
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.run import events
from nbprov.provisioning.run.context import RunContext

log = logging.getLogger("nbprov.provisioning")

FIRST_PLACES = 500
"""The first places of a plan are compared with what came into stock.

To build tens of thousands would cost more than a pass that finds nothing.
"""


class HasContext(Protocol):
    """A run that can be woken."""

    @property
    def context(self) -> RunContext: ...


class StockWakeup:
    """Takes in what clouds say of their stock. Any thread.

    Parameters
    ----------
    drivers
        The runs of this kernel, by id.
    soon
        Calls a function on the engine thread.
    """

    def __init__(
        self,
        ledger: Ledger,
        drivers: Mapping[str, HasContext],
        soon: Callable[[Callable[[], object]], object],
    ) -> None:
        self._ledger, self._drivers, self._soon = ledger, drivers, soon
        self._lock = threading.Lock()
        self._levels: dict[Pool, StockLevel] = {}

    def observe(self, stocks: Sequence[Stock], account: str, count: int) -> None:
        """See `Engine.stock_seen`."""
        try:
            with self._ledger.together():
                self._ledger.observations.record_probes(stocks, account, count)
                ended = self._ledger.blocks.end_restocked(stocks, count)
        except LedgerError as error:
            log.warning("what clouds said of their stock was not kept: %s", error.message)
            ended = 0
        restocked = self._restocked_pools(stocks)
        if ended or restocked:
            for driver in list(self._drivers.values()):
                context = driver.context
                self._soon(lambda context=context: wake(context, restocked))  # type: ignore[misc]

    def _restocked_pools(self, stocks: Sequence[Stock]) -> frozenset[Pool]:
        """Pools that had no stock when they were last asked about, and have some now."""
        with self._lock:
            restocked = {
                s.pool
                for s in stocks
                if s.level is not StockLevel.NONE and self._levels.get(s.pool) is StockLevel.NONE
            }
            self._levels.update((s.pool, s.level) for s in stocks)
        return frozenset(restocked)


def wake(context: RunContext, restocked: Collection[Pool]) -> None:
    """Tell a run that waits which blocks are left, and whether a pool of its plan is in stock."""
    if context.progress.state is not RunState.WAITING:
        return
    context.post_blocks()
    if any(_is_wanted(context, pool) for pool in restocked):
        context.post(events.Restocked())


def _is_wanted(context: RunContext, pool: Pool) -> bool:
    progress = context.progress
    places = [
        *islice(progress.plan.candidates, FIRST_PLACES),
        *islice(progress.failover.queue.candidates, FIRST_PLACES),
    ]
    types = {(c.offer.cloud, c.offer.instance_type) for c in places}
    # The instance type counts and not the place, since a plan may leave out places without stock.
    return any(cloud == pool.cloud and pool.instance_type in ("", name) for cloud, name in types)
