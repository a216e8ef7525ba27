"""The engine of a kernel: its thread, its ledger, its clouds, its launches and its clusters."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nbprov.clouds import registry
from nbprov.clouds.base import Capabilities, Cloud
from nbprov.model import paths
from nbprov.model.blocks import Block
from nbprov.model.clock import Clock, Seconds
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.model.stock import Stock
from nbprov.runtime.clocks import SystemClock
from nbprov.runtime.engine_thread import EngineThread
from nbprov.runtime.fault_log import log_fault
from nbprov.runtime.publisher import Publisher

from .async_cloud import AsyncCloud
from .cluster_connections import ClusterConnections
from .cluster_lookup import find_cluster
from .engine_hooks import EngineHooks
from .finished_runs import FinishedRuns
from .ledger import LEASE_SECONDS, ClusterRow, Ledger
from .live_cluster import LiveCluster
from .orphans import OrphanCollector
from .run.driver import RunDriver
from .run.waiting.stock_wakeup import StockWakeup
from .run_controller import RunController
from .supervision.context import SupervisionContext
from .supervision.lifecycle import ClusterLifecycle
from .supervision.other_kernels import OtherKernels
from .supervision.side_objects import SideObjectCollector

log = logging.getLogger("nbprov.engine")

LEDGER_FILE = "ledger.sqlite3"

HEARTBEATS_PER_LEASE = 4
"""Leases are renewed this many times in their length.

Three renewals may fail before another kernel takes over.
"""

RELEASE_SECONDS: Seconds = 1.0
"""How long an orderly shutdown may take to release its leases.

