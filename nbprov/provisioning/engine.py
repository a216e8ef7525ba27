"""The engine of a kernel: its thread, its ledger, its clouds, the runs it drives and the clusters it knows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nbprov.clouds import registry
from nbprov.clouds.base import Capabilities, Cloud
from nbprov.model import paths
from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import Cause, Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Candidate, Plan
from nbprov.model.run_policies import Race
from nbprov.model.spec import HealthCheck, Spec
from nbprov.model.stock import Stock
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.runtime.clocks import SystemClock
from nbprov.runtime.engine_thread import EngineThread
from nbprov.runtime.publisher import Publisher
from nbprov.runtime.worker_pool import WorkerPool

from .async_cloud import AsyncCloud
from .attach import open_cluster
from .ledger import LEASE_SECONDS, ClusterRow, Ledger, RunRow
from .live_cluster import LiveCluster
from .replacement.replace_node import Bringing
from .run import events
from .run.attempt import Deadlines
from .run.attempt_actions import AGENT_SECONDS
from .run.consent import consent_to
from .run.driver import RunDriver
from .run.failover import Failover
from .run.health_check import health_seconds
from .run.passes import begin_wait
from .run.race_rule import RaceRule, hedging_of, race_rule, usual_accept
from .run.run_builder import new_failover, new_id, notes_of, resumed_failover
from .run.run_log import RunLog
from .run.stock_wait import LEAST_PAUSE, Patience
from .run.stock_wakeup import Restocks
from .spec_storage import readable_text
from .supervision.desired_state import Leaving
from .supervision.guard_config import check_budget
from .supervision.lifecycle import Lifecycle
from .supervision.other_kernels import Elsewhere
from .supervision.side_objects import Tidying

log = logging.getLogger("nbprov.engine")

LEDGER_FILE = "ledger.sqlite3"

HEARTBEATS_A_LEASE = 4
"""Leases are renewed this many times in their length: three renewals may fail before another kernel takes over."""

PLAN_SECONDS: Seconds = 60.0
"""How long planning again may take: milliseconds, unless a cloud that is asked for its live prices is slow. The old plan goes on after that."""

RELEASE_SECONDS: Seconds = 1.0
"""An orderly shutdown may take so long to give its leases up: a kernel is killed after about 2.5 s."""

FAREWELL_SECONDS: Seconds = 0.5
"""Within that, so long may connections take to close: a machine that answers needs some milliseconds."""

UNDER_WAY = (RunState.LAUNCHING, RunState.WAITING, RunState.CANCELLING)

FAULT_PAUSE: Seconds = 0.5
MOST_FAULT_PAUSE: Seconds = 60.0
"""Between a fault of ours and the run's being taken up again, doubled with each."""

ADOPTIONS = 3
"""A run is taken up again so often as a launch that goes on; after that whatever it made is ended."""


