"""One session a process: the verbs that get, use and end machines, over those that only look."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.clouds import registry
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.model.offers import Block, Plan
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

from . import reports
from .before_leaving import BeforeLeaving
from .cluster import Cluster, Done
from .errors import DoesNotFit, readable, readably
from .existing_cluster import existing
from .launching.adopted_launches import (
    Say,
    cancel,
    driver_of,
    foreign,
    gone,
    gone_elsewhere,
    quietly,
    see_adopted,
)
from .launching.cluster_replacement import next_name, replace_with
from .launching.cluster_reuse import SettingUp, guards_of
from .launching.disconnects import cut_off
from .price_refresh import Catalogue
from .reports import Cost, Tried
from .run import Run
from .services.cluster_names import Keeping, check_name
from .services.compute_engines import Engined
from .services.jobs import JobDesk
from .spec_inputs import Ask, Given, collect, names_given, nobody

if TYPE_CHECKING:
    from nbprov.catalog.refresh import Refreshed
    from nbprov.provisioning.ledger.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

T = TypeVar("T")

DEMO_VARIABLE = "NBPROV_DEMO"
"""Set to 1, the simulated `local` cloud enters every plan."""

DEFAULT_NAME = "cluster"


class Session(JobDesk, Keeping, Engined):
    """The verbs of nbprov. `nbprov.provision`, `nbprov.plan` and so on are those of the process's one session.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        The simulated `local` cloud enters every plan, not only those that name it.
    """

    def __init__(self, home: Path | None = None, *, demo: bool | None = None) -> None:
        super().__init__(home, demo=os.environ.get(DEMO_VARIABLE) == "1" if demo is None else demo)
        self.runs: dict[str, Run] = {}
        self.setting_up: dict[str, SettingUp] = {}
        self.asked: dict[
            str, tuple[Spec, str]
        ] = {}  # what a cell last said of a running cluster, and its folder
        self.catalogue = Catalogue()

    # ------------------------------------------------------------ provisioning

    def provision(
        self,
        spec: Spec | str,
        name: str = "",
        *,
        race: int | None = None,
        hedge: Seconds = 20.0,
        agreed: bool = False,
        env: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (),
        variables: Mapping[str, object] | None = None,
        folder: str = "",
        ask: Ask = nobody,
        say: Say = quietly,
        replace: bool = False,
    ) -> Run | Cluster:
        """Plan a spec and return a run that waits for `launch()`; nothing is created yet.

        A running cluster of that name that fits the spec is returned instead, with the spec's guards; a stopped one is started.
        Where a launch of that name is being taken up from a dead kernel, or a cluster of it being ended, that is waited for.

        Parameters
        ----------
        race
            How many attempts may be under way at once, the next begun `hedge` seconds after the one before; the first that is ready is
            kept. By default the spec's own `race` decides.
        agreed
            Launch agrees to all that the spec's caps allow; what `confirm_above` would pass over is tried too.
        env
            Values for envs and secrets that the spec leaves open.
        ignore
            Fields whose errors are turned into warnings.
        variables
            What `$name` stands for where the spec is text: `globals()`, or any map of names to values.
        folder
            What relative paths are relative to; the current folder by default.
        ask
            Asks for values that are found nowhere.
        say
            Told in a line what is waited for.
        replace
            A cluster of that name that does not fit is replaced: the new one is made beside it, called `NAME-next`, and once it is set up
            it gets the name and the old one is ended. Nothing on the old one's disk comes along.

        Raises
        ------
        SpecError, PlanError, UsageError
            If the spec cannot be used as it stands.
        LaunchUnderWay
            If a launch of that name is under way from another spec, or in another notebook.
        DoesNotFit
            If a cluster of that name runs and differs; the message names the difference.
        """
        if isinstance(spec, str):
            spec = self.parse(
                spec, ignore=ignore, variables=variables, given=names_given(env or {})
            )
        if race is not None and race < 1:
            raise UsageError(
                f"a race needs at least 1 attempt at a time, not {race}",
                hint="--race 1 tries one place after the other",
            )
        name = self.name_of(spec, name)
        folder = folder or os.getcwd()
        try:
            found = existing(
                self, spec, name, lambda: collect(spec, env or {}, ask, folder), folder, say, agreed
            )
        except DoesNotFit:
            if not replace:
                raise
            old = self.engine.cluster(name)
            made = self.provision(
                spec,
                next_name(name),
                race=race,
                hedge=hedge,
                agreed=agreed,
                env=env,
                folder=folder,
                ask=ask,
                say=say,
            )
            return replace_with(self, made, old)
        if found is not None:
            return self.with_ports(found, spec.expose)
        return self._new_run(
            spec,
            name,
            collect(spec, env or {}, ask, folder),
            folder,
            race=race,
            hedge=hedge,
            agreed=agreed,
        )

    def _new_run(
        self,
        spec: Spec,
        name: str,
        given: Given,
        folder: str,
        *,
        race: int | None,
        hedge: Seconds,
        agreed: bool,
    ) -> Run:
        driver = self.engine.prepare_run(
            name, spec, self._plan_to_launch(spec), race=race, hedge=hedge, agreed=agreed
        )
        run = Run(self, driver, given, folder)
        earlier = self.runs.get(name)
        if earlier is not None:
            earlier.supersede()
        self.runs[name] = run
        self.stock.order_behind(run)
        return run

    def _plan_to_launch(self, spec: Spec) -> Plan:
        """The plan of a spec; one that waits for stock may begin where all is blocked for want of it."""
        from nbprov.provisioning.run.stock_wait import STOCK
        from nbprov.provisioning.run.unavailable import BLOCKED

        plan = self.plan(spec)
        if (
            plan.chosen is not None
            or not spec.wait.seconds
            or not any(d.rule.startswith(BLOCKED) for d in plan.dropped)
        ):
            return plan
        return self.plan(
            spec, blocks=[b for b in self.engine.ledger.blocks.standing() if b.cause not in STOCK]
        )

    @staticmethod
    def name_of(spec: Spec, name: str = "") -> str:
        """The name of a spec's cluster: the given one, the spec's own, or a default.

        Raises
        ------
        UsageError
            If a given name is none.
        """
        check_name(name)
        return name or spec.name or DEFAULT_NAME

    # ------------------------------------------------------------ clusters

    def cluster(self, name: str) -> Cluster:
        """The live cluster of this name. Raises `NotFound`, naming those there are."""
        self.engine.cluster(name)
        return Cluster(self, name)

    def down(self, name: str, *, cluster_id: str = "", outputs: bool = True) -> Done:
        """End the cluster of this name, or give up its launch. Returns at once; done when the cloud's list says that nothing is left.

        Parameters
        ----------
        cluster_id
            Only the cluster, or the launch, with this id; any by default.
        outputs
            As for `Cluster.down`.

        Raises
        ------
        NotFound
            If there is neither.
        OtherCluster
            If another cluster has this name now.
        """
        engine, run = self.engine, self.runs.get(name)
        if (
            run is not None
            and run.is_under_way
            and not run.state.is_final
            and cluster_id in ("", run.run_id)
        ):
            run.cancel()
            return Done(engine.thread.call(gone(engine, run.driver)), f"ending {name}")
        driver = driver_of(engine, name)
        if driver is not None and cluster_id in ("", driver.run_id):
            cancel(engine, driver)
            return Done(engine.thread.call(gone(engine, driver)), f"ending {name}")
        row = foreign(engine, name)
        if row is not None and cluster_id in ("", row.run_id):
            engine.ledger.runs.request_cancel(row.run_id)
            note = f"{name} is being launched by another kernel, which is asked to end it; if that one is gone, it is taken over and ended here"
            return Done(engine.thread.call(gone_elsewhere(engine, row)), f"ending {name}", note)
        return Cluster(self, name, cluster_id=cluster_id).down(outputs=outputs)

    async def before_the_end(self, row: ClusterRow) -> None:
        """Bring what is only on a cluster's machines here: logs of its jobs, and its outputs. On the engine thread; raises as `Takings.then_down`."""
        await BeforeLeaving(self).before_the_end(row)

    def clusters(self, *, ended: bool = False) -> list[ClusterView]:
        """Clusters from the ledger, live ones first."""
        return [
            self.cluster_view(row)
            for row in self.engine.ledger.clusters.latest(live_only=not ended)
        ]

    def cluster_view(self, row: ClusterRow) -> ClusterView:
        """A ledger row with its machines, guards and cost."""
        from nbprov.provisioning.supervision.guard_config import cluster_notes

        ledger = self.engine.ledger
        guards = guards_of(ledger, row.run_id, self.spec_of(row.run_id))
        return ClusterView(
            name=row.name,
            cluster_id=row.cluster_id,
            run_id=row.run_id,
            state=row.state,
            candidate=row.candidate,
            instances=tuple(ledger.instances.members(row.token)),
            guards=guards,
            notes=(*cluster_notes(ledger, row, guards), *self.takings.words(row)),
            started=row.started,
            ended=row.ended,
            cost=ledger.prices.cost(row.run_id),
            hourly_now=ledger.prices.hourly_now(row.token),
            confirmed=row.confirmed,
            reason=row.reason,
            simulated=reports.is_simulated(row.candidate.offer),
        )

    def spec_of(self, run_id: str) -> Spec:
        """The spec that a run was launched from, as the ledger has it; an empty one where it cannot be read."""
        run = self.engine.ledger.runs.get(run_id)
        return (_spec_of(run.spec) or Spec()) if run is not None else Spec()

    def can_read_spec(self, run_id: str) -> bool:
        """Whether the ledger's spec of a run is one of this release."""
        run = self.engine.ledger.runs.get(run_id)
        return run is not None and _spec_of(run.spec) is not None

    def hidden(self) -> tuple[str, ...]:
        """The secrets that this session was given, for blotting them out."""
        maskers = [x.masker() for x in list(self.runs.values())] + [
            x.masker() for x in list(self.setting_up.values())
        ]
        return (*super().hidden(), *(value for masker in maskers for value in masker.values))

    def start_remote(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        *,
        say: Say = quietly,
    ) -> concurrent.futures.Future[T]:
        """Run a coroutine with the live cluster, its connections open; cancelling the future interrupts the remote side.

        Blocks until a launch of this name that is under way has ended; an interrupt of that leaves the launch alone.

        Raises
        ------
        UsageError
            If the cluster's run waits for Launch.
        Unavailable, SetupFailed
            If that launch fails.
        NotFound
            If no live cluster has this name.
        """

        async def attached() -> T:
            live = await self.engine.attach(name)
            await self.see_engine(live)
            try:
                return await work(live)
            except NbprovError as error:
                raise cut_off(self.engine, live.run_id, error) from error

        run = self.runs.get(name)
        if (
            run is not None
            and not run.done
            and (run.launched or self.engine.ledger.clusters.named(name) is None)
        ):
            run.wait_detached()
        came_to_nothing = see_adopted(self.engine, name, say)
        if came_to_nothing is not None:
            raise came_to_nothing
        row = self.engine.cluster(name)
        setting_up = self.setting_up.get(row.run_id)
        if setting_up is not None and not setting_up.done:
            setting_up.wait()
        return self.engine.thread.call(readably(attached()))

    def wait_remote(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        timeout: Seconds | None = None,
        *,
        say: Say = quietly,
    ) -> T:
        """As `start_remote`, and block for the result; an interrupt, or the end of `timeout`, cancels it.

        Raises
        ------
        CloudTrouble
            If the machine cannot be reached.
        Interrupted
            On Ctrl-C.
        TimeoutError
            After `timeout` seconds.
        """
        future = self.start_remote(name, work, say=say)
        try:
            return wait_for(future, timeout)
        except KeyboardInterrupt:
            future.cancel()
            raise Interrupted(
                f"interrupted on {name}; the machine and its variables are still there"
            ) from None
        except TimeoutError:
            future.cancel()
            raise

    # ------------------------------------------------------------ books

    def refresh_prices(
        self, clouds: Sequence[str] | str | None = None, source: str = "auto", force: bool = False
    ) -> Refreshed:
        """Fetch prices anew: of these clouds, or of all but those whose policy is never. See `Catalogue.refresh`."""
        return self.catalogue.refresh(clouds, source=source, force=force)

    def blocks(self) -> list[Block]:
        """What is blocked now, why, and until when."""
        return self.engine.ledger.blocks.standing()

    def clear_blocks(self) -> int:
        """Forget all blocks; launches that wait for stock try again at once. Returns how many there were."""
        return self.engine.clear_blocks()

    def costs(self) -> list[Cost]:
        """What each run has cost, newest first; failed attempts count."""
        return reports.costs(self.engine.ledger)

    def attempts(self, name: str = "") -> list[Tried]:
        """The attempts of the latest run (of this name)."""
        return reports.attempts(self.engine.ledger, name)

    def sweep(self, *, end: bool = False) -> list[str]:
        """End machines of ours that the ledger does not know, on every enabled cloud, and say which; young ones are only named.

        Those that are younger than ten minutes may be another kernel's, on their way into the ledger; with `end` they are ended too.

        What launches left beside their machines (disks, firewall rules) is removed where no cluster needs it any more.

        A cloud that cannot be listed has a line that says so; the others are swept all the same.
        """
        from nbprov.provisioning.reconcile import ORPHAN_SECONDS, Report, end_orphans, tidy

        report = Report()

        async def look(name: str) -> None:
            try:
                await end_orphans(
                    self.engine, name, report, least_age=0.0 if end else ORPHAN_SECONDS
                )
                await tidy(self.engine, name, report)
            except Exception as error:
                told = readable(error)
                words = (
                    told.message
                    if isinstance(told, NbprovError)
                    else f"{type(told).__name__}: {told}"
                )
                report.say(f"cloud {name}", f"{name}: could not be swept: {words}")

        async def look_everywhere(names: list[str]) -> None:
            await asyncio.gather(*(look(name) for name in names))

        wait_for(self.engine.thread.call(look_everywhere(self._where_machines_may_be())))
        return list(report.lines.values())

    def _where_machines_may_be(self) -> list[str]:
        """The clouds that were launched on, and those that can be used. A simulated cloud is not begun for a look: it must be there already."""
        ledger = self.engine.ledger
        used = {
            launch.cloud
            for run in ledger.runs.latest()
            for launch in ledger.launches.of_run(run.run_id)
        }
        can = {name: self.capabilities_at_hand(name) for name in registry.names()}
        simulated = {
            name
            for name, capabilities in can.items()
            if capabilities is not None and capabilities.named_only
        }
        used |= {name for name in simulated if (self.engine.home / name).is_dir()}
        asked = self.check([name for name in can if name not in used | simulated], fresh=False)
        return sorted(used & set(can)) + [told.cloud for told in asked if told.enabled]


@lru_cache(maxsize=256)
def _spec_of(source: str) -> Spec | None:
    # Every change of a cluster asks for its guards again; reading YAML each time would keep the engine's thread busy.
    from nbprov.spec import parse

    try:
        return parse(source)
    except NbprovError:
        return None
