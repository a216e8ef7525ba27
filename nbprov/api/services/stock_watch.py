"""Watches of stock: clouds are asked again and again until one has what is wanted.

Nothing is launched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context
from nbprov.api.steps import Steps
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_index import StockIndex
from nbprov.market.stock_probe import ASKED_AGAIN, POOLS_PER_CLOUD
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import UsageError
from nbprov.model.offers import Offer
from nbprov.model.stock import Stock, StockLevel
from nbprov.runtime.waiting import Waitable

from .clouds import CloudService
from .prices import PriceService
from .stock import StockService

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

WATCH_SECONDS: Seconds = 6 * 3600.0
"""How long a watch goes on by default: half a working day, since nothing is asked for ever."""


@dataclass(frozen=True, slots=True)
class StockedOffer:
    """An offer that its cloud says it has."""

    offer: Offer
    stock: Stock


@dataclass(frozen=True, slots=True)
class StockLook:
    """One round of questions of a watch.

    Attributes
    ----------
    clouds
        The clouds that were asked.
    silent
        The clouds that did not answer, and why.
    """

    at: Instant
    clouds: tuple[str, ...]
    silent: tuple[str, ...] = ()


class StockWatch(Waitable[tuple[StockedOffer, ...]]):
    """A watch of stock in the background: `wait()` or `await` it.

    Its result are the offers in stock, cheapest first; none where its time is over.

    Attributes
    ----------
    until
        When it gives up.
    looks
        How often it has asked.
    last
        The last round; None before the first has ended.
    on_look
        Called (on the engine thread) after each round.
    """

    def __init__(
        self,
        engine: Engine,
        stock: StockService,
        offers: Sequence[Offer],
        *,
        nodes: int,
        seconds: Seconds,
    ) -> None:
        self._stock, self._clock, self._nodes = stock, engine.clock, nodes
        self._offers = sorted(offers, key=lambda offer: offer.hourly)
        self.clouds = tuple(sorted({offer.cloud for offer in self._offers}))
        self.until = self._clock.now() + seconds
        self.looks = 0
        self.last: StockLook | None = None
        self.on_look: Callable[[], None] = lambda: None
        super().__init__(engine.thread.call(self._watch(seconds)))

    async def _watch(self, seconds: Seconds) -> tuple[StockedOffer, ...]:
        end = self._clock.elapsed() + seconds
        while True:
            answers = await self._stock.look(self._offers, self._nodes)
            said = StockIndex(answers.stock, now=self._clock.now())
            self.looks += 1
            silent = (
                *answers.late,
                *(f"{cloud}: {why}" for cloud, why in (answers.failed or {}).items()),
            )
            self.last = StockLook(self._clock.now(), self.clouds, silent)
            found = [
                StockedOffer(offer, stock)
                for offer in self._offers
                if (stock := said.fresh(offer.pool)) is not None
            ]
            found = [one for one in found if one.stock.level is not StockLevel.NONE]
            self.on_look()
            if found or self._clock.elapsed() >= end:
                return tuple(found)
            await asyncio.sleep(
                min(ASKED_AGAIN + STOCK_SECONDS, max(0.0, end - self._clock.elapsed()))
            )

    def cancel(self) -> None:
        """End the watch. A second call does nothing."""
        self._future.cancel()

    def when_done(
        self, tell: Callable[[tuple[StockedOffer, ...] | BaseException | None], None]
    ) -> None:
        """Call a function at the end, on the engine thread.

        It gets the offers in stock, the error, or None where the watch was cancelled.
        """

        def ended(future: object) -> None:
            if self._future.cancelled():
                tell(None)
            else:
                tell(self._future.exception() or self._future.result())

        self._future.add_done_callback(ended)


class StockWatchService:
    """Begins watches of stock."""

    def __init__(
        self, context: Context, clouds: CloudService, prices: PriceService, stock: StockService
    ) -> None:
        self._context, self._clouds, self._prices, self._stock = context, clouds, prices, stock

    def watch_stock(
        self,
        /,
        accelerator: str = "",
        *,
        nodes: int = 1,
        seconds: Seconds = WATCH_SECONDS,
        **conditions: Any,
    ) -> Steps[StockWatch]:
        """Ask clouds again and again, in the background, until one says that it has this.

        `wait()` or `await` what is returned. Nothing is launched; a run with `wait` in its spec
        waits for stock and takes it.

        Parameters
        ----------
        accelerator, conditions
            As for `prices`: `"H100:8"`, `max_hourly=30_000_000`, `market="spot"`.
        nodes
            How many machines at once.
        seconds
            When it gives up.

        Raises
        ------
        UsageError
            If no cloud that is set up tells the stock of this.
        """
        prices = yield from self._prices.prices(accelerator, fuzzy=True, **conditions)
        yield from self._clouds.check(self._clouds.with_stock_probe(), fresh=False)
        offers = prices.first_of_clouds(POOLS_PER_CLOUD, self._stock.telling())
        if not offers:
            raise UsageError(
                "no cloud that is set up tells the stock of this"
                if len(prices)
                else "nothing that is on sale is meant",
                hint="%nbprov check shows which clouds are set up;"
                " a %%provision cell with `wait: 6h` finds stock by trying",
                code="watch.nobody-tells",
            )
        return StockWatch(self._context.engine, self._stock, offers, nodes=nodes, seconds=seconds)
