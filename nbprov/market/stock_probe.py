"""Ask clouds what they have in stock: all at once, for seconds at most, each pool once a minute.

Such a question costs nothing and reserves nothing, so nobody waits for it longer than for a plan. A
later answer is kept for the next plan.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Clock, Instant, Seconds
from nbprov.model.failures import CloudError
from nbprov.model.offers import Offer
from nbprov.model.stock import Pool, Stock

from .stock_index import REMEMBERED

log = logging.getLogger("nbprov.market")

ASKED_AGAIN: Seconds = 60.0
"""How long a pool is not asked about again: clouds renew their figures about once a minute, and
allow some 60 questions in that time.
"""
POOLS_PER_CLOUD = 200
"""How many of a plan's best pools are asked about in each cloud: more than a launch tries before
its blocks end.
"""

AskCloud = Callable[[str, Sequence[Offer], int], Awaitable[Sequence[Stock]]]
"""Asks one cloud, by name, for the stock of offers, for a number of machines at once."""
OnStock = Callable[[str, Sequence[Stock], int], None]
"""Called with what a cloud reported, for a number of machines at once, on the probe's loop."""


@dataclass(frozen=True, slots=True)
class StockAnswers:
    """The answers to one look at the stock.

    Attributes
    ----------
    stock
        Reports on the pools that were asked about, now or within the last minute.
    late
        Clouds that have not answered yet.
    failed
        Why other clouds did not answer, by cloud.
    """

    stock: tuple[Stock, ...] = ()
    late: tuple[str, ...] = ()
    failed: Mapping[str, str] | None = None


class StockProbe:
    """Asks clouds for their stock and remembers the answers.

    Its coroutines run on one loop; any thread may call `known`.

    Parameters
    ----------
    ask
        Asks one cloud. Whatever it raises counts as no answer.
    clock
        `now` dates the reports; `elapsed` decides when a pool may be asked about again.
    tell
        Called with each answer that holds reports, late ones included.
    """

    def __init__(
        self, ask: AskCloud, clock: Clock, tell: OnStock = lambda cloud, stock, count: None
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._tell = tell
        self._asked: dict[tuple[int, Pool], Seconds] = {}
        self._said: dict[int, dict[Pool, Stock]] = {}
        self._failed: dict[str, str] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def known(self, count: int = 1) -> tuple[Stock, ...]:
        """The latest report on each pool within the last hour, for `count` machines."""
        oldest = self._clock.now() - REMEMBERED
        return tuple(
            stock for stock in list(self._said.get(count, {}).values()) if stock.at > oldest
        )

    async def look(
        self, offers: Iterable[Offer], count: int = 1, *, seconds: Seconds = STOCK_SECONDS
    ) -> StockAnswers:
        """Ask the clouds of these offers, and wait at most `seconds`.

        It never raises for what a cloud does.

        Parameters
        ----------
        offers
            Offers of clouds that report their stock, the best first; of each cloud the first
            `POOLS_PER_CLOUD` pools are asked about.
        """
        wanted = by_cloud(offers)
        tasks = {cloud: self._begin(cloud, some, count) for cloud, some in wanted.items()}
        waited = {task for task in tasks.values() if task is not None}
        if waited:
            await asyncio.wait(waited, timeout=seconds)
        late = tuple(cloud for cloud, task in tasks.items() if task is not None and not task.done())
        failed = {
            cloud: self._failed[cloud]
            for cloud in tasks
            if cloud in self._failed and cloud not in late
        }
        return StockAnswers(
            tuple(s for s in self.known(count) if s.pool.cloud in wanted), late, failed
        )

    def _begin(self, cloud: str, offers: Sequence[Offer], count: int) -> asyncio.Task[None] | None:
        """Start a question to a cloud; None if all was asked within the last minute."""
        now = self._clock.elapsed()
        due = [
            offer
            for offer in offers
            if now - self._asked.get((count, offer.pool), -ASKED_AGAIN) >= ASKED_AGAIN
        ]
        running = self._under_way.get(cloud)
        if not due:
            return running
        # Noted before the answer, so that a slow or unwilling cloud is not asked with every plan.
        self._asked = {key: at for key, at in self._asked.items() if now - at < ASKED_AGAIN}
        self._asked.update(((count, offer.pool), now) for offer in due)
        task = asyncio.create_task(self._question(cloud, due, count, running))
        self._under_way[cloud] = task
        task.add_done_callback(
            lambda done: self._under_way.pop(cloud) if self._under_way.get(cloud) is done else None
        )
        return task

    async def _question(
        self, cloud: str, offers: Sequence[Offer], count: int, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            said = await self._ask(cloud, offers, count)
        except CloudError as error:
            self._failed[cloud] = error.failure.sentence()
        except Exception as error:
            log.exception("the stock of %s", cloud)
            self._failed[cloud] = f"{type(error).__name__}: {error}"
        else:
            self._failed.pop(cloud, None)
            self._keep(cloud, [stock for stock in said if stock.pool.cloud == cloud], count)

    def _keep(self, cloud: str, said: Sequence[Stock], count: int) -> None:
        if not said:
            return
        oldest: Instant = self._clock.now() - REMEMBERED
        kept = {
            pool: stock for pool, stock in self._said.get(count, {}).items() if stock.at > oldest
        }
        for stock in said:
            before = kept.get(stock.pool)
            if before is None or before.at <= stock.at:
                kept[stock.pool] = stock
        self._said[count] = kept  # replaced as a whole, because other threads read it
        try:
            self._tell(cloud, said, count)
        except Exception:  # a failing listener must not lose the reports
            log.exception("telling of the stock of %s", cloud)


def by_cloud(offers: Iterable[Offer], most: int = POOLS_PER_CLOUD) -> dict[str, list[Offer]]:
    """The first offers of each cloud, one for each pool, at most `most` of them."""
    found: dict[str, dict[Pool, Offer]] = {}
    for offer in offers:
        some = found.setdefault(offer.cloud, {})
        if len(some) < most:
            some.setdefault(offer.pool, offer)
    return {cloud: list(some.values()) for cloud, some in found.items()}
