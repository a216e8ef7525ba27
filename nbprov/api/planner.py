"""What is on sale, which clouds may be used, and plans from both. Nothing is created here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.clouds import registry
from nbprov.model.launches import CheckResult
from nbprov.model.offers import Offer, Plan
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

from .errors import readably
from .prices import Prices, split_accelerator

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query
    from nbprov.planning import EnabledCloud
    from nbprov.provisioning.engine import Engine


class Planner:
    """The verbs that only look.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        The simulated `local` cloud enters every plan, not only those that name it.
    """

    def __init__(self, home: Path | None, *, demo: bool) -> None:
        self._home = home
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._checks: dict[str, CheckResult] = {}
        self.demo = demo

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        with self._opening:
            if self._engine is None:
                from nbprov.provisioning.engine import Engine

                self._engine = Engine(self._home)
            return self._engine

    def close(self) -> None:
        """Give up leases and stop the engine's thread. Machines go on."""
        with self._opening:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.shut_down()

    # ------------------------------------------------------------ clouds and catalogue

    def check(self, clouds: Sequence[str] | None = None, *, fresh: bool = True) -> list[CheckResult]:
        """Ask each cloud, in parallel, whether it can be used. At most 5 s each.

        Raises
        ------
        NotFound
            If a named cloud has no adapter.
        """
        names = list(clouds) if clouds is not None else list(registry.names())
        wanted = [n for n in names if fresh or n not in self._checks]

        async def all_checks() -> list[CheckResult]:
            return list(await asyncio.gather(*(self.engine.cloud(n).check() for n in wanted)))

        if wanted:
            for result in wait_for(self.engine.thread.call(all_checks())):
                self._checks[result.cloud] = result
        return [self._checks[n] for n in names]

    def enabled(self, spec: Spec) -> tuple[dict[str, EnabledCloud], dict[str, str]]:
        """The clouds that may be used for a spec, and why each other may not."""
        from nbprov.planning import EnabledCloud, reason

        named = {r.cloud for r in spec.requests}
        adapters = {n: self.engine.cloud(n) for n in registry.names()}
        wanted = [n for n, c in adapters.items() if n in named or self.demo or not (c.capabilities.named_only or named - {""})]
        usable, unusable = {}, {}
        for result in self.check(wanted, fresh=False):
            if result.enabled:
                usable[result.cloud] = EnabledCloud(result.account, adapters[result.cloud].capabilities)
            else:
                unusable[result.cloud] = reason(result)
                self._checks.pop(result.cloud)  # asked again next time: the person may have set it up meanwhile
        return usable, unusable

    def catalog(self, clouds: Sequence[str] = ()) -> Catalog:
        """The price catalogue, with the live offers of these clouds in it.

        Raises
        ------
        CloudTrouble
            If one of them cannot tell its offers.
        """
        from nbprov.catalog import default_catalog

        async def all_offers() -> list[Sequence[Offer] | None]:
            return await asyncio.gather(*(readably(self.engine.cloud(name).offers()) for name in clouds))

        live = wait_for(self.engine.thread.call(all_offers())) if clouds else []
        offers = [offer for some in live for offer in some or ()]
        base = default_catalog()
        return base.with_offers(offers) if offers else base

    # ------------------------------------------------------------ prices and plans

    def prices(self, accelerator: str = "", *, query: Query | None = None, live: bool = False) -> Prices:
        """What is on sale.

        Parameters
        ----------
        accelerator
            `A100` or `A100:8`; case does not matter, a fragment of one name will do.
        query
            Further conditions.
        live
            Ask every cloud that is set up for its prices now, where it can tell.

        Raises
        ------
        UnknownName, AmbiguousName
            If no kind, or more than one, has this name; with close names.
        """
        from nbprov.catalog import Query
        from nbprov.catalog.query import names

        query = query or Query()
        wanted = set(names(query.cloud))
        catalog = self.catalog(
            [
                name
                for name in registry.names()
                if name in wanted or self.demo or (live and not self.engine.cloud(name).capabilities.named_only)
            ]
        )
        if accelerator:
            kind, count = split_accelerator(accelerator)
            query = replace(query, accelerator=catalog.resolve_accelerator(kind), count=count)
        return Prices(catalog, query)

    def parse(self, text: str, *, ignore: Sequence[str] = (), first_line: int = 1) -> Spec:
        """Read a spec.

        Parameters
        ----------
        ignore
            Fields whose errors are turned into warnings.
        first_line
            The number of the text's first line as its reader counts: 2 below a magic's line.

        Raises
        ------
        SpecError
            With every problem at once.
        """
        from nbprov.spec import parse

        return parse(text, frozenset(ignore), first_line=first_line)

    def plan(self, spec: Spec | str) -> Plan:
        """The ordered candidates of a spec; nothing is created.

        Raises
        ------
        SpecError, PlanError
            If the spec cannot be read, or names a place or type that does not exist.
        """
        from nbprov.planning import plan

        if isinstance(spec, str):
            spec = self.parse(spec)
        usable, unusable = self.enabled(spec)
        return plan(
            spec,
            self.catalog(list(usable)),
            usable,
            disabled=unusable,
            blocks=self.engine.ledger.blocks(),
            now=self.engine.clock.now(),
            demo=self.demo,
        )
