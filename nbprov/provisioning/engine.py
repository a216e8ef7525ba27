"""The engine of a kernel: its thread, its ledger, its clouds, the runs it drives and the clusters it knows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import secrets
import uuid
from collections.abc import Callable
from pathlib import Path

from nbprov.clouds import registry
from nbprov.clouds.base import Cloud
from nbprov.model import paths
from nbprov.model.causes import Cause, Failure
from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.money import Micros
from nbprov.model.offers import Block, Candidate, Plan
from nbprov.model.spec import Spec
from nbprov.remote.agent.values import GuardConfig
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
from .stored import readable_text

log = logging.getLogger("nbprov.engine")

LEDGER_FILE = "ledger.sqlite3"

HEARTBEATS_A_LEASE = 4
"""Leases are renewed this many times in their length: three renewals may fail before another kernel takes over."""

RELEASE_SECONDS: Seconds = 1.0
"""An orderly shutdown may take so long to give its leases up: a kernel is killed after about 2.5 s."""

FAULT_PAUSE: Seconds = 0.5
MOST_FAULT_PAUSE: Seconds = 60.0
"""Between a fault of ours and the run's being taken up again, doubled with each."""

ADOPTIONS = 3
"""A run is taken up again so often as a launch that goes on; after that whatever it made is ended."""


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
        self._followed: list[RunDriver] = []
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

    async def launch(self, driver: RunDriver, *, folder: str) -> None:
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
            readable_text(driver.spec),
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
        self._followed = [d for d in self._followed if not d.finished.done()] + [driver]
        driver.ready.add_done_callback(lambda ready: self._keep(driver.run_id, ready))
        task = asyncio.create_task(self._drive(driver, first))
        driver.task = task
        return task

    def _keep(self, run_id: str, ready: concurrent.futures.Future[LiveCluster]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self.live.setdefault(run_id, ready.result())
            self.lifecycle.watch()

    async def _drive(self, driver: RunDriver, first: list[signals.Action] | None) -> None:
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
            driver.given_up = Failure(Cause.UNKNOWN, f"a fault of nbprov's own, {faults} times: {said}")
            if not driver.ready.done():
                driver.leave_ready(
                    NbprovError(f"{driver.name}: {said}; what was made is being ended", hint="%clusters shows how far it is")
                )
        pause = min(MOST_FAULT_PAUSE, FAULT_PAUSE * 2 ** (faults - 1))
        driver.runlog.line(f"a fault of nbprov's own ({said}); taken up again in {pause:g} s")
        driver.tell(f"a fault of nbprov's own ({said}); taken up again in {pause:g} s")
        await asyncio.sleep(pause)

    async def _start_over(self, driver: RunDriver) -> list[signals.Action] | None:
        """What is to be done about a run whose driver stopped, from the ledger; None where somebody else works on it by now."""
        run_id = driver.run_id
        other = self.drivers.get(run_id)
        if other is not None and other is not driver:
            driver.leave(NbprovError(f"{driver.name} was taken up anew", hint="%clusters shows what became of it", code="run.left"))
            return None
        row = self.ledger.run(run_id)
        if row is None or driver.finished.done() or not self.ledger.take(run_id):
            driver.lose()
            return None
        driver.is_cancelled = driver.is_cancelled or row.cancelled
        machine = Failover(candidates=(), deadlines_of=self.deadlines_of, new_token=new_id, race=driver.machine.race, may_start=False)
        launches, cluster = self.ledger.launches(run_id), self.ledger.cluster_of_run(run_id)
        first = await driver.start_over(machine, launches, has_cluster=cluster is not None)
        self.drivers[run_id] = driver
        driver.runlog.line("taken up again")
        driver.tell("taken up again: what was under way goes on, nothing new is begun")
        return first

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
        known = self.ledger.guard(row.run_id)
        # A start may have lost what the agent was told; the same values again do not begin a count anew.
        guards = GuardConfig.from_json(known[0]) if known is not None and "poweroff" in known[0] else None
        await live.start_agents(guards, AGENT_SECONDS)
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
            try:
                listener()
            except Exception:  # a display that fails must not stop what it shows
                log.exception("a listener")

    def blocks(self) -> list[Block]:
        """Blocks that hold now."""
        return self.ledger.blocks()

    # ------------------------------------------------------------ leases and shutdown

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.ledger.lease_seconds / HEARTBEATS_A_LEASE)
            try:
                self._beat()
            except Exception:  # without a heart every run of this kernel would be taken from it
                log.exception("leases could not be renewed")

    def _beat(self) -> None:
        active = [d for d in self._followed if not d.finished.done()]
        lost = self.ledger.renew(d.run_id for d in active) if active else set()
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
        self._leave_all()
        self.ledger.close()

    async def _let_go(self) -> None:
        self._heart.cancel()
        self._leave_all()
        tasks = [d.task for d in self._followed if d.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.ledger.release_all()

    def _leave_all(self) -> None:
        # Nothing may wait for ever on a run that this kernel will not see the end of.
        for driver in self._followed:
            driver.leave(
                NbprovError(
                    f"{driver.name}: this kernel is shutting down; the next load takes it up", hint="%load_ext nbprov", code="run.left"
                )
            )
