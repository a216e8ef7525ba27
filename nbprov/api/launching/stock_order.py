"""The order of a run's places, renewed by what clouds say of their stock."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.api.context import Context, RunHandle
from nbprov.api.planner import Planner
from nbprov.api.services.stock import StockService
from nbprov.api.steps import run_sync
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import NbprovError
from nbprov.model.offers import Plan
from nbprov.runtime.waiting import wait_for

if TYPE_CHECKING:
    from nbprov.provisioning.run.driver import RunDriver

log = logging.getLogger("nbprov.api")


class StockOrder:
    """Puts the places of a session's runs in order, each time that a cloud answers."""

    def __init__(
        self,
        context: Context,
        planner: Planner,
        stock: StockService,
        runs: Mapping[str, RunHandle],
    ) -> None:
        self._context, self._planner, self._stock, self._runs = context, planner, stock, runs
        stock.listen(self._order_all)

    def order(self, run: RunHandle, seconds: Seconds = STOCK_SECONDS) -> None:
        """Ask for the stock of a run's places, and put them in order by the answers.

        Blocks for `seconds` at most and never raises; without an answer nothing changes.
        """
        driver = run.driver
        if _is_open(driver) and run_sync(self._stock.ask(driver.plan, seconds)).stock:
            self._order(driver)

    def order_behind(self, run: RunHandle) -> None:
        """Put a run that was just made in order by answers that came before it was there.

        Returns at once.
        """
        if self._stock.told_at >= run.driver.plan.made_at:
            self._stock.in_worker(lambda: self._order(run.driver))

    def _order_all(self) -> None:
        for run in list(self._runs.values()):
            self._order(run.driver)

    def _order(self, driver: RunDriver) -> None:
        if not _is_open(driver) or not self._context.is_open:
            return
        try:
            if self._stock.offers_of(driver.plan):
                made = run_sync(self._planner.planned(driver.spec))
                wait_for(self._context.engine.thread.call(reorder(driver, made)))
        except NbprovError as error:
            log.info("%s is not put in order: %s", driver.name, error.message)
        except Exception:  # a launch goes on in the order it has
            log.exception("putting %s in order", driver.name)


def _is_open(driver: RunDriver) -> bool:
    return (
        driver.state in (RunState.PLANNED, RunState.LAUNCHING)
        and not driver.is_cancelled
        and not driver.failover.finished
    )


async def reorder(driver: RunDriver, made: Plan) -> None:
    """Give a launch the order of a new plan.

    Stock never changes what Launch agrees to: the price that was shown stays the most that is paid.
    """
    from nbprov.planning import put_first
    from nbprov.provisioning.run import events
    from nbprov.provisioning.run.candidate_queue import UnrankedCandidates
    from nbprov.provisioning.run.run_builder import place_notes

    progress = driver.context.progress
    if made.chosen is None or not _is_open(driver):
        return
    ordered = put_first(made, progress.preferred)
    if driver.state is RunState.PLANNED:
        progress.own_plan = replace(made, dearest=progress.own_plan.dearest)
        progress.plan = replace(ordered, dearest=driver.plan.dearest)
        driver.failover.queue.candidates = driver.plan.candidates
        # Notes of places that are first only now: on some clouds only a notebook ends a machine.
        notes = place_notes(
            driver.spec, driver.plan, lambda name: driver.context.clouds(name).capabilities
        )
        driver.context.progress.notes += tuple(note for note in notes if note not in driver.notes)
        driver.context.listeners.on_change()
    else:
        driver.post(events.Replanned(UnrankedCandidates(ordered.candidates)))
