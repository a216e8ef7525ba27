"""Watching the stock of what is on sale: clouds are asked again and again until one has it. Nothing is launched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.api.price_query import Prices
from nbprov.clouds import registry
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_index import StockIndex
from nbprov.market.stock_probe import ASKED_AGAIN, POOLS_PER_CLOUD
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import UsageError
from nbprov.model.offers import Offer
from nbprov.model.stock import Stock, StockLevel
from nbprov.runtime.waiting import Waitable

if TYPE_CHECKING:
    from nbprov.api.session import Session

WATCH_SECONDS: Seconds = 6 * 3600.0
"""How long a watch goes on where nothing else is said: a working day's half, and no question is asked for ever."""


@dataclass(frozen=True, slots=True)
class InStock:
    """An offer that its cloud says it has."""

    offer: Offer
    stock: Stock


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a watch.

    Attributes
    ----------
    clouds
        Who was asked.
    silent
        Who did not tell, and why.
    """

    at: Instant
    clouds: tuple[str, ...]
    silent: tuple[str, ...] = ()


class StockWatch(Waitable[tuple[InStock, ...]]):
    """A watch that goes on in the background; `wait()` or `await` it. Its result are the offers in stock, cheapest first; empty at its end in time.

    Attributes
    ----------
    until
        When it gives up.
    looks
        How often it has looked.
    last
        The last look; None before the first has ended.
    on_look
        Called (on the engine's thread) after each look.
    """

    def __init__(
        self, session: Session, prices: Prices, *, nodes: int = 1, seconds: Seconds = WATCH_SECONDS
    ) -> None:
        told = {name: session.capabilities_at_hand(name) for name in registry.names()}
        session.check(
            [name for name, can in told.items() if can is not None and can.stock_probe], fresh=False
        )
        self._desk, self._clock, self._nodes = session.stock, session.engine.clock, nodes
        telling = session.stock.telling()
        self._offers = sorted(
            prices.first_of_clouds(POOLS_PER_CLOUD, telling), key=lambda offer: offer.hourly
        )
        if not self._offers:
            raise UsageError(
                "no cloud that is set up tells the stock of this"
                if len(prices)
                else "nothing that is on sale is meant",
                hint="%nbprov check shows which clouds are set up; a %%provision cell with `wait: 6h` finds stock by trying",
                code="watch.nobody-tells",
            )
        self.clouds = tuple(sorted({offer.cloud for offer in self._offers}))
        self.until = self._clock.now() + seconds
        self.looks = 0
        self.last: Look | None = None
        self.on_look: Callable[[], None] = lambda: None
        super().__init__(session.engine.thread.call(self._watch(seconds)))

    async def _watch(self, seconds: Seconds) -> tuple[InStock, ...]:
        end = self._clock.elapsed() + seconds
        while True:
            answers = await self._desk.look(self._offers, self._nodes)
            said = StockIndex(answers.stock, now=self._clock.now())
            self.looks += 1
            silent = (
                *answers.late,
                *(f"{cloud}: {why}" for cloud, why in (answers.failed or {}).items()),
            )
            self.last = Look(self._clock.now(), self.clouds, silent)
            found = [
                InStock(offer, stock)
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
        """Watch no more. A second time does nothing."""
        self._future.cancel()

    def when_done(self, tell: Callable[[tuple[InStock, ...] | BaseException | None], None]) -> None:
        """Call a function at the end, on the engine's thread: with what is in stock, with the error, or with None where it was given up."""

        def ended(future: object) -> None:
            if self._future.cancelled():
                tell(None)
            else:
                tell(self._future.exception() or self._future.result())

        self._future.add_done_callback(ended)
