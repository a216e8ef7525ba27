"""Fresh words of stock: kept as observations, and runs that wait for it are woken."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError
from nbprov.model.stock import Pool, Stock, StockLevel

from . import events
from .passes import looked

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

    from .driver import RunDriver

log = logging.getLogger("nbprov.provisioning")

FIRST_PLACES = 500
"""Of a plan that are compared with what came into stock: building tens of thousands would cost more than a pass that finds nothing."""


class Restocks:
    """What clouds said of their stock, as it comes in. Any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._levels: dict[Pool, StockLevel] = {}

    def seen(self, stocks: Sequence[Stock], account: str, count: int) -> None:
        """See `Engine.stock_seen`."""
        engine = self._engine
        try:
            with engine.ledger.together():
                engine.ledger.observations.record_probes(stocks, account, count)
                ended = engine.ledger.blocks.end_restocked(stocks, count)
        except LedgerError as error:
            log.warning("what clouds said of their stock was not kept: %s", error.message)
            ended = 0
        came = self._came(stocks)
        if ended or came:
            for driver in list(engine.drivers.values()):
                engine.thread.soon(lambda driver=driver: wake(driver, came))

    def _came(self, stocks: Sequence[Stock]) -> frozenset[Pool]:
        """Pools that had none when they were last asked about, and have some now."""
        with self._lock:
            came = {
                s.pool
                for s in stocks
                if s.level is not StockLevel.NONE and self._levels.get(s.pool) is StockLevel.NONE
            }
            self._levels.update((s.pool, s.level) for s in stocks)
        return frozenset(came)


def wake(run: RunDriver, came: Collection[Pool]) -> None:
    """Have a run that waits look at the blocks that are left, and try again where what came into stock is of its plan."""
    if run.state is not RunState.WAITING:
        return
    run.post(looked(run))
    if any(_is_of(run, pool) for pool in came):
        run.post(events.Restocked())


def _is_of(run: RunDriver, pool: Pool) -> bool:
    places = [
        *islice(run.plan.candidates, FIRST_PLACES),
        *islice(run.machine.places.candidates, FIRST_PLACES),
    ]
    kinds = {(c.offer.cloud, c.offer.instance_type) for c in places}
    # Places without stock may not be in a plan at all: the kind of machine is what counts, not where it is.
    return any(cloud == pool.cloud and pool.instance_type in ("", kind) for cloud, kind in kinds)
