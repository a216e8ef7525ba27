"""Asking clouds what they have in stock: all at once, for seconds at most, each pool at most once a minute.

A look at the stock costs nothing and reserves nothing, so it is never waited for longer than a person waits for a plan. What answers later than
that is kept for the next plan.
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
"""A pool that was asked about is not asked about again so soon: clouds renew what they say about once a minute, and allow some 60 questions in one."""
POOLS_A_CLOUD = 200
"""The best places of a plan, a cloud, that are asked about: more than any launch tries before its blocks end."""

Ask = Callable[[str, Sequence[Offer], int], Awaitable[Sequence[Stock]]]
"""Asks one cloud, by name, for the stock of offers, for so many machines at once."""
Tell = Callable[[str, Sequence[Stock], int], None]
"""Told what a cloud said, for so many machines at once; on the loop that the probe runs on."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a look at the stock brought.

    Attributes
    ----------
    stock
        What was said of the pools that were asked about, now or within the last minute.
    late
        Clouds that had not answered by then.
    failed
        Why others did not tell, by cloud.
    """

    stock: tuple[Stock, ...] = ()
    late: tuple[str, ...] = ()
    failed: Mapping[str, str] | None = None


class Probe:
    """What clouds say of their stock. Its coroutines run on one loop; `known` may be called from any thread.

    Parameters
    ----------
    ask
        Asks one cloud; may raise whatever it likes, which counts as nothing said.
    clock
        `now` dates what is too old to be worth keeping, `elapsed` says when a pool may be asked about again.
    tell
        Told of each answer that has statements in it, late ones included.
    """

    def __init__(
        self, ask: Ask, clock: Clock, tell: Tell = lambda cloud, stock, count: None
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._tell = tell
        self._asked: dict[tuple[int, Pool], Seconds] = {}
        self._said: dict[int, dict[Pool, Stock]] = {}
        self._failed: dict[str, str] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def known(self, count: int = 1) -> tuple[Stock, ...]:
        """What was said within the last hour, for so many machines at once; of each pool the last word."""
        oldest = self._clock.now() - REMEMBERED
        return tuple(
            stock for stock in list(self._said.get(count, {}).values()) if stock.at > oldest
        )

    async def look(
        self, offers: Iterable[Offer], count: int = 1, *, seconds: Seconds = STOCK_SECONDS
    ) -> Answers:
        """Ask the clouds of these offers, and wait for so many seconds at most. Never raises for what a cloud does.

        Parameters
        ----------
        offers
            Only of clouds that tell their stock, the best first; of each cloud the first `POOLS_A_CLOUD` pools are asked about.
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
        return Answers(tuple(s for s in self.known(count) if s.pool.cloud in wanted), late, failed)

    def _begin(self, cloud: str, offers: Sequence[Offer], count: int) -> asyncio.Task[None] | None:
        """The question to a cloud, one at a time each; None where all was asked within the last minute."""
        now = self._clock.elapsed()
        due = [
            offer
            for offer in offers
            if now - self._asked.get((count, Pool.of(offer)), -ASKED_AGAIN) >= ASKED_AGAIN
        ]
        running = self._under_way.get(cloud)
        if not due:
            return running
        # Noted before the answer: a cloud that is slow, or refuses to tell, is not asked again with every plan.
        self._asked = {key: at for key, at in self._asked.items() if now - at < ASKED_AGAIN}
        self._asked.update(((count, Pool.of(offer)), now) for offer in due)
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
        self._said[count] = kept  # exchanged whole: other threads read it
        try:
            self._tell(cloud, said, count)
        except Exception:  # who is told must not decide what is known
            log.exception("telling of the stock of %s", cloud)


def by_cloud(offers: Iterable[Offer], most: int = POOLS_A_CLOUD) -> dict[str, list[Offer]]:
    """Of each cloud the first offers, one a pool, so many at most."""
    found: dict[str, dict[Pool, Offer]] = {}
    for offer in offers:
        some = found.setdefault(offer.cloud, {})
        if len(some) < most:
            some.setdefault(Pool.of(offer), offer)
    return {cloud: list(some.values()) for cloud, some in found.items()}
