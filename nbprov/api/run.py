"""The handle of one provision."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable

from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState, RunView
from nbprov.model.errors import Interrupted
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.run.driver import RunDriver
from nbprov.runtime.waiting import Waitable, wait_for

from .cluster import Cluster
from .cluster_proxy import of_cluster
from .context import Context
from .errors import readable_error
from .launching.cluster_replacement import put_in_place
from .launching.first_setup import set_up_first
from .launching.launch_end import end
from .operation import Operation
from .run_progress import (
    SetupProgress,
    cancelled,
    left_alone,
    not_launched,
    unloaded,
)
from .services import Services
from .services.adopted_launches import cancel, try_now, wait_longer
from .spec_inputs import RunInputs
from .steps import Steps, result, run_sync

CANCEL = "cancel"


class Run(Waitable[Cluster]):
    """One provision, from the plan to a cluster that is set up.

    `run.launch()` agrees to the price shown; `run.wait()` blocks until the cluster is ready and set
    up, and `await run` does not block; `run.cancel()` ends what was made. Make one with
    `nbprov.provision(...)`. A run has its cluster's methods, too: `run.cell("1 + 1")` waits until
    the cluster is set up.

    Attributes
    ----------
    on_interrupt
        What an interrupt of a wait does: `cancel` ends what was launched, `detach` leaves it alone.
    """

    def __init__(
        self,
        context: Context,
        services: Services,
        driver: RunDriver,
        inputs: RunInputs,
        *,
        launched: bool = False,
    ) -> None:
        super().__init__(concurrent.futures.Future())
        self._context, self._services = context, services
        self._driver, self.inputs = driver, inputs
        self._lock, self._launched = threading.Lock(), launched
        self._progress = SetupProgress(self._changed)
        self._error: BaseException | None = None
        self._listeners: set[Callable[[], None]] = set()
        self.on_interrupt, self.replaces = CANCEL, ""
        context.set_inputs(driver.run_id, inputs.given)
        driver.context.listeners.on_change = self._changed
        # A launch that was adopted has no plan until its next pass.
        if self.plan.chosen is None and not launched:
            from nbprov.provisioning.run.unavailable import Unavailable

            self._driver.context.progress.state = RunState.FAILED
            self._error = Unavailable.of(self._driver.view())
            self._future.set_exception(self._error)

    def follow(self) -> None:
        """Set its cluster up once it is ready, where its launch goes on already."""
        self._context.engine.thread.call(self._bring_up())
        self._changed()

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._driver.name

    @property
    def run_id(self) -> str:
        """The run's id in the ledger."""
        return self._driver.run_id

    @property
    def driver(self) -> RunDriver:
        """The driver of its launch, on the engine thread."""
        return self._driver

    @property
    def spec(self) -> Spec:
        """What was asked for."""
        return self._driver.spec

    @property
    def plan(self) -> Plan:
        """The candidates in the order of attempts."""
        return self._driver.plan

    @property
    def state(self) -> RunState:
        """How far it came."""
        return self._driver.state

    @property
    def race(self) -> int:
        """How many attempts may be under way, and on the bill, at once."""
        return self._driver.failover.race

    def try_now(self) -> None:
        """Try the places again, if it waits for stock and the last pass is not too recent."""
        try_now(self._context.engine, self._driver)

    def prefer(self, *places: int | tuple[str, ...]) -> Run:
        """Before Launch: try places of the plan first, by rank or key; none for its own order."""
        runs = self._context.engine.runs
        wait_for(self._context.engine.thread.call(runs.prefer(self._driver, places)))
        return self

    def wait_longer(self, seconds: Seconds) -> None:
        """Wait `seconds` longer for stock; raises `UsageError` if it waits for none."""
        wait_longer(self._context.engine, self._driver, self.name, seconds)

    def down(self) -> Operation:
        """End what this run made: its launch or its cluster, never a later one of that name."""
        return end(self._context, self._services, self.name, cluster_id=self.run_id)

    def launch(self) -> Run:
        """Agree to the dearest candidate's price and start. Returns at once; once is enough.

        Raises
        ------
        NameTaken
            If a live cluster or launch has this name by now.
        Unavailable
            If no candidate fits, or the run was cancelled before.
        """
        if self._claim():
            try:
                wait_for(self._context.engine.thread.call(self._begin()))
            except Exception as error:
                self._not_begun(error)
                raise
        elif self._error is not None and not self._launched:
            raise self._error
        return self

    def _not_begun(self, error: BaseException) -> None:
        # Nothing was written and no cloud was asked, so there is nothing to settle.
        self._launched = False
        self._driver.context.progress.state = RunState.FAILED
        self._fail(error)

    def launch_soon(self) -> None:
        """As `launch`, from a button: never blocks and never raises; what goes wrong is shown."""
        if self._claim():
            self._context.engine.thread.call(self._begin_or_fail())

    def _claim(self) -> bool:
        """Whether this call is the one that launches: a button and a cell may both try."""
        with self._lock:
            if self._launched or self._future.done():
                return False
            self._launched = True
            return True

    async def _begin_or_fail(self) -> None:
        try:
            await self._begin()
        except Exception as error:
            self._not_begun(error)

    async def _begin(self) -> None:
        launch, inputs = self._context.engine.launch, self.inputs
        await launch(self._driver, folder=inputs.folder, outputs_to=inputs.outputs_to)
        self.follow()

    async def _bring_up(self) -> None:
        try:
            cluster = await self._set_up_cluster()
        except asyncio.CancelledError:
            self._fail(unloaded(self.name))
            raise
        except Exception as error:
            self._fail(readable_error(error))
            return
        self._progress.work = ""
        self._future.set_result(cluster)
        self._changed()

    async def _set_up_cluster(self) -> Cluster:
        context, services = self._context, self._services
        await set_up_first(context, services, self._driver, self.inputs, self._progress)
        if self.replaces:
            await put_in_place(context, services, self.run_id, self.replaces)
        return Cluster(context, services, self.run_id, self.name)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._progress.work = ""
        if not self._future.done():
            self._future.set_exception(error)
        self._changed()

    def cancel(self) -> Run:
        """Cancel the launch; what was made is ended. Does nothing to a cluster that is ready."""
        if self._launched:
            cancel(self._context.engine, self._driver)
        else:
            self._withdraw("not launched; nothing was created")
        return self

    def supersede(self) -> None:
        """Close a run that waits for Launch: a later one has its name."""
        if not self._launched:
            self._withdraw("not launched; a later cell has taken its place")

    def _withdraw(self, why: str) -> None:
        from nbprov.provisioning.run.unavailable import Unavailable

        if self._future.done():
            return
        progress = self._driver.context.progress
        progress.state, progress.message = RunState.CANCELLED, why
        self._fail(Unavailable(f"{self.name}: {why}", code="provision.cancelled"))

    def wait(self, timeout: Seconds | None = None) -> Cluster:
        """Block until the cluster is set up.

        Raises
        ------
        UsageError
            If it was never launched: it would wait for ever.
        Unavailable
            If no machine was available, with the failover history.
        SetupFailed
            If `setup` failed; the cluster is kept, under its guards.
        Interrupted
            On Ctrl-C: by default the launch is cancelled, and the message says what is being ended.
        TimeoutError
            After `timeout` seconds; the launch goes on.
        """
        self._refuse_endless_wait()
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            raise self.interrupt() from None

    async def _polled(self) -> Cluster:
        # A kernel turns its stop button into a cancellation of the awaiting cell. As with a task,
        # to cancel the await is to cancel the run, unless the run was told to detach;
        # `asyncio.shield(run)` keeps it from that too.
        self._refuse_endless_wait()
        try:
            return await super()._polled()
        except asyncio.CancelledError as error:
            said = self.interrupt()
            # Not an exception of our own: `asyncio.timeout` knows only the original.
            error._render_traceback_ = said._render_traceback_  # type: ignore[attr-defined]
            raise

    def _refuse_endless_wait(self) -> None:
        if not self._launched and not self._future.done():
            raise not_launched(self.name)

    def until_set_up(self) -> Steps[Cluster]:
        """Wait until the cluster is set up or could not be; raises as `wait`.

        An interrupt leaves the launch alone.
        """
        self._refuse_endless_wait()
        try:
            return (yield from result(self._future))
        except KeyboardInterrupt:
            raise left_alone(self._driver) from None

    def cluster(self) -> Cluster:
        """Block until the cluster is set up, or its setup failed and it was kept; its handle.

        Raises
        ------
        UsageError
            If it was never launched.
        Unavailable, SetupFailed
            If the launch fails meanwhile.
        """
        if not self.done:
            run_sync(self.until_set_up())
        row = self._context.engine.ledger.clusters.of_run(self.run_id)
        if self.error is not None and row is not None and row.ended is None:
            return Cluster(self._context, self._services, row.cluster_id)
        return self.wait()

    @property
    def launched(self) -> bool:
        """Whether somebody agreed to its price."""
        return self._launched

    @property
    def is_under_way(self) -> bool:
        """Whether its machines are being created or terminated."""
        return self._launched and not self._driver.finished.done()

    @property
    def cancels_on_interrupt(self) -> bool:
        """Whether an interrupt of a wait would, as things are, end what was launched."""
        return (
            self._launched
            and self.on_interrupt == CANCEL
            and self.state not in (RunState.READY, RunState.CANCELLED, RunState.FAILED)
        )

    def interrupt(self) -> Interrupted:
        """Do what a Ctrl-C during a wait does; the error to raise."""
        if not self._launched:
            self.cancel()
            return Interrupted(f"{self.name}: interrupted before Launch; nothing was created")
        if not self.cancels_on_interrupt:
            return left_alone(self._driver)
        # First of all: what follows could fail, above all the ledger.
        self.cancel()
        return cancelled(self._driver)

    def settled(self, timeout: Seconds | None = None) -> RunState:
        """Block until no machine of it is pending; an interrupt or `timeout` ends only the wait."""
        if not self._launched:
            return self.state
        try:
            return wait_for(self._driver.finished, timeout)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{self.name}: it goes on in the background; %clusters shows how far it is"
            ) from None

    @property
    def settled_future(self) -> concurrent.futures.Future[RunState]:
        """Done when nothing of the run is pending."""
        return self._driver.finished

    @property
    def error(self) -> BaseException | None:
        """The error that it ended in, if it did not end in a cluster."""
        return self._error

    def view(self) -> RunView:
        """A snapshot for display. Any thread may call it."""
        return self._progress.view(
            self._services,
            self._driver,
            self._context.engine.ledger.clusters.of_run(self.run_id),
            needs_launch=not self._launched and not self.done,
            is_set_up=self.done and self._error is None,
            error=self._error,
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` (on the engine thread) after every change; the result ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _changed(self) -> None:
        # Called on the engine thread while the run is under way, and on any other before.
        self._context.engine.thread.soon(self._tell)

    def _tell(self) -> None:
        self._context.engine.changed()
        for listener in tuple(self._listeners):
            listener()

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.state.value}>"

    cell, bash = of_cluster(Cluster.cell), of_cluster(Cluster.bash)
    submit, wait_job = of_cluster(Cluster.submit), of_cluster(Cluster.wait_job)
    jobs, job, logs = of_cluster(Cluster.jobs), of_cluster(Cluster.job), of_cluster(Cluster.logs)
    cancel_job, cancel_jobs = of_cluster(Cluster.cancel_job), of_cluster(Cluster.cancel_jobs)
    push, pull, sync = of_cluster(Cluster.push), of_cluster(Cluster.pull), of_cluster(Cluster.sync)
    outputs, tunnel = of_cluster(Cluster.outputs), of_cluster(Cluster.tunnel)
    dask, ray = of_cluster(Cluster.dask), of_cluster(Cluster.ray)
    ssh_command, rename = of_cluster(Cluster.ssh_command), of_cluster(Cluster.rename)
    set_up, guards = of_cluster(Cluster.set_up), of_cluster(Cluster.guards)
    stop, start = of_cluster(Cluster.stop), of_cluster(Cluster.start)
    restored = of_cluster(Cluster.restored)
