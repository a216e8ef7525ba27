"""One session a process: the engine, the catalogue, the enabled clouds, and the verbs over them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.clouds import registry
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.launches import CheckResult
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Candidate, Offer, Plan
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

from .cluster import Cluster
from .given import Ask, collect, nobody
from .run import Run

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query
    from nbprov.planning import EnabledCloud
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger.ledger import ClusterRow
    from nbprov.provisioning.live import LiveCluster

T = TypeVar("T")

DEMO_VARIABLE = "NBPROV_DEMO"
"""Set to 1, the simulated `local` cloud enters every plan."""

DEFAULT_NAME = "cluster"


class DoesNotFit(NbprovError):
    """A running cluster has this name and is not what the spec asks for."""

    code = "cluster.does-not-fit"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run has cost so far."""

    name: str
    run_id: str
    started: float
    state: str
    cost: Micros
    attempts: int


class Session:
    """The verbs of nbprov. `nbprov.provision`, `nbprov.plan` and so on are those of the process's one session.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        The simulated `local` cloud enters every plan, not only those that name it.
    """

    def __init__(self, home: Path | None = None, *, demo: bool | None = None) -> None:
        self._home = home
        self._engine: Engine | None = None
        self._checks: dict[str, CheckResult] = {}
        self.demo = os.environ.get(DEMO_VARIABLE) == "1" if demo is None else demo
        self.runs: dict[str, Run] = {}

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        if self._engine is None:
            from nbprov.provisioning.engine import Engine

            self._engine = Engine(self._home)
        return self._engine

    def close(self) -> None:
        """Give up leases and stop the engine's thread. Machines go on."""
        if self._engine is not None:
            self._engine.shut_down()
            self._engine = None

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
        """The price catalogue, with the live offers of these clouds in it."""
        from nbprov.catalog import default_catalog

        offers: list[Offer] = []
        for name in clouds:
            live = self.engine.cloud(name).adapter.offers()
            offers += live or ()
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
            kind, _, count = accelerator.partition(":")
            query = replace(query, accelerator=catalog.resolve_accelerator(kind), count=_count(count, accelerator))
        return Prices(catalog, query)

    def parse(self, text: str, *, ignore: Sequence[str] = ()) -> Spec:
        """Read a spec. Raises `SpecError` with every problem at once."""
        from nbprov.spec import parse

        return parse(text, ignore=frozenset(ignore))

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

    # ------------------------------------------------------------ provisioning

    def provision(
        self,
        spec: Spec | str,
        name: str = "",
        *,
        race: int = 1,
        hedge: Seconds = 20.0,
        env: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (),
        folder: str = "",
        ask: Ask = nobody,
    ) -> Run | Cluster:
        """Plan a spec and return a run that waits for `launch()`; nothing is created yet.

        A running cluster of that name that fits the spec is returned instead; a stopped one is started.

        Parameters
        ----------
        race
            How many attempts may be under way at once; the first that is ready is kept.
        env
            Values for envs and secrets that the spec leaves open.
        ignore
            Fields whose errors are turned into warnings.
        folder
            What relative paths are relative to; the current folder by default.

        Raises
        ------
        SpecError, PlanError, UsageError
            If the spec cannot be used as it stands.
        DoesNotFit
            If a cluster of that name runs and differs; the message names the difference.
        """
        if isinstance(spec, str):
            spec = self.parse(spec, ignore=ignore)
        if race < 1:
            raise UsageError(f"a race needs at least 1 attempt at a time, not {race}", hint="--race 1 tries one place after the other")
        name = name or spec.name or DEFAULT_NAME
        existing = self._existing(spec, name)
        if existing is not None:
            return existing
        given = collect(spec, env or {}, ask)
        plan = self.plan(spec)
        driver = self.engine.prepare_run(name, spec, plan, race=race, hedge=hedge if race > 1 else 0.0)
        run = Run(self, driver, given, folder or os.getcwd())
        self.runs[name] = run
        return run

    def _existing(self, spec: Spec, name: str) -> Run | Cluster | None:
        from nbprov.planning import fits

        run = self.runs.get(name)
        if run is not None and run.state.value in ("launching", "cancelling"):
            return run
        row = self.engine.ledger.cluster(name)
        if row is None or row.state in (ClusterState.ENDED, ClusterState.ENDING):
            return None
        self._observe(row)
        row = self.engine.ledger.cluster(name)
        if row is None or row.state in (ClusterState.ENDED, ClusterState.ENDING):
            return None
        differences = fits(spec, self.cluster_view(row))
        if differences:
            raise DoesNotFit(
                f"{name} is {row.state.value} and differs: {'; '.join(differences)}",
                hint=f"use another name, or end it first: %nbprov down {name}",
            )
        cluster = Cluster(self, name)
        if row.state is ClusterState.STOPPED:
            cluster.start().wait()
        return cluster

    def _observe(self, row: ClusterRow) -> None:
        engine = self.engine
        wait_for(engine.thread.call(engine.lifecycle.observe(engine.cloud(row.candidate.offer.cloud))))

    # ------------------------------------------------------------ clusters

    def cluster(self, name: str) -> Cluster:
        """The live cluster of this name. Raises `NotFound`, naming those there are."""
        self.engine.cluster(name)
        return Cluster(self, name)

    def clusters(self, *, ended: bool = False) -> list[ClusterView]:
        """Clusters from the ledger, live ones first."""
        return [self.cluster_view(row) for row in self.engine.ledger.clusters(live_only=not ended)]

    def cluster_view(self, row: ClusterRow) -> ClusterView:
        """A ledger row with its machines, guards and cost."""
        ledger = self.engine.ledger
        run = ledger.run(row.run_id)
        spec = self._spec_of(run.spec) if run is not None else Spec()
        return ClusterView(
            name=row.name,
            cluster_id=row.cluster_id,
            run_id=row.run_id,
            state=row.state,
            candidate=row.candidate,
            instances=tuple(ledger.instances(row.token)),
            guards=spec.guards,
            started=row.started,
            ended=row.ended,
            cost=ledger.cost(row.run_id),
            hourly_now=ledger.hourly_now(row.token),
            confirmed=row.confirmed,
            reason=row.reason,
            simulated=row.candidate.offer.source.startswith("simulated"),
        )

    def _spec_of(self, source: str) -> Spec:
        try:
            return self.parse(source)
        except NbprovError:
            return Spec()

    def start_remote(self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Run a coroutine with the live cluster, its connections open; cancelling the future interrupts the remote side.

        Raises
        ------
        UsageError
            If the cluster's run waits for Launch.
        NotFound
            If no live cluster has this name.
        """

        async def attached() -> T:
            return await work(await self.engine.attach(name))

        run = self.runs.get(name)
        if run is not None and not run.done:
            run.wait_without_cancelling()
        self.engine.cluster(name)
        return self.engine.thread.call(attached())

    def wait_remote(self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]], timeout: Seconds | None = None) -> T:
        """As `start_remote`, and block for the result; an interrupt cancels it."""
        future = self.start_remote(name, work)
        try:
            return wait_for(future, timeout)
        except KeyboardInterrupt:
            future.cancel()
            raise

    # ------------------------------------------------------------ books

    def blocks(self) -> list[Block]:
        """What is blocked now, why, and until when."""
        return self.engine.ledger.blocks()

    def clear_blocks(self) -> int:
        """Forget all blocks; returns how many."""
        return self.engine.ledger.clear_blocks()

    def costs(self) -> list[Cost]:
        """What each run has cost, newest first; failed attempts count."""
        ledger = self.engine.ledger
        return [
            Cost(r.name, r.run_id, r.created, r.state.value, ledger.cost(r.run_id), len(ledger.launches(r.run_id))) for r in ledger.runs()
        ]

    def attempts(self, name: str = "") -> list[tuple[str, Candidate, str, str]]:
        """The attempts of the latest run (of this name): state, candidate, failure, token."""
        ledger = self.engine.ledger
        run = next((r for r in ledger.runs() if not name or r.name == name), None)
        if run is None:
            return []
        return [(x.state.value, x.candidate, x.failure.sentence() if x.failure else "", x.token) for x in ledger.launches(run.run_id)]

    def sweep(self, *, end: bool = False) -> list[str]:
        """List machines of ours that the ledger does not know, on every enabled cloud; with `end` end them whatever their age."""
        from nbprov.provisioning.reconcile import ORPHAN_SECONDS, Report, end_orphans

        report = Report()

        async def look() -> None:
            for name in registry.names():
                if not self.engine.cloud(name).capabilities.named_only or name in self.engine.ledger.live_clouds():
                    await end_orphans(self.engine, name, report, least_age=0.0 if end else ORPHAN_SECONDS)

        wait_for(self.engine.thread.call(look()))
        return list(report.lines.values())


def _count(text: str, written: str) -> float | None:
    if not text:
        return None
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 0 < count < float("inf"):
        raise UsageError(f"{written!r}: the count after the colon is a positive number", hint="write A100:8, or A100 for any count")
    return count


class Prices:
    """The answer to a price question: a sequence of offers, cheapest first, built when looked at.

    Examples
    --------
    >>> nbprov.prices("A100:8").to_frame()  # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, query: Query) -> None:
        self.catalog = catalog
        self.query = query
        self.rows = catalog.select(query)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Offer:
        return self.catalog.offer(int(self.rows[index]))

    def offers(self, limit: int | None = None) -> list[Offer]:
        """The offers, cheapest first."""
        return self.catalog.offers(self.query, limit)

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an offer. Prices are in US dollars an hour a node."""
        return self.catalog.to_frame(self.rows)
