"""The engine of a kernel: its thread, its ledger, its clouds, the runs it drives and the clusters it knows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import secrets
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from nbprov.clouds import registry
from nbprov.clouds.base import Cloud
from nbprov.model import paths
from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import LedgerError, NotFound
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Candidate, Plan
from nbprov.model.spec import Spec
from nbprov.remote.keys import ClusterKeys
from nbprov.runtime.clocks import SystemClock
from nbprov.runtime.loop import EngineThread
from nbprov.runtime.publisher import Publisher

from . import signals
from .async_cloud import AsyncCloud
from .attempt import Deadlines
from .driver import RunDriver
from .errands import AGENT_SECONDS
from .failover import Failover
from .guards import check_budget
from .ledger import LEASE_SECONDS, ClusterRow, Ledger
from .lifecycle import Lifecycle
from .live import LiveCluster, Node
from .runlog import RunLog

log = logging.getLogger("nbprov.engine")

LEDGER_FILE = "ledger.sqlite3"

HEARTBEATS_A_LEASE = 4
"""Leases are renewed this many times in their length: three renewals may fail before another kernel takes over."""

RELEASE_SECONDS: Seconds = 1.0
"""An orderly shutdown may take so long to give its leases up: a kernel is killed after about 2.5 s."""


def new_id() -> str:
    """A random id of 32 lower-case hex digits."""
    return secrets.token_hex(16)


class Engine:
    """One a process. Methods named in the present tense and not `async` may be called from any thread; coroutines run on the engine thread.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs.
    clouds
        Looks an adapter up by name; the registry unless a test brings its own.
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
        self.ledger = wrap_ledger(Ledger(self.home / LEDGER_FILE, self.clock, uuid.uuid4().hex, lease_seconds))
        self.publisher = Publisher(self.thread.loop)
        self.drivers: dict[str, RunDriver] = {}
        self.live: dict[str, LiveCluster] = {}
        self.lifecycle = Lifecycle(self)
        self._find_cloud = clouds
        self._clouds: dict[str, AsyncCloud] = {}
        self._listeners: set[Callable[[], None]] = set()
        self._attaching: dict[str, asyncio.Lock] = {}
        self._heart = self.thread.call(self._heartbeat())

    # ------------------------------------------------------------ clouds

    def cloud(self, name: str) -> AsyncCloud:
        """A cloud as coroutines; made on first use."""
        if name not in self._clouds:
            self._clouds[name] = AsyncCloud(self._find_cloud(name))
        return self._clouds[name]

    def deadlines_of(self, candidate: Candidate) -> Deadlines:
        """How long each phase may take on a candidate's cloud."""
        capabilities = self.cloud(candidate.offer.cloud).capabilities
        return Deadlines(capabilities.accept_deadline, capabilities.boot_deadline, capabilities.ssh_deadline, AGENT_SECONDS)

    # ------------------------------------------------------------ runs

    def prepare_run(self, name: str, spec: Spec, plan: Plan, *, race: int, hedge: Seconds) -> RunDriver:
        """A run that waits for Launch. Nothing is written and nothing is bought yet."""
        if plan.chosen is not None:
            check_budget(spec.guards, plan.chosen)
        run_id = new_id()
        machine = Failover(
            candidates=plan.candidates,
            deadlines_of=self.deadlines_of,
            new_token=new_id,
            race=race,
            hedge=hedge,
            blocks=self.ledger.blocks(),
            repeats_of=self.ledger.repeats,
        )
        return self._driver(run_id, name, spec, plan, machine, consent=plan.dearest.hourly if plan.dearest else 0)

    def _driver(self, run_id: str, name: str, spec: Spec, plan: Plan, machine: Failover, consent: Micros) -> RunDriver:
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
            on_change=self.changed,
        )

    async def launch(self, driver: RunDriver, *, envs: Mapping[str, str], folder: str) -> None:
        """Write the run down, take its lease, and drive it. Returns as soon as it is under way.

        Raises
        ------
        NameTaken
            If a live cluster or launch has its name.
        """
        driver.keys = ClusterKeys.create(driver.keys_folder)
        self.ledger.open_run(
            driver.run_id,
            driver.name,
            driver.spec.source,
            envs=envs,
            folder=folder,
            race=driver.machine.race,
            consent=driver.consent,
            state=RunState.LAUNCHING,
        )
        driver.state = RunState.LAUNCHING
        self.follow(driver)

    def follow(self, driver: RunDriver, first: list[signals.Action] | None = None) -> asyncio.Task[None]:
        """Drive a run in the background. On the engine thread."""
        self.drivers[driver.run_id] = driver
        driver.ready.add_done_callback(lambda ready: self._keep(driver.run_id, ready))
        task = asyncio.create_task(self._drive(driver, first))
        driver.task = task
        return task

    def _keep(self, run_id: str, ready: concurrent.futures.Future[LiveCluster]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self.live.setdefault(run_id, ready.result())
            self.lifecycle.watch()

    async def _drive(self, driver: RunDriver, first: list[signals.Action] | None) -> None:
        try:
            await driver.drive(first)
        except Exception as error:
            log.exception("run %s", driver.run_id)
            driver.machine.finished = True  # its lease lapses, and the next load takes it up
            for future in (driver.ready, driver.finished):
                if not future.done():
                    future.set_exception(error)
        self.lifecycle.watch()
        self.changed()

    def restored_driver(self, run_id: str, name: str, spec: Spec, machine: Failover) -> RunDriver:
        """A driver for a run whose kernel died. It has no keys yet: they are loaded where machines are to be reached."""
        return self._driver(run_id, name, spec, Plan(spec, ()), machine, consent=0)

    # ------------------------------------------------------------ clusters

    def cluster(self, name: str) -> ClusterRow:
        """The live cluster of this name, from the ledger.

        Raises
        ------
        NotFound
            If there is none, naming those there are.
        """
        row = self.ledger.cluster(name)
        if row is None or row.state is ClusterState.ENDED:
            names = ", ".join(c.name for c in self.ledger.clusters(live_only=True)) or "none is live"
            ended = f" (it ended: {row.reason})" if row is not None and row.reason else ""
            raise NotFound(f"no live cluster is called {name!r}{ended}", hint=f"live clusters: {names}", code="cluster.not-found")
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
            return live

    async def _open(self, row: ClusterRow) -> LiveCluster:
        cloud = self.cloud(row.candidate.offer.cloud)
        await self.lifecycle.observe(cloud)
        current = self.cluster(row.name)
        if current.state not in (ClusterState.RUNNING, ClusterState.STARTING):
            raise NotFound(
                f"{row.name} is {current.state.value}: {current.reason}".rstrip(": "),
                hint=f"start it: %nbprov start {row.name}",
                code="cluster.not-running",
            )
        keys = ClusterKeys.load(self.home / "keys" / row.run_id)
        live = LiveCluster(row.run_id, row.name, row.candidate, keys, [Node(i) for i in self.ledger.instances(row.token)])
        await live.connect(cloud.capabilities.ssh_deadline)
        await live.start_agents(None, AGENT_SECONDS)
        return live

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
            listener()

    def blocks(self) -> list[Block]:
        """Blocks that hold now."""
        return self.ledger.blocks()

    # ------------------------------------------------------------ leases and shutdown

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.ledger.lease_seconds / HEARTBEATS_A_LEASE)
            active = [d for d in self.drivers.values() if not d.machine.finished]
            if active:
                try:
                    lost = self.ledger.renew(d.run_id for d in active)
                except LedgerError as error:
                    log.warning("leases could not be renewed: %s", error)
                    continue
                for driver in active:
                    if driver.run_id in lost:
                        driver.lose()

    def shut_down(self) -> None:
        """Give the leases up and stop the thread. Machines go on; the next kernel takes them up. Never raises, never waits long."""
        future = self.thread.call(self._let_go())
        try:
            future.result(RELEASE_SECONDS)
        except Exception as error:
            log.warning("shut down before the leases were given up (%r); they lapse by themselves", error)
        self.thread.stop()
        self.ledger.close()

    async def _let_go(self) -> None:
        self._heart.cancel()
        for driver in self.drivers.values():
            if driver.task is not None:
                driver.task.cancel()
        await asyncio.gather(*(d.task for d in self.drivers.values() if d.task is not None), return_exceptions=True)
        self.ledger.release_all()
