"""The stock in a price table, asked while somebody sees the table."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nbprov import api
from nbprov.api.steps import run_sync
from nbprov.model.clock import Instant
from nbprov.model.errors import NbprovError
from nbprov.notebook.rendering.offer_columns import stock_column
from nbprov.notebook.rendering.price_data import ColumnData, TableData
from nbprov.runtime.worker_pool import WorkerPool

log = logging.getLogger("nbprov.notebook")

_workers = WorkerPool("table-stock", 1)


class StockUpdater:
    """Asks for the stock of the offers in a table.

    Parameters
    ----------
    session
        The one that answered `%prices`; nothing is asked once it is closed.
    prices
        The offers.
    renew
        Gives the table the column that a function makes for it.
    """

    def __init__(
        self,
        session: api.Session,
        prices: api.Prices,
        renew: Callable[[Callable[[TableData], ColumnData]], None],
    ) -> None:
        self._session, self._prices, self._renew = session, prices, renew
        self._is_asking = threading.Lock()
        self._latest: Instant = 0.0

    def look(self) -> None:
        """Ask, and return at once; nothing happens while an earlier question goes on."""
        if self._is_asking.acquire(blocking=False):
            _workers.submit(self._ask)

    def _ask(self) -> None:
        try:
            if api.current() is self._session:
                self._show()
        except NbprovError as error:
            log.info("the stock of shown prices: %s", error)
        except Exception:  # nobody else would tell
            log.exception("the stock of shown prices")
        finally:
            self._is_asking.release()

    def _show(self) -> None:
        report = run_sync(self._session.services.prices.stock_report(self._prices))
        if report is not None and report.latest != self._latest:
            self._renew(lambda table: stock_column(self._prices, table, report))
            self._latest = report.latest
