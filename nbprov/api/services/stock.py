"""What clouds say of their stock: who is asked, how long anybody waits, and who hears of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nbprov.api.context import Context, EngineBound
from nbprov.api.steps import Steps, result
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_probe import ASKED_AGAIN, POOLS_PER_CLOUD, StockAnswers, StockProbe
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import RunState
from nbprov.model.offers import Offer, Plan
from nbprov.model.stock import Pool, Stock, StockLevel
from nbprov.runtime.worker_pool import WorkerPool

from .clouds import CloudService

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.api")

DAY_PERIODS = 12
"""The periods of a day, of two hours each: few enough to be seen beside a word, and enough to tell
mornings from evenings."""
DAY_SECONDS: Seconds = 24 * 3600.0
LAUNCH_GRACE: Seconds = 1.0
"""How long a launch that nobody looks at before (`--yes`) waits for an answer on stock.

Most answers come within half of it, and a refused create costs more."""


class StockService:
    """The stock that clouds told, and the questions to them.

    Methods may be called from any thread but the engine's, where nothing else is said.
    """

    def __init__(self, context: Context, clouds: CloudService) -> None:
        self._context, self._clouds = context, clouds
        self._listeners: list[Callable[[], None]] = []
        self._talk = EngineBound(context, lambda engine: _StockTalk(engine, self))
        self._workers = WorkerPool("stock", 1)

    def known(self, count: int = 1) -> tuple[Stock, ...]:
        """What clouds said within the last hour of their stock of `count` machines at once."""
        return self._talk.get().probe.known(count)

    def last_day(self, now: Instant) -> dict[Pool, list[StockLevel | None]]:
        """What was said of each pool in the 24 hours before `now`, by periods of two hours.

        What other kernels were told counts too, if it was for the account in use.
        """
        length = DAY_SECONDS / DAY_PERIODS
        observations = self._context.engine.ledger.observations
        return observations.levels(
            now - DAY_SECONDS, length, DAY_PERIODS, self._clouds.accounts_now()
        )

    def told_since(self, since: Instant) -> list[Stock]:
        """The last report on each pool since an instant, oldest first, also by other kernels."""
        observations = self._context.engine.ledger.observations
        return observations.probes(since, self._clouds.accounts_now())

    @property
    def told_at(self) -> Instant:
        """When a cloud last answered."""
        return self._talk.get().told_at

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each answer, in a worker thread."""
        self._listeners.append(listener)

    def in_worker(self, work: Callable[[], None]) -> None:
        """Call a function soon in the thread that also handles answers, one after the other."""
        self._workers.submit(work)

    # ------------------------------------------------------------ questions

    def ask_behind(self, plan: Plan) -> None:
        """Ask for the stock of a plan's best places, and return at once."""
        offers = self.offers_of(plan)
        if offers:
            probe = self._talk.get().probe
            self._context.engine.thread.call(probe.look(offers, plan.spec.num_nodes))

    def ask(self, plan: Plan, seconds: Seconds = STOCK_SECONDS) -> Steps[StockAnswers]:
        """Ask for the stock of a plan's best places, and wait at most `seconds`.

        Never raises for what a cloud does.
        """
        return self.ask_for(self.offers_of(plan), plan.spec.num_nodes, seconds)

    def ask_for(
        self, offers: Iterable[Offer], count: int = 1, seconds: Seconds = STOCK_SECONDS
    ) -> Steps[StockAnswers]:
        """As `ask`, for offers, the best first. Clouds that tell no stock are left out."""
        telling = self.telling()
        wanted = [offer for offer in offers if offer.cloud in telling]
        if not wanted:
            return StockAnswers()
        look = self._talk.get().probe.look(wanted, count, seconds=seconds)
        return (yield from result(self._context.engine.thread.call(look)))

    async def look(self, offers: Sequence[Offer], count: int = 1) -> StockAnswers:
        """Ask for the stock of offers, on the engine thread. Other clouds are left out."""
        telling = self.telling()
        wanted = [offer for offer in offers if offer.cloud in telling]
        return await self._talk.get().probe.look(wanted, count)

    def offers_of(self, plan: Plan) -> list[Offer]:
        """The best places of a plan on clouds that tell their stock."""
        from nbprov.planning.best_per_cloud import best_by_cloud

        telling = self.telling()
        if not telling:
            return []
        return [c.offer for c in best_by_cloud(plan, POOLS_PER_CLOUD, clouds=telling)]

    def telling(self) -> frozenset[str]:
        """The clouds that can be used and tell their stock."""
        return frozenset(
            name
            for name in self._clouds.usable_now()
            if self._context.engine.cloud(name).capabilities.stock_probe
        )

    # ------------------------------------------------------------ answers

    def take_in(self, engine: Engine, cloud: str, stock: Sequence[Stock], count: int) -> None:
        """Write an answer down and tell whoever listens, in a worker: the engine must go on."""
        self._workers.submit(lambda: self._take_in(engine, cloud, stock, count))

    def _take_in(self, engine: Engine, cloud: str, stock: Sequence[Stock], count: int) -> None:
        if not self._context.is_open_on(engine):
            return  # to ask a closed session for anything would open another engine
        check = self._clouds.known(cloud)
        account = check.account if check is not None else ""
        engine.stock_seen(stock, account=account, count=count)
        for listener in self._listeners:
            listener()


class _StockTalk:
    """The questions to clouds over one engine."""

    def __init__(self, engine: Engine, service: StockService) -> None:
        self.probe = StockProbe(self._ask, engine.clock, self._told)
        self.told_at: Instant = 0.0
        self._engine, self._service = engine, service
        engine.thread.call(self._watch_waits())

    async def _ask(self, cloud: str, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        return await self._engine.cloud(cloud).stock(offers, count)

    def _told(self, cloud: str, stock: Sequence[Stock], count: int) -> None:
        self.told_at = self._engine.clock.now()
        self._service.take_in(self._engine, cloud, stock, count)

    async def _watch_waits(self) -> None:
        """Ask once a minute for what runs wait for: a pass comes seldom, stock goes in minutes."""
        while True:
            await asyncio.sleep(ASKED_AGAIN)
            for driver in [d for d in self._engine.drivers.values() if d.state is RunState.WAITING]:
                try:
                    offers = self._service.offers_of(driver.plan)
                    if offers:
                        await self.probe.look(offers, driver.spec.num_nodes)
                except Exception:  # one failed question must not keep other runs waiting for ever
                    log.exception("asking for what %s waits for", driver.name)