A kernel is killed after about 2.5 s.
"""


class Engine:
    """Composes what launches machines and looks after clusters; one per process.

    Methods that are not `async` may be called from any thread unless they say otherwise.
    Coroutines run on the engine thread.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs.
    clouds
        Looks an adapter up by name; the registry unless a test brings its own.
    hooks
        What the layers above do for launches and clusters.

    Attributes
    ----------
    connections
        The open connections of this kernel to clusters.
    runs
        The launches of this kernel.
    lifecycle
        The verbs of clusters that are up.
    orphans, side_objects
        End machines, and remove what lies beside machines, that belong to no live launch.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        clouds: Callable[[str], Cloud] = registry.get,
        clock: Clock | None = None,
        lease_seconds: Seconds = LEASE_SECONDS,
        wrap_ledger: Callable[[Ledger], Ledger] = lambda ledger: ledger,
        hooks: EngineHooks | None = None,
    ) -> None:
        self.home = home or paths.home()
        self.hooks = hooks or EngineHooks()
        self.thread = EngineThread()
        path = self.home / LEDGER_FILE
        ledger = Ledger(path, clock or SystemClock(), uuid.uuid4().hex, lease_seconds)
        self.ledger, self.clock = wrap_ledger(ledger), ledger.clock
        self.publisher = Publisher(self.thread.loop)
        self._find_cloud = clouds
        self._clouds: dict[str, AsyncCloud] = {}
        self._listeners: set[Callable[[], None]] = set()
        self.connections = ClusterConnections(
            *(self.ledger, self.clock, self.home / "keys"),
            clouds=self.cloud,
            observe=self._observe,
        )
        self.orphans = OrphanCollector(self.ledger, self.clock, self.cloud, self.changed)
        self.side_objects = SideObjectCollector(
            *(self.ledger, self.clock, self.orphans), clouds=self.cloud, changed=self.changed
        )
        self.runs = RunController(
            *(self.ledger, self.clock, self.home, self.hooks),
            clouds=self.cloud,
            changed=self.changed,
            ready=self._run_ready,
            watch=self._watch,
            left=self.side_objects.told,
        )
        self._finished_runs = FinishedRuns(self.ledger, self.home / "keys", self.runs.drivers)
        self.lifecycle = ClusterLifecycle(
            SupervisionContext(
                ledger=self.ledger,
                clock=self.clock,
                keys_folder=self.home / "keys",
                clouds=self.cloud,
                hooks=self.hooks,
                connections=self.connections,
                side_objects=self.side_objects,
                drivers=self.runs.drivers,
                changed=self.changed,
            ),
            self._finished_runs.collect,
        )
        self._stock_wakeup = StockWakeup(self.ledger, self.drivers, self.thread.soon)
        self._other_kernels = OtherKernels(
            self.ledger, self.connections, self.lifecycle.is_busy, self.changed
        )
        self._heart = self.thread.call(self._heartbeat())

    async def _observe(self, cloud: AsyncCloud) -> None:
        await self.lifecycle.observe(cloud)

    def _watch(self) -> None:
        self.lifecycle.watch()
        self._finished_runs.collect()

    # ------------------------------------------------------------ clouds

    def cloud(self, name: str) -> AsyncCloud:
        """A cloud as coroutines; made on first use.

        Raises
        ------
        NotFound
            If its adapter is not installed here.
        """
        if name not in self._clouds:
            self._clouds[name] = AsyncCloud(self._find_cloud(name), self.clock)
        return self._clouds[name]

    def capabilities_of(self, name: str) -> Capabilities:
        """What a cloud can do."""
        return self.cloud(name).capabilities

    # ------------------------------------------------------------ runs

    @property
    def drivers(self) -> dict[str, RunDriver]:
        """The launches that this kernel drives, and drove until they are over, by their runs."""
        return self.runs.drivers

    def prepare_run(
        self,
        name: str,
        spec: Spec,
        plan: Plan,
        *,
        agreed: bool = False,
        wait: Seconds | None = None,
    ) -> RunDriver:
        """A run that waits for Launch. Nothing is written and nothing is bought yet.

        Parameters
        ----------
        agreed
            Launch agrees to all that the spec's caps allow, and not only to what `confirm_above`
            leaves.
        wait
            How long it waits for stock, from Launch on; as the spec says by default.
        """
        return self.runs.prepare(name, spec, plan, agreed=agreed, wait=wait)

    async def launch(self, driver: RunDriver, *, folder: str, outputs_to: str = "") -> None:
        """Write the run down, take its lease, and drive it. Returns as soon as it is under way.

        Parameters
        ----------
        folder
            What relative paths of its spec are relative to.
        outputs_to
            The absolute folder for outputs that was agreed to.

        Raises
        ------
        NameTaken
            If a live cluster or launch has its name.
        """
        await self.runs.launch(driver, folder, outputs_to)

    def _run_ready(self, run_id: str, live: LiveCluster) -> None:
        self.live.setdefault(run_id, live)
        self.lifecycle.watch()

    # ------------------------------------------------------------ clusters

    @property
    def live(self) -> dict[str, LiveCluster]:
        """The clusters that are connected, by the ids of their runs."""
        return self.connections.live

    def cluster(self, name: str) -> ClusterRow:
        """The live cluster of this name, from the ledger.

        Raises
        ------
        NotFound
            If there is none, naming those there are.
        """
        return find_cluster(self.ledger, name)

    async def attach(self, name: str) -> LiveCluster:
        """The live cluster with open connections; those of an earlier kernel are opened anew.

        Raises
        ------
        NotFound
            If no live cluster has this name.
        CloudError
            If its machines cannot be reached.
        """
        return await self.connections.attach(name)

    # ------------------------------------------------------------ changes

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function (on the engine thread, quickly) after every change.

        Returns a function that ends the subscription.
        """
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def changed(self) -> None:
        """Call the subscribers. On the engine thread."""
        for listener in tuple(self._listeners):
            try:
                listener()
            except Exception:  # a display that fails must not stop what it shows
                log.exception("a listener")

    def clear_blocks(self, blocks: Iterable[Block] | None = None) -> int:
        """Forget these blocks, or all; runs that wait for stock try again.

        Returns how many there were.
        """
        table = self.ledger.blocks
        count = table.clear() if blocks is None else table.remove(blocks)
        self.thread.soon(self.runs.look_all)
        return count

    def stock_seen(self, stocks: Sequence[Stock], account: str = "", count: int = 1) -> None:
        """Keep what clouds said of their stock just now, and wake the runs that wait for it.

        Never raises.

        Parameters
        ----------
        account
            Whose stock it is, where accounts differ.
        count
            How many machines at once were asked about.
        """
        self._stock_wakeup.observe(stocks, account, count)

    # ------------------------------------------------------------ leases and shutdown

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self.ledger.lease_seconds / HEARTBEATS_PER_LEASE)
            try:
                self.runs.renew_leases()
            except Exception as error:  # without a heartbeat others would take every run
                log_fault(log, error, "leases could not be renewed")
            try:
                self._other_kernels.look()
            except Exception as error:
                log_fault(log, error, "what other kernels did could not be seen")

    def shut_down(self) -> None:
        """Release the leases and stop the thread. Never raises, never waits long.

        Machines stay; the next kernel takes them up.
        """
        future = self.thread.call(self._release())
        try:
            future.result(RELEASE_SECONDS)
        except Exception as error:
            log.warning(
                "shut down before the leases were released (%r); they lapse by themselves", error
            )
        self.thread.stop()
        self.runs.leave_all()
        self.ledger.close()

    async def _release(self) -> None:
        self._heart.cancel()
        await self.runs.close()
        self.ledger.leases.release_all()
        # After the leases, which other kernels wait for.
        await self.connections.close()
