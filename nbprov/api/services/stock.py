"""Stock before the launch: clouds are asked behind a plan, and what they say orders the next one, and runs that wait for Launch or are under way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_probe import ASKED_AGAIN, POOLS_PER_CLOUD, StockAnswers, StockProbe
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import NbprovError
from nbprov.model.offers import Offer, Plan
from nbprov.model.stock import Stock
from nbprov.runtime.waiting import wait_for
from nbprov.runtime.worker_pool import WorkerPool

if TYPE_CHECKING:
    from nbprov.api.planner import Planner
    from nbprov.api.run import Run
    from nbprov.provisioning.run.driver import RunDriver

log = logging.getLogger("nbprov.api")

LAUNCH_GRACE: Seconds = 1.0
"""A launch that nobody looks at before (`--yes`) waits so long at most for an answer on stock: most come within half of it, and a refused create
costs more. It goes with what is known then."""


class StockDesk:
    """What one session knows of stock, and whom it asks. Methods may be called from any thread but the engine's.

    Parameters
    ----------
    planner
        Whose clouds are asked, and whose runs are put in order by what they say.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._engine = planner.engine
        self._probe = StockProbe(self._ask, self._engine.clock, self._tell)
        self._workers = WorkerPool("stock", 1)
        self._watch: asyncio.Task[None] | None = None
        self._told_at: Instant = 0.0

    def known(self, count: int = 1) -> tuple[Stock, ...]:
        """What clouds said within the last hour of their stock of so many machines at once."""
        return self._probe.known(count)

    # ------------------------------------------------------------ asking

    def ask_behind(self, plan: Plan) -> None:
        """Ask for the stock of a plan's best places, and return at once."""
        offers = self._offers_of(plan)
        if offers:
            self._engine.thread.call(self._probe.look(offers, plan.spec.num_nodes))

    def ask(self, plan: Plan, seconds: Seconds = STOCK_SECONDS) -> StockAnswers:
        """Ask for the stock of a plan's best places, and wait so long at most; never raises for what a cloud does."""
        return self.ask_for(self._offers_of(plan), plan.spec.num_nodes, seconds)

    def ask_for(
        self, offers: Iterable[Offer], count: int = 1, seconds: Seconds = STOCK_SECONDS
    ) -> StockAnswers:
        """As `ask`, for offers, the best first; clouds that do not tell are passed over."""
        telling = self.telling()
        wanted = [offer for offer in offers if offer.cloud in telling]
        if not wanted:
            return StockAnswers()
        return wait_for(self._engine.thread.call(self._probe.look(wanted, count, seconds=seconds)))

    async def look(self, offers: Sequence[Offer], count: int = 1) -> StockAnswers:
        """Ask for the stock of offers; on the engine's thread. Clouds that do not tell are passed over."""
        return await self._probe.look(
            [offer for offer in offers if offer.cloud in self.telling()], count
        )

    def _offers_of(self, plan: Plan) -> list[Offer]:
        from nbprov.planning.best_per_cloud import best_by_cloud

        telling = self.telling()
        return (
            [c.offer for c in best_by_cloud(plan, POOLS_PER_CLOUD, clouds=telling)]
            if telling
            else []
        )

    def telling(self) -> frozenset[str]:
        """The clouds that can be used and tell their stock."""
        return frozenset(
            name
            for name in self._planner.usable_now()
            if self._engine.cloud(name).capabilities.stock_probe
        )

    async def _ask(self, cloud: str, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        return await self._engine.cloud(cloud).stock(offers, count)

    # ------------------------------------------------------------ what comes of an answer

    def _tell(self, cloud: str, stock: Sequence[Stock], count: int) -> None:
        """On the engine's thread, which has better to do than to write or to plan."""
        self._told_at = self._engine.clock.now()
        self._workers.submit(lambda: self._told(cloud, stock, count))
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_waits())

    def _told(self, cloud: str, stock: Sequence[Stock], count: int) -> None:
        """Write an answer down, wake what waits for it, and put the session's runs in order."""
        if not self._planner.is_open_on(self._engine):
            return  # the session ended meanwhile; asking it anything would open another engine
        check = self._planner.checks.known(cloud)
        self._engine.stock_seen(
            stock, account=check.account if check is not None else "", count=count
        )
        for run in list(self._planner.runs.values()):
            self._order(run)

    async def _watch_waits(self) -> None:
        """Ask again, once a minute, for what runs wait for: a pass comes seldom, and stock goes in minutes."""
        while True:
            await asyncio.sleep(ASKED_AGAIN)
            for driver in [d for d in self._engine.drivers.values() if d.state is RunState.WAITING]:
                try:
                    offers = self._offers_of(driver.plan)
                    if offers:
                        await self._probe.look(offers, driver.spec.num_nodes)
                except (
                    Exception
                ):  # one wait that cannot be asked for must not keep the others waiting for ever
                    log.exception("asking for what %s waits for", driver.name)

    def order(self, run: Run, seconds: Seconds = STOCK_SECONDS) -> None:
        """Put the places of a run in order by what clouds say of their stock within so many seconds. Never raises; no news changes nothing."""
        if _is_open(run.driver) and self.ask(run.plan, seconds).stock:
            self._order(run)

    def order_behind(self, run: Run) -> None:
        """See to it that a run that was just made is in order by what clouds said; returns at once.

        An answer may have come after its plan was made, and before it was there to be told.
        """
        if self._told_at >= run.plan.made_at:
            self._workers.submit(lambda: self._order(run))

    def _order(self, run: Run) -> None:
        driver = run.driver
        if not _is_open(driver) or not self._planner.is_open_on(self._engine):
            return
        try:
            if self._offers_of(run.plan):
                made = self._planner.planned(driver.spec)
                wait_for(self._engine.thread.call(_reorder(driver, made)))
        except NbprovError as error:
            log.info("%s is not put in order: %s", run.name, error.message)
        except Exception:  # a launch goes on in the order it has
            log.exception("putting %s in order", run.name)


def _is_open(driver: RunDriver) -> bool:
    return (
        driver.state in (RunState.PLANNED, RunState.LAUNCHING)
        and not driver.is_cancelled
        and not driver.machine.finished
    )


async def _reorder(driver: RunDriver, made: Plan) -> None:
    """Stock changes the order of a run's places and never what Launch agrees to: the price that was shown stays the most that is taken."""
    from nbprov.provisioning.run import events
    from nbprov.provisioning.run.candidate_queue import Unranked
    from nbprov.provisioning.run.run_builder import place_notes

    if made.chosen is None or not _is_open(driver):
        return
    if driver.state is RunState.PLANNED:
        driver.plan = replace(made, dearest=driver.plan.dearest)
        driver.machine.places.candidates = driver.plan.candidates
        # What nobody was told of the places that are first now: on some clouds only a notebook ends a machine.
        told = place_notes(driver.spec, driver.plan, lambda name: driver.clouds(name).capabilities)
        driver.notes += tuple(note for note in told if note not in driver.notes)
        driver.on_change()
    else:
        driver.post(events.Replanned(Unranked(made.candidates)))
