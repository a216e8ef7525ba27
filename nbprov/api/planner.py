"""What is on sale, which clouds may be used, and plans from both. Nothing is created here."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.clouds import registry
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.market.stock_probe import POOLS_PER_CLOUD
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Block, Offer, Plan
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

from .engine_provider import Standing
from .errors import readably
from .launch_terms import Terms, terms_of
from .price_query import Prices, asked, narrowed

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query
    from nbprov.market import Stock, SuccessModel
    from nbprov.planning import EnabledCloud, Relaxation

    from .services.stock import StockDesk


SILENT = (Cause.TIMEOUT, Cause.TRANSIENT, Cause.RATE_LIMIT, Cause.UNKNOWN_OUTCOME)
"""Of a check: the cloud may be set up, and did not answer."""


class Planner(Standing):
    """The verbs that only look.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        The simulated `local` cloud enters every plan, not only those that name it.
    """

    def __init__(self, home: Path | None, *, demo: bool) -> None:
        super().__init__(home, demo=demo)
        self._stock: StockDesk | None = None

    @property
    def stock(self) -> StockDesk:
        """What clouds say of their stock."""
        with self._making:
            if self._stock is None:
                from .services.stock import StockDesk

                self._stock = StockDesk(self)
            return self._stock

    def close(self) -> None:
        """Give up leases and stop the engine's thread. Machines go on."""
        self._stock = None
        super().close()

    # ------------------------------------------------------------ clouds and catalogue

    def enabled(
        self, spec: Spec, assume: Sequence[str] = ()
    ) -> tuple[dict[str, EnabledCloud], dict[str, str]]:
        """The clouds that may be used for a spec, and why each other may not.

        Parameters
        ----------
        assume
            Clouds of the catalogue that are taken to be set up; `all` means every one.

        Raises
        ------
        UnknownName
            If an assumed cloud is not in the catalogue.
        """
        from nbprov.planning import EnabledCloud, reason

        named = {r.cloud for r in spec.requests}
        adapters = {n: self.capabilities_at_hand(n) for n in registry.names()}
        is_anywhere = not named or "" in named
        wanted = [
            n
            for n in adapters
            if n in named or self.demo or (is_anywhere and self._enters_any_plan(n))
        ]
        usable, unusable = {}, {}
        for result in self.check(wanted, fresh=False):
            capabilities = adapters[result.cloud]
            if result.enabled and capabilities is not None:
                usable[result.cloud] = EnabledCloud(result.account, capabilities)
            else:
                unusable[result.cloud] = reason(result)
        for name, cloud in self._assumed(assume).items():
            if name not in usable:
                own = self.capabilities_of(name) if name in adapters else None
                usable[name] = cloud if own is None else EnabledCloud("", own)
                unusable.pop(name, None)
        return usable, unusable

    def _assumed(self, clouds: Sequence[str]) -> dict[str, EnabledCloud]:
        from nbprov.catalog import Query
        from nbprov.catalog.vocabulary.suggestions import require_known
        from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds

        names = [name.strip().lower() for name in clouds if name.strip()]
        if not names:
            return {}
        catalog = self.catalog()
        if "all" in names:
            return skypilot_clouds(catalog.clouds())
        require_known(catalog, Query(cloud=tuple(names)))
        return skypilot_clouds(names)

    def catalog(self, clouds: Sequence[str] = ()) -> Catalog:
        """The price catalogue, with the live offers of these clouds in it.

        Raises
        ------
        CloudTrouble
            If one of them cannot tell its offers.
        """
        from nbprov.catalog import default_catalog

        async def all_offers() -> list[Sequence[Offer] | None]:
            return await asyncio.gather(
                *(readably(self.engine.cloud(name).offers()) for name in clouds)
            )

        live = wait_for(self.engine.thread.call(all_offers())) if clouds else []
        offers = [offer for some in live for offer in some or ()]
        base = default_catalog()
        return base.with_offers(offers) if offers else base

    # ------------------------------------------------------------ prices and plans

    def prices(
        self,
        /,
        accelerator: str = "",
        *,
        query: Query | None = None,
        live: bool = False,
        fuzzy: bool = False,
        **conditions: Any,
    ) -> Prices:
        """What is on sale. Clouds that are not set up are listed too.

        Parameters
        ----------
        accelerator
            `A100`, `A100:8`, `A100:4+`, `80GB+:8`, `nvidia:24GB`, `A100*` or `/A100.*/`; case does not matter, a fragment of one name will do.
        query
            Further conditions.
        live
            Ask every cloud that is set up for its prices now, and for its stock (3 s at most), where it can tell. One that does not answer is
            named in `Prices.remarks`.
        fuzzy
            A fragment of several names means all of them, instead of being an error.
        conditions
            Fields of `nbprov.catalog.Query`, beside those of `query`: `cloud="aws", region="eu", market="spot", max_hourly=2_500_000`.

        Raises
        ------
        UnknownName, AmbiguousName
            If nothing, or more than one accelerator, has a name of the question; with close names.
        QueryError, UsageError
            If the question is in no known form.

        Examples
        --------
        >>> nbprov.prices("80GB+:8", region="eu", fresh_days=30).to_frame()  # doctest: +SKIP
        """
        from nbprov.catalog import Query
        from nbprov.catalog.vocabulary.suggestions import require_known

        asked_for = narrowed(query or Query(), conditions)
        catalog, remarks = self._priced_now(asked_for, live=live)
        asked_for = asked(catalog, accelerator, asked_for, fuzzy=fuzzy)
        require_known(catalog, asked_for)
        prices = Prices(catalog, asked_for, remarks)
        return self._stocked(prices) if live else prices

    def _stocked(self, prices: Prices) -> Prices:
        """Prices with what clouds say of the stock of the first ones of each."""
        told = {name: self.capabilities_at_hand(name) for name in registry.names()}
        self.check(
            [name for name, can in told.items() if can is not None and can.stock_probe], fresh=False
        )
        answers = self.stock.ask_for(prices.first_of_clouds(POOLS_PER_CLOUD, self.stock.telling()))
        prices.learn(answers.stock, self.engine.clock.now())
        late = [
            f"{cloud}: no word of its stock within {STOCK_SECONDS:g} s" for cloud in answers.late
        ]
        failed = [
            f"{cloud}: no word of its stock: {why}" for cloud, why in (answers.failed or {}).items()
        ]
        prices.remarks = (*prices.remarks, *late, *failed)
        return prices

    def _priced_now(self, query: Query, *, live: bool) -> tuple[Catalog, list[str]]:
        """The catalogue with the live offers that a question wants; what to say of clouds that did not tell theirs."""
        from nbprov.catalog.query import names

        if not (query.cloud or live or self.demo):
            return self.catalog(), []
        wanted = [
            n
            for n in registry.names()
            if n in names(query.cloud) or (self.demo and not self._enters_any_plan(n))
        ]
        remarks = []
        if live:
            others = [
                n
                for n in registry.names()
                if not query.cloud and n not in wanted and self._enters_any_plan(n)
            ]
            for result in self.check(others, fresh=False):
                if result.enabled:
                    wanted.append(result.cloud)
                elif result.problem is not None and result.problem.cause in SILENT:
                    remarks.append(
                        f"{result.cloud}: prices of its list, it could not be asked for those of now"
                    )
            if not wanted:
                remarks.append(
                    "no cloud that is set up tells its prices of now: these are of the catalogue"
                )
        return self.catalog(wanted), remarks

    def parse(
        self,
        text: str,
        *,
        ignore: Sequence[str] = (),
        first_line: int = 1,
        variables: Mapping[str, object] | None = None,
        given: Collection[str] | None = None,
    ) -> Spec:
        """Read a spec.

        Parameters
        ----------
        ignore
            Fields whose errors are turned into warnings.
        first_line
            The number of the text's first line as its reader counts: 2 below a magic's line.
        variables
            What `$name` in the text stands for: `globals()`, or any map of names to values.
        given
            Names of envs and secrets for which there are values. Those that the text leaves open and that are not among them are told
            together with the text's errors, where it has any. None: they are not looked at.

        Raises
        ------
        SpecError
            With every problem at once.
        """
        from nbprov.spec import parse

        return parse(
            text, frozenset(ignore), first_line=first_line, variables=variables, given=given
        )

    def plan(
        self,
        spec: Spec | str,
        *,
        blocks: Sequence[Block] | None = None,
        stock: Sequence[Stock] = (),
        variables: Mapping[str, object] | None = None,
        assume: Sequence[str] = (),
        wait: Seconds = 0.0,
    ) -> Plan:
        """The ordered candidates of a spec; nothing is created.

        What launches of the last two days met counts for P(success), and with it for `prefer: soonest | balanced` and among equal prices. Clouds
        that tell their stock are asked for it; what they say within the last five minutes puts places that are sold out last.

        Parameters
        ----------
        blocks
            What is left out; by default what the ledger knows to be blocked now.
        stock
            What clouds said of their stock just now, beside what they are asked.
        variables
            What `$name` stands for where the spec is text: `globals()`, or any map of names to values.
        wait
            Seconds to wait at most for what clouds say of their stock (3 suffices). By default none: they are asked behind the plan, and the next
            one, and runs made from it, go by what they say.
        assume
            Clouds that are taken to be set up, to see what they would offer: names of the catalogue, or `all`. No launch uses them.

        Raises
        ------
        SpecError, PlanError
            If the spec cannot be read, or names a place or type that does not exist.
        UnknownName
            If an assumed cloud is not in the catalogue.
        """
        spec = self._read(spec, variables)
        made = self.planned(spec, blocks=blocks, stock=stock, assume=assume)
        if assume:
            return made
        if wait:
            return (
                self.planned(spec, blocks=blocks, stock=stock)
                if self.stock.ask(made, wait).stock
                else made
            )
        self.stock.ask_behind(made)
        return made

    def planned(
        self,
        spec: Spec,
        *,
        blocks: Sequence[Block] | None = None,
        stock: Sequence[Stock] = (),
        assume: Sequence[str] = (),
    ) -> Plan:
        """As `plan`, with what is known of stock: nobody is asked for more."""
        from nbprov.planning import plan

        usable, unusable = self.enabled(spec, assume)
        return plan(
            spec,
            self._priced(usable, assume),
            usable,
            disabled=unusable,
            blocks=self.engine.ledger.blocks.standing() if blocks is None else blocks,
            now=self.engine.clock.now(),
            demo=self.demo,
            success_model=self._success_model(spec, [*self.stock.known(spec.num_nodes), *stock]),
        )

    def _planned_again(self, spec: Spec, blocks: Sequence[Block]) -> Plan:
        """The plan of a pass: what waits for stock asks for it first, and a launch that is under way waits for no more than a moment."""
        from .services.stock import LAUNCH_GRACE

        return self.plan(spec, blocks=blocks, wait=LAUNCH_GRACE)

    def _read(self, spec: Spec | str, variables: Mapping[str, object] | None) -> Spec:
        return self.parse(spec, variables=variables) if isinstance(spec, str) else spec

    def _success_model(self, spec: Spec, stock: Sequence[Stock]) -> SuccessModel:
        """What is known of stock: what launches met as long as it still counts, and what clouds say."""
        from nbprov.market import SuccessModel
        from nbprov.market.success_model import FORGOTTEN

        now = self.engine.clock.now()
        return SuccessModel(
            self.engine.ledger.observations.attempts(now - FORGOTTEN),
            stock=stock,
            now=now,
            count=spec.num_nodes,
        )

    def terms(self, plan: Plan, *, race: int | None = None, agreed: bool = False) -> Terms:
        """What Launch would agree to for a plan, and how the run would buy, wait, check and end. Nothing is written.

        Parameters
        ----------
        race, agreed
            As for `provision`.
        """
        return terms_of(self.engine.ledger, plan, race=race, agreed=agreed)

    def _priced(self, usable: Mapping[str, EnabledCloud], assume: Sequence[str]) -> Catalog:
        """The catalogue with the live offers of those clouds that have an adapter, as all have that are not assumed."""
        adapters = registry.names() if assume else usable
        return self.catalog([name for name in usable if name in adapters])

    def relax(
        self,
        spec: Spec | str,
        *,
        variables: Mapping[str, object] | None = None,
        assume: Sequence[str] = (),
    ) -> tuple[Relaxation, ...]:
        """What one constraint less would open, each constraint alone: how many more places, and from what price.

        Parameters
        ----------
        variables, assume
            As for `plan`.

        Raises
        ------
        SpecError, PlanError
            As `plan`.

        Examples
        --------
        >>> import nbprov
        >>> [r.words() for r in nbprov.relax("resources: {accelerators: A100:8, infra: local, use_spot: true}")]  # doctest: +SKIP
        ['use_spot: prefer opens 3 more places, from $14.20/h']
        """
        from nbprov.planning import EnabledCloud, relax

        spec = self._read(spec, variables)
        usable, unusable = self.enabled(spec, assume)
        return relax(
            spec,
            self._priced(usable, assume),
            usable,
            disabled=unusable,
            off={
                name: EnabledCloud("", own)
                for name in unusable
                if (own := self.capabilities_of(name)) is not None
            },
            blocks=self.engine.ledger.blocks.standing(),
            now=self.engine.clock.now(),
            demo=self.demo,
        )