class Engine:
    """One a process. Methods named in the present tense and not `async` may be called from any thread; coroutines run on the engine thread.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs.
    clouds
        Looks an adapter up by name; the registry unless a test brings its own.

    Attributes
    ----------
    replan
        Plans a spec again with blocks, called in a worker thread; set by who can plan. Without it the places of the first plan are gone through again.
    take_outputs
        Brings a cluster's outputs here, within so many seconds, and says whether all came; set by who can. It is cut off when they are over.
    leaving
        Brings logs and outputs here before a cluster that is to go does; set by who can.
    bringing
        Brings files, Python, setup and engine to a machine that replaces a lost one; set by who can.
    least_pause
        Between two passes of a run that waits for stock.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        clouds: Callable[[str], Cloud] = registry.get,
        clock: Clock | None = None,
        lease_seconds: Seconds = LEASE_SECONDS,
        wrap_ledger: Callable[[Ledger], Ledger] = lambda ledger: ledger,
    ) -> None:
        self.home = home or paths.home()
        self.clock = clock or SystemClock()
        self.thread = EngineThread()
        self.ledger = wrap_ledger(
            Ledger(self.home / LEDGER_FILE, self.clock, uuid.uuid4().hex, lease_seconds)
        )
        self.publisher = Publisher(self.thread.loop)
        self.drivers: dict[str, RunDriver] = {}
        self.live: dict[str, LiveCluster] = {}
        self.lifecycle = Lifecycle(self)
        self.tidying = Tidying(self)
        self._restocks = Restocks(self)
        self.replan: Callable[[Spec, Sequence[Block]], Plan] | None = None
        self.take_outputs: Callable[[ClusterRow, Seconds], Coroutine[Any, Any, bool]] | None = None
        self.leaving: Leaving | None = None
        self.bringing: Bringing | None = None
        self._planners = WorkerPool("plan", 1)
        self.least_pause = LEAST_PAUSE
        self._find_cloud = clouds
        self._clouds: dict[str, AsyncCloud] = {}
        self._listeners: set[Callable[[], None]] = set()
        self._attaching: dict[str, asyncio.Lock] = {}
        self._followed: list[RunDriver] = []
        self._elsewhere = Elsewhere(self)
        self._heart = self.thread.call(self._heartbeat())

    # ------------------------------------------------------------ clouds

    def cloud(self, name: str) -> AsyncCloud:
        """A cloud as coroutines; made on first use."""
        if name not in self._clouds:
            self._clouds[name] = AsyncCloud(self._find_cloud(name))
        return self._clouds[name]

    def capabilities_of(self, name: str) -> Capabilities:
        """What a cloud can do."""
        return self.cloud(name).capabilities

    def deadlines_of(self, candidate: Candidate, health: HealthCheck | None = None) -> Deadlines:
        """How long each phase may take on a candidate's cloud, and for a spec's health check."""
        capabilities = self.cloud(candidate.offer.cloud).capabilities
        checked = health_seconds(health, candidate) if health is not None else None
        return Deadlines(
            capabilities.accept_deadline,
            capabilities.boot_deadline,
            capabilities.ssh_deadline,
            AGENT_SECONDS,
            checked,
        )

    # ------------------------------------------------------------ runs

    def prepare_run(
        self,
        name: str,
        spec: Spec,
        plan: Plan,
        *,
        race: int | None = None,
        hedge: Seconds | None = None,
        agreed: bool = False,
    ) -> RunDriver:
        """A run that waits for Launch. Nothing is written and nothing is bought yet.

        Parameters
        ----------
        race, hedge
            How many attempts may be under way at once, and seconds after which the next one joins; without a `race` the spec says.
        agreed
            Launch agrees to all that the spec's caps allow, and not only to what `confirm_above` leaves.
        """
        if plan.chosen is not None:
            check_budget(spec.guards, plan.chosen)
        consent = consent_to(plan, agreed=agreed)
        machine = new_failover(
            self, spec, consent.plan, consent.hourly, Patience(least_pause=self.least_pause)
        )
        driver = self._driver(new_id(), name, spec, consent.plan, machine, consent=consent.hourly)
        rule = race_rule(
            spec.race if race is None else Race(race, hedge),
            plan,
            usual=partial(usual_accept, self.ledger),
            eager=race is not None,
        )
        machine.hedging = hedging_of(rule, spec, self.ledger, lambda: sum(driver.costs().values()))
        driver.notes = (
            *([consent.words] if consent.words else []),
            *notes_of(spec, consent.plan, rule, self.capabilities_of),
        )
        driver.passed_over = consent.passed_over
        return driver

    def _driver(
        self, run_id: str, name: str, spec: Spec, plan: Plan, machine: Failover, consent: Micros
    ) -> RunDriver:
        return RunDriver(
            run_id=run_id,
            name=name,
            spec=spec,
            plan=plan,
            machine=machine,
            keys_folder=self.home / "keys" / run_id,
            ledger=self.ledger,
            clouds=self.cloud,
            clock=self.clock,
            runlog=RunLog(self.home / "logs" / f"{run_id}.log", self.clock),
            consent=consent,
            replan=None if self.replan is None else self._replanned,
            on_change=self.changed,
            aside=self.tidying.told,
        )

    async def _replanned(self, spec: Spec, blocks: Sequence[Block]) -> Plan:
        assert self.replan is not None, "a run that cannot be planned again asks for no plan"
        return await self._planners.run(self.replan, spec, blocks, seconds=PLAN_SECONDS)

    async def launch(self, driver: RunDriver, *, folder: str) -> None:
        """Write the run down, take its lease, and drive it. Returns as soon as it is under way.

        Raises
        ------
        NameTaken
            If a live cluster or launch has its name.
        """
        driver.keys = ClusterKeys.create(driver.keys_folder)
        self.ledger.runs.open(
            driver.run_id,
            driver.name,
            readable_text(driver.spec),
            folder=folder,
            race=driver.machine.race,
            consent=driver.consent,
            state=RunState.LAUNCHING,
            wait_deadline=begin_wait(driver),
        )
        driver.state = RunState.LAUNCHING
        self.follow(driver)

    def follow(
        self, driver: RunDriver, first: list[events.Action] | None = None
    ) -> asyncio.Task[None]:
        """Drive a run in the background. On the engine thread."""
        self.drivers[driver.run_id] = driver
        self._followed = [d for d in self._followed if not d.finished.done()] + [driver]
        driver.ready.add_done_callback(lambda ready: self._keep(driver.run_id, ready))
        task = asyncio.create_task(self._drive(driver, first))
        driver.task = task
        return task

    def _keep(self, run_id: str, ready: concurrent.futures.Future[LiveCluster]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self.live.setdefault(run_id, ready.result())
            self.lifecycle.watch()

    async def _drive(self, driver: RunDriver, first: list[events.Action] | None) -> None:
        faults = 0
        while True:
            try:
                if faults:
                    first = await self._start_over(driver)
                if first is not None or not faults:
                    await driver.drive(first)
                break
            except Exception as error:
                faults += 1
                await self._pause_after(driver, error, faults)
        self.lifecycle.watch()
        self.changed()

    async def _pause_after(self, driver: RunDriver, error: Exception, faults: int) -> None:
        """A fault of ours must leave no run stuck: its driver lets go, and after a pause the run goes on from the ledger's rows."""
        log.exception("run %s", driver.run_id)
        if self.drivers.get(driver.run_id) is driver:
            del self.drivers[driver.run_id]
        said = f"{type(error).__name__}: {error}"
        if faults > ADOPTIONS:
            driver.given_up = Failure(
                Cause.UNKNOWN, f"a fault of nbprov's own, {faults} times: {said}"
            )
            if not driver.ready.done():
                driver.leave_ready(
                    NbprovError(
                        f"{driver.name}: {said}; what was made is being ended",
                        hint="%clusters shows how far it is",
                    )
                )
        pause = min(MOST_FAULT_PAUSE, FAULT_PAUSE * 2 ** (faults - 1))
        driver.runlog.line(f"a fault of nbprov's own ({said}); taken up again in {pause:g} s")
        driver.tell(f"a fault of nbprov's own ({said}); taken up again in {pause:g} s")
        await asyncio.sleep(pause)

    async def _start_over(self, driver: RunDriver) -> list[events.Action] | None:
        """What is to be done about a run whose driver stopped, from the ledger; None where somebody else works on it by now."""
        run_id = driver.run_id
        other = self.drivers.get(run_id)
        if other is not None and other is not driver:
            driver.leave(
                NbprovError(
                    f"{driver.name} was taken up anew",
                    hint="%clusters shows what became of it",
                    code="run.left",
                )
            )
            return None
        row = self.ledger.runs.get(run_id)
        if row is None or driver.finished.done() or not self.ledger.leases.take(run_id):
            driver.lose()
            return None
        driver.is_cancelled = driver.is_cancelled or row.cancelled
        machine = resumed_failover(self, row, driver.spec)
        launches, cluster = self.ledger.launches.of_run(run_id), self.ledger.clusters.of_run(run_id)
        first = await driver.start_over(machine, launches, has_cluster=cluster is not None)
        self.drivers[run_id] = driver
        driver.runlog.line("taken up again")
        driver.tell("taken up again: what was under way goes on, nothing new is begun")
        return first

    def restored_driver(self, row: RunRow, spec: Spec) -> RunDriver:
        """A driver for a run whose kernel died. It has no keys yet: they are loaded where machines are to be reached."""
        plan = Plan(spec, ())
        driver = self._driver(
            row.run_id, row.name, spec, plan, resumed_failover(self, row, spec), consent=row.consent
        )
        driver.notes = tuple(notes_of(spec, plan, RaceRule(row.race, spec.race.hedge)))
        return driver

    # ------------------------------------------------------------ clusters

    def cluster(self, name: str) -> ClusterRow:
        """The live cluster of this name, from the ledger.

        Raises
        ------
        NotFound
            If there is none, naming those there are.
        """
        row = self.ledger.clusters.named(name)
        if row is None or row.state is ClusterState.ENDED:
            names = ", ".join(c.name for c in self.ledger.clusters.latest(live_only=True))
            hint = (
                f"live clusters: {names}"
                if names
                else "live clusters: none; a %%provision cell makes one"
            )
            ended = f" (it ended: {row.reason})" if row is not None and row.reason else ""
            under_way = next(
                (
                    r
                    for r in self.ledger.runs.unfinished()
                    if r.name == name and r.state in UNDER_WAY
                ),
                None,
            )
            if under_way is not None:
                words = (
                    "waits for stock"
                    if under_way.state is RunState.WAITING
                    else f"is {under_way.state.value}"
                )
                raise NotFound(
                    f"{name} {words} and is no cluster yet",
                    hint=f"%nbprov down {name} ends it",
                    code="cluster.not-found",
                )
            if called := self.ledger.clusters.now_called(name):
                raise NotFound(
                    f"{name} was renamed: it is called {called} now",
                    hint=f"%%on {called}",
                    code="cluster.renamed",
                )
            raise NotFound(
                f"no live cluster is called {name!r}{ended}", hint=hint, code="cluster.not-found"
            )
        return row

    async def attach(self, name: str) -> LiveCluster:
        """The live cluster with open connections; those of an earlier kernel are opened anew.

        Raises
        ------
        NotFound
            If no live cluster has this name.
        CloudError
            If its machines cannot be reached.
        """
        row = self.cluster(name)
        async with self._attaching.setdefault(row.run_id, asyncio.Lock()):
            live = self.live.get(row.run_id)
            if live is None:
                live = await self._open(row)
                self.live[row.run_id] = live
            live.name = row.name  # another kernel may have renamed it
            return live

    async def _open(self, row: ClusterRow) -> LiveCluster:
        return await open_cluster(self, row)

    async def forget(self, run_id: str) -> None:
        """Close a cluster's connections: it was stopped, ended, or its addresses changed."""
        live = self.live.pop(run_id, None)
        if live is not None:
            await live.close()

    # ------------------------------------------------------------ changes

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function (on the engine thread, quickly) after every change; returns the way to stop that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def changed(self) -> None:
        """Tell the listeners. On the engine thread."""
        for listener in tuple(self._listeners):
            try:
                listener()
            except Exception:  # a display that fails must not stop what it shows
                log.exception("a listener")

    def blocks(self) -> list[Block]:
        """Blocks that hold now."""
        return self.ledger.blocks.standing()

    def clear_blocks(self) -> int:
        """Forget all blocks; what waits for stock tries again at once. Returns how many there were."""
        count = self.ledger.blocks.clear()
        for driver in list(self.drivers.values()):
            self.thread.soon(driver.look)
        return count

    def stock_seen(self, stocks: Sequence[Stock], account: str = "", count: int = 1) -> None:
        """Keep what clouds said of their stock just now, and wake the runs that wait for it. Any thread; never raises.

        Parameters
        ----------
        account
            Whose stock it is, where accounts differ.
        count
            How many machines at once were asked about.
        """
        self._restocks.seen(stocks, account, count)

    # ------------------------------------------------------------ leases and shutdown

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.ledger.lease_seconds / HEARTBEATS_A_LEASE)
            try:
                self._beat()
            except Exception:  # without a heart every run of this kernel would be taken from it
                log.exception("leases could not be renewed")
            try:
                self._elsewhere.look()
            except Exception:
                log.exception("what other kernels did could not be seen")

    def _beat(self) -> None:
        active = [d for d in self._followed if not d.finished.done()]
        lost = self.ledger.leases.renew(d.run_id for d in active) if active else set()
        for driver in active:
            if driver.run_id in lost:
                driver.lose()
        # A wait may go on for hours: another kernel that asks for its end must not have to wait for it.
        going = [
            d
            for d in active
            if d.run_id not in lost
            and not d.is_cancelled
            and d.state in (RunState.LAUNCHING, RunState.WAITING)
        ]
        asked = self.ledger.runs.cancelled(d.run_id for d in going)
        for driver in going:
            if driver.run_id in asked:
                driver.cancel()

    def shut_down(self) -> None:
        """Give the leases up and stop the thread. Machines go on; the next kernel takes them up. Never raises, never waits long."""
        future = self.thread.call(self._let_go())
        try:
            future.result(RELEASE_SECONDS)
        except Exception as error:
            log.warning(
                "shut down before the leases were given up (%r); they lapse by themselves", error
            )
        self.thread.stop()
        self._leave_all()
        self.ledger.close()

    async def _let_go(self) -> None:
        self._heart.cancel()
        self._leave_all()
        tasks = [d.task for d in self._followed if d.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.ledger.leases.release_all()
        live, self.live = list(self.live.values()), {}
        # After the leases, which others wait for. What is not closed by then ends with the process.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                await asyncio.gather(*(one.close() for one in live), return_exceptions=True)

    def _leave_all(self) -> None:
        # Nothing may wait for ever on a run that this kernel will not see the end of.
        for driver in self._followed:
            driver.leave(
                NbprovError(
                    f"{driver.name}: this kernel is shutting down; the next load takes it up",
                    hint="%load_ext nbprov",
                    code="run.left",
                )
            )
