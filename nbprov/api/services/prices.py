"""What is on sale: the price catalogue, with live prices and stock where they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbprov.api.cloud_checks import SILENT
from nbprov.api.context import Context
from nbprov.api.errors import CloudTrouble
from nbprov.api.name_list import name_list
from nbprov.api.price_query import Prices, narrowed, with_accelerator
from nbprov.api.steps import Steps, result
from nbprov.clouds import registry
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_probe import POOLS_PER_CLOUD, StockAnswers
from nbprov.market.stock_report import StockReport
from nbprov.model.failures import CloudError, Failure
from nbprov.model.offers import Offer

from .clouds import CloudService
from .stock import StockService

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query


class PriceService:
    """The price catalogue and questions about prices."""

    def __init__(self, context: Context, clouds: CloudService, stock: StockService) -> None:
        self._context, self._clouds, self._stock = context, clouds, stock

    def catalog(self, clouds: Sequence[str] | str = ()) -> Steps[Catalog]:
        """The price catalogue, with the live offers of these clouds in it.

        Raises
        ------
        CloudTrouble
            If one of them cannot tell its offers.
        """
        catalog, failed = yield from self.with_live_offers(name_list(clouds, "clouds"))
        for failure in failed.values():
            raise CloudTrouble(failure)
        return catalog

    def with_live_offers(self, clouds: Sequence[str]) -> Steps[tuple[Catalog, dict[str, Failure]]]:
        """The price catalogue with the live offers of these clouds, and why others told none."""
        from nbprov.catalog import default_catalog

        base = default_catalog()
        # A list that a refresh wrote stands; until there is one, the adapter's own prices do.
        stored = {cloud for cloud in base.clouds() if base.info(cloud).origin}
        asked = [name for name in clouds if name not in stored]
        if not asked:
            return base, {}
        engine = self._context.engine

        async def offers_of(name: str) -> Sequence[Offer] | Failure:
            try:
                return await engine.cloud(name).offers() or ()
            except CloudError as error:
                return error.failure

        async def all_offers() -> list[Sequence[Offer] | Failure]:
            return await asyncio.gather(*map(offers_of, asked))

        told = yield from result(engine.thread.call(all_offers()))
        offers, failed = list[Offer](), dict[str, Failure]()
        for name, answer in zip(asked, told, strict=True):
            if isinstance(answer, Failure):
                failed[name] = answer
            else:
                offers += answer
        return (base.with_offers(offers) if offers else base), failed

    def prices(
        self,
        /,
        accelerator: str = "",
        *,
        query: Query | None = None,
        live: bool = False,
        fuzzy: bool = False,
        **conditions: Any,
    ) -> Steps[Prices]:
        """What is on sale. Clouds that are not set up are listed too.

        Parameters
        ----------
        accelerator
            `A100`, `A100:8`, `A100:4+`, `80GB+:8`, `nvidia:24GB`, `A100*` or `/A100.*/`. Case does
            not matter, and a fragment of one name is enough.
        query
            Further conditions.
        live
            Ask every cloud that is set up for its prices now, and for its stock (3 s at most),
            where it can tell. `Prices.remarks` names those that do not answer.
        fuzzy
            A fragment of several names means all of them instead of an error.
        conditions
            Fields of `nbprov.catalog.Query`, beside those of `query`:
            `cloud="aws", region="eu", market="spot", max_hourly=2_500_000`.

        Raises
        ------
        UnknownName, AmbiguousName
            If no accelerator, or more than one, has a name of the question; with close names.
        QueryError, UsageError
            If the question is in no known form.

        Examples
        --------
        >>> nbprov.prices("80GB+:8", region="eu", fresh_days=30).to_frame()  # doctest: +SKIP
        """
        from nbprov.catalog import Query
        from nbprov.catalog.vocabulary.suggestions import require_known

        wanted = narrowed(query or Query(), conditions)
        catalog, remarks = yield from self._catalog_now(wanted, live=live)
        wanted = with_accelerator(catalog, accelerator, wanted, fuzzy=fuzzy)
        require_known(catalog, wanted)
        prices = Prices(catalog, wanted, remarks)
        if live:
            yield from self._add_stock(prices)
        return prices

    def stock_report(self, prices: Prices) -> Steps[StockReport | None]:
        """What clouds say of the stock of each one's cheapest offers; None if none says anything.

        Clouds that can be used are asked, each pool once a minute at most. Takes at most 3 s.
        """
        engine = self._context.engine
        answers = yield from self._ask_stock(prices)
        if not answers.stock or not self._context.is_open_on(engine):
            return None
        now = engine.clock.now()
        return StockReport(answers.stock, now, self._stock.last_day(now))

    def _ask_stock(self, prices: Prices) -> Steps[StockAnswers]:
        """Ask the clouds that can be used for the stock of each one's cheapest offers."""
        offers = prices.first_of_clouds(POOLS_PER_CLOUD, self._stock.telling())
        return (yield from self._stock.ask_for(offers))

    def _add_stock(self, prices: Prices) -> Steps[None]:
        """Add what clouds say of the stock of each one's cheapest offers."""
        yield from self._clouds.check(self._clouds.with_stock_probe(), fresh=False)
        answers = yield from self._ask_stock(prices)
        prices.learn(answers.stock, self._context.engine.clock.now())
        late = [
            f"{cloud}: no answer about its stock within {STOCK_SECONDS:g} s"
            for cloud in answers.late
        ]
        failed = [
            f"{cloud}: no answer about its stock: {why}"
            for cloud, why in (answers.failed or {}).items()
        ]
        prices.remarks = (*prices.remarks, *late, *failed)

    def _catalog_now(self, query: Query, *, live: bool) -> Steps[tuple[Catalog, list[str]]]:
        """The catalogue with the live offers that a question wants, and remarks about clouds."""
        from nbprov.catalog.query import names

        clouds, demo = self._clouds, self._context.demo
        if not (query.cloud or live or demo):
            return (yield from self.catalog()), []
        wanted = [
            name
            for name in registry.names()
            if name in names(query.cloud) or (demo and not clouds.enters_any_plan(name))
        ]
        remarks = []
        if live:
            others = [
                name
                for name in registry.names()
                if not query.cloud and name not in wanted and clouds.enters_any_plan(name)
            ]
            for told in (yield from clouds.check(others, fresh=False)):
                if told.enabled:
                    wanted.append(told.cloud)
                elif told.problem is not None and told.problem.cause in SILENT:
                    remarks.append(
                        f"{told.cloud}: prices of the catalogue; it did not answer"
                        " when it was asked for current ones"
                    )
            if not wanted:
                remarks.append(
                    "no cloud that is set up tells current prices: these are of the catalogue"
                )
        catalog, failed = yield from self.with_live_offers(wanted)
        for name in failed.keys() & {*names(query.cloud)} - {*catalog.clouds()}:
            raise CloudTrouble(failed[name])  # without it the name would be called unknown
        remarks += [
            f"{name}: no prices of now, since it could not be asked: {failure.message}"
            for name, failure in failed.items()
        ]
        return catalog, remarks
