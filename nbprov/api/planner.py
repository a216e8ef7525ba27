"""Plans: which places could be taken for a spec, in which order. Nothing is created here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nbprov.api.name_list import name_list
from nbprov.clouds import registry
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import CHECKED
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.runtime.worker_pool import WorkerPool

from .cloud_checks import SILENT, is_silence
from .context import Context
from .launch_terms import Terms, terms_of
from .services.clouds import CloudService
from .services.prices import PriceService
from .services.stock import LAUNCH_GRACE, StockService
from .steps import Steps, result, run_sync

if TYPE_CHECKING:
    from nbprov.catalog import Catalog
    from nbprov.machines.files.output_targets import OutputFolders
    from nbprov.market import Stock, SuccessModel
    from nbprov.planning import EnabledCloud, Relaxation

PLANNING_THREADS = 4
"""How many plans of one session are made at once. A plan is computed in a worker thread, so that
an event loop that awaits it goes on."""


@dataclass
class CloudsForSpec:
    """The clouds that a spec may mean, as they are when it is planned.

    Attributes
    ----------
    usable, unusable
        The clouds that may be used, and why the others may not, by name.
    silent
        Since when those that do not answer have been asked, by name; they are unusable too.
    catalog
        All prices, with those that usable clouds tell themselves.
    """

    usable: dict[str, EnabledCloud] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    silent: dict[str, Instant] = field(default_factory=dict)
    catalog: Catalog = field(init=False)


class Planner:
    """Reads specs and plans them."""

    def __init__(
        self, context: Context, clouds: CloudService, prices: PriceService, stock: StockService
    ) -> None:
        self._context, self._clouds, self._prices, self._stock = context, clouds, prices, stock
        self._workers = WorkerPool("planner", PLANNING_THREADS)

    def parse(
        self,
        text: str,
        *,
        ignore: Sequence[str] | str = (),
        first_line: int = 1,
        variables: Mapping[str, object] | None = None,
        given: Collection[str] | None = None,
    ) -> Spec:
        """Read a spec.

        Parameters
        ----------
        text
            The spec as YAML, as in a `%%provision` cell.
        ignore
            Fields whose errors are turned into warnings.
        first_line
            The number of the text's first line as its reader counts: 2 below a magic's line.
        variables
            Values of `$name` in the text: `globals()`, or any map of names to values.
        given
            Names of envs and secrets for which there are values. Those that the text leaves open
            and that are not among them are told together with the text's other errors. With None
            they are not checked.

        Raises
        ------
        SpecError
            With every problem at once.

        Examples
        --------
        >>> import nbprov
        >>> gpu = "A100:8"
        >>> spec = nbprov.parse("resources: {accelerators: $gpu}", variables={"gpu": gpu})
        >>> str(spec.requests[0].accelerator)
        'A100:8'
        """
        from nbprov.spec import parse

        return parse(
            text,
            frozenset(name_list(ignore, "ignore")),
            first_line=first_line,
            variables=variables,
            given=given,
        )

    # ------------------------------------------------------------ clouds

    def clouds_for(self, spec: Spec, assume: Sequence[str] | str = ()) -> Steps[CloudsForSpec]:
        """The clouds that may be used for a spec with their prices, and why each other may not.

        Parameters
        ----------
        assume
            Clouds of the catalogue that count as set up; `all` means every one.

        Raises
        ------
        UnknownName
            If an assumed cloud is not in the catalogue.
        """
        from nbprov.planning import EnabledCloud, reason

        clouds = self._clouds
        named = {request.cloud for request in spec.requests}
        adapters = {name: clouds.capabilities_at_hand(name) for name in registry.names()}
        is_anywhere = not named or "" in named
        wanted = [
            name
            for name, can in adapters.items()
            if name in named
            or self._context.demo
            or (is_anywhere and (can is None or not can.named_only))
        ]
        found = CloudsForSpec()
        standing = self._context.engine.ledger.blocks.standing()
        doubted = {block.cloud for block in standing if block.cause in CHECKED}
        for told in (yield from clouds.check(wanted, fresh=False, doubted=doubted)):
            capabilities = adapters[told.cloud]
            if told.enabled and capabilities is not None:
                found.usable[told.cloud] = EnabledCloud(told.account, capabilities)
                continue
            found.unusable[told.cloud] = reason(told)
            if is_silence(told):
                found.silent[told.cloud] = clouds.silent_since(told.cloud)
        for name, cloud in (yield from self._assumed(name_list(assume, "assume"))).items():
            if name not in found.usable:
                own = clouds.capabilities_of(name) if name in adapters else None
                found.usable[name] = cloud if own is None else EnabledCloud("", own)
                found.unusable.pop(name, None)
                found.silent.pop(name, None)
        return (yield from self._priced(found, registry.names() if assume else found.usable))

    def _priced(self, found: CloudsForSpec, adapters: Collection[str]) -> Steps[CloudsForSpec]:
        """Add the catalogue with the live offers of usable clouds; an assumed one may have none.

        A cloud that tells none of its offers is left out like one that is not set up.
        """
        names = [name for name in found.usable if name in adapters]
        found.catalog, failed = yield from self._prices.with_live_offers(names)
        for name, failure in failed.items():
            del found.usable[name]
            found.unusable[name] = failure.message
            if failure.cause in SILENT:
                found.silent[name] = self._clouds.silent_since(name)
        return found

    def _assumed(self, clouds: Sequence[str]) -> Steps[dict[str, EnabledCloud]]:
        from nbprov.catalog import Query
        from nbprov.catalog.vocabulary.suggestions import require_known
        from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds

        names = [name.strip().lower() for name in clouds if name.strip()]
        if not names:
            return {}
        catalog = yield from self._prices.catalog()
        if "all" in names:
            return skypilot_clouds(catalog.clouds())
        require_known(catalog, Query(cloud=tuple(names)))
        return skypilot_clouds(names)

    # ------------------------------------------------------------ plans

    def plan(
        self,
        spec: Spec | str,
        *,
        blocks: Sequence[Block] | None = None,
        stock: Sequence[Stock] = (),
        variables: Mapping[str, object] | None = None,
        assume: Sequence[str] | str = (),
        wait: Seconds = 0.0,
    ) -> Steps[Plan]:
        """The ordered candidates of a spec; nothing is created.

        What launches of the last two days met tells how likely each place is to have a machine
        (`Candidate.success`). That decides between equal prices, and comes first with
        `prefer: soonest | balanced`. Clouds that tell their stock are asked for it. What they said
        within the last five minutes puts places that are sold out last.

        Parameters
        ----------
        spec
            The spec, as text or as `parse` returns it.
        blocks
            What is left out; by default what the ledger blocks now.
        stock
            What clouds said of their stock just now, in addition to what they are asked.
        variables
            Values of `$name` where the spec is text: `globals()`, or any map of names to values.
        wait
            For how many seconds at most the plan waits for answers on stock (3 is enough). By
            default it does not wait: the answers count for the next plan, and for runs made from
            this one.
        assume
            Clouds that count as set up, to see what they would offer: names of the catalogue, or
            `all`. No launch uses them.

        Raises
        ------
        SpecError, PlanError
            If the spec cannot be read, or names a place or type that does not exist.
        UnknownName
            If an assumed cloud is not in the catalogue.

        Examples
        --------
        >>> plan = nbprov.plan("resources: {accelerators: A100, infra: local}")  # doctest: +SKIP
        >>> str(plan.chosen.offer.place), plan.chosen.hourly  # doctest: +SKIP
        ('local/local-south/local-south-a', 3303000)
        """
        spec = self._read(spec, variables)
        made = yield from self.planned(spec, blocks=blocks, stock=stock, assume=assume)
        if assume:
            return made
        if wait:
            answers = yield from self._stock.ask(made, wait)
            if answers.stock:
                made = yield from self.planned(spec, blocks=blocks, stock=stock)
            return made
        self._stock.ask_behind(made)
        return made

    def planned(
        self,
        spec: Spec,
        *,
        blocks: Sequence[Block] | None = None,
        stock: Sequence[Stock] = (),
        assume: Sequence[str] | str = (),
    ) -> Steps[Plan]:
        """As `plan`, with what is known of stock: no cloud is asked for more."""
        from nbprov.planning import plan

        clouds = yield from self.clouds_for(spec, assume)
        engine = self._context.engine
        compute = partial(
            plan,
            spec,
            clouds.catalog,
            clouds.usable,
            disabled=clouds.unusable,
            silent=clouds.silent,
            blocks=engine.ledger.blocks.standing() if blocks is None else blocks,
            now=engine.clock.now(),
            demo=self._context.demo,
            success_model=self._success_model(spec, [*self._stock.known(spec.num_nodes), *stock]),
        )
        return (yield from result(self._workers.submit(compute)))

    def replan(self, spec: Spec, blocks: Sequence[Block]) -> Plan:
        """The plan of a launch's further pass. Blocks; the engine calls it in a worker thread.

        A launch that is under way waits for answers on stock for no more than a moment.
        """
        return run_sync(self.plan(spec, blocks=blocks, wait=LAUNCH_GRACE))

    def _read(self, spec: Spec | str, variables: Mapping[str, object] | None) -> Spec:
        return self.parse(spec, variables=variables) if isinstance(spec, str) else spec

    def _success_model(self, spec: Spec, stock: Sequence[Stock]) -> SuccessModel:
        """What is known of stock: recent launches, as long as they count, and clouds' answers."""
        from nbprov.market import SuccessModel
        from nbprov.market.success_model import FORGOTTEN

        engine = self._context.engine
        now = engine.clock.now()
        return SuccessModel(
            engine.ledger.observations.attempts(now - FORGOTTEN),
            stock=stock,
            now=now,
            count=spec.num_nodes,
        )

    def terms(
        self,
        plan: Plan,
        *,
        agreed: bool = False,
        outputs: OutputFolders | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Terms:
        """What Launch would agree to for a plan, and how the run would buy, wait and end.

        Nothing is written.

        Parameters
        ----------
        plan
            A plan that `plan` returned.
        agreed
            As for `provision`.
        outputs
            Where outputs may be written to; without it nothing is said of files of this computer.
        env
            Values for envs that the spec leaves open, which its paths may have.
        """
        ledger = self._context.engine.ledger
        return terms_of(ledger, plan, agreed=agreed, outputs=outputs, env=env)

    def relax(
        self,
        spec: Spec | str,
        *,
        variables: Mapping[str, object] | None = None,
        assume: Sequence[str] | str = (),
    ) -> Steps[tuple[Relaxation, ...]]:
        """How many more places each constraint excludes by itself, and from what price.

        Parameters
        ----------
        spec, variables, assume
            As for `plan`.

        Raises
        ------
        SpecError, PlanError
            As `plan`.

        Examples
        --------
        >>> import nbprov
        >>> spec = "resources: {accelerators: A100:8, infra: local, use_spot: true}"
        >>> [r.words() for r in nbprov.relax(spec)]  # doctest: +SKIP
        ['use_spot: prefer opens 3 more places, from $14.20/h']
        """
        from nbprov.planning import EnabledCloud, relax

        spec = self._read(spec, variables)
        clouds = yield from self.clouds_for(spec, assume)
        engine = self._context.engine
        off = {
            name: EnabledCloud("", own)
            for name in clouds.unusable
            if (own := self._clouds.capabilities_of(name)) is not None
        }
        compute = partial(
            relax,
            spec,
            clouds.catalog,
            clouds.usable,
            disabled=clouds.unusable,
            silent=clouds.silent,
            off=off,
            blocks=engine.ledger.blocks.standing(),
            now=engine.clock.now(),
            demo=self._context.demo,
        )
        return (yield from result(self._workers.submit(compute)))
