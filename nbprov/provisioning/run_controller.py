"""Starts the launches of a kernel, drives them, and renews their leases."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from nbprov.clouds.base import Capabilities
from nbprov.model.blocks import Block
from nbprov.model.clock import Clock, Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError, NbprovError
from nbprov.model.failures import Cause, Failure
from nbprov.model.money import Micros
from nbprov.model.offers import Candidate, Plan
from nbprov.model.spec import HealthCheck, Spec
from nbprov.planning import keys_at
from nbprov.planning.preferred_places import Key
from nbprov.remote.ssh.keys import ClusterKeys
from nbprov.runtime.worker_pool import WorkerPool

from .async_cloud import AsyncCloud
from .engine_hooks import EngineHooks
from .ledger import Ledger, RunRow
from .live_cluster import LiveCluster
from .run import events
from .run.attempt import AGENT_SECONDS, Deadlines
from .run.context import RunContext, RunListeners, RunProgress
from .run.driver import RunDriver
from .run.failover import Failover
from .run.health_check import health_seconds
from .run.racing.race_rule import RaceRule
from .run.run_builder import new_failover, new_id, notes_of, resumed_failover
from .run.run_log import RunLog
from .run.run_terms import lengthen_wait, prefer, set_terms
from .run.waiting.passes import begin_wait
from .run.waiting.stock_wait import LEAST_PAUSE, StockWait
from .spec_storage import readable_text

log = logging.getLogger("nbprov.engine")

PLAN_SECONDS: Seconds = 60.0
"""How long planning again may take; the old plan is used after that.

It takes milliseconds, unless a cloud that is asked for its live prices is slow.
"""

FAULT_PAUSE: Seconds = 0.5
"""Between an exception of ours and the next try to continue its run, doubled with each."""

MOST_FAULT_PAUSE: Seconds = 60.0

ADOPTIONS = 3
"""After this many such exceptions a run is not continued: what it made is ended."""


class RunController:
    """The launches of one engine. On the engine thread unless a method says otherwise.

    Parameters
    ----------
    home
        Folder of keys and logs.
    clouds
        Looks a cloud up by its name.
    changed
        Tells displays that something has changed.
    ready
        Called with the id of a run and its cluster, once the cluster is up.
    watch
        Called at the end of each launch: has live clusters looked at regularly.
    left
        Called with a cloud where a launch may have left something beside its machines, and
        whether the launch is over.

    Attributes
    ----------
    drivers
        The launches that this kernel drives, and drove until their runs are over, by the ids of
        their runs.
    least_pause
        Between two passes of a run that waits for stock.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        home: Path,
        hooks: EngineHooks,
        *,
        clouds: Callable[[str], AsyncCloud],
        changed: Callable[[], None],
        ready: Callable[[str, LiveCluster], None],
        watch: Callable[[], None],
        left: Callable[[str, bool], None],
    ) -> None:
        self.ledger = ledger
        self.least_pause = LEAST_PAUSE
        self.drivers: dict[str, RunDriver] = {}
        self._clock, self._home, self._hooks, self._clouds = clock, home, hooks, clouds
        self._changed, self._ready, self._watch, self._left = changed, ready, watch, left
        self._planners = WorkerPool("plan", 1)
        self._followed: list[RunDriver] = []

    # ------------------------------------------------------------ making

    @property
    def can_replan(self) -> bool:
        """Whether a spec can be planned again."""
        return self._hooks.replan is not None

    def deadlines_of(self, candidate: Candidate, health: HealthCheck | None = None) -> Deadlines:
        """How long each phase may take on a candidate's cloud, and for a spec's health check."""
        capabilities = self._capabilities_of(candidate.offer.cloud)
        return Deadlines(
            capabilities.accept_deadline,
            capabilities.boot_deadline,
            capabilities.ssh_deadline,
            AGENT_SECONDS,
            health_seconds(health, candidate) if health is not None else None,
        )

    def _capabilities_of(self, name: str) -> Capabilities:
        return self._clouds(name).capabilities

    def prepare(
        self,
        name: str,
        spec: Spec,
        plan: Plan,
        *,
        agreed: bool = False,
        wait: Seconds | None = None,
    ) -> RunDriver:
        """A run that waits for Launch; see `Engine.prepare_run`. Any thread."""
        failover = new_failover(
            self.ledger,
            spec,
            plan,
            0,
            StockWait(least_pause=self.least_pause),
            deadlines_of=self.deadlines_of,
            can_replan=self.can_replan,
        )
        driver = self._driver(new_id(), name, spec, plan, failover, 0)
        progress = driver.context.progress
        progress.is_agreed = agreed
        progress.wait = spec.wait.seconds if wait is None else wait
        set_terms(driver.context, plan, self._capabilities_of)
        return driver

    def prefer(self, driver: RunDriver, places: Sequence[int | Key]) -> Coroutine[None, None, None]:
        """Put places of a run that waits for Launch first; see `run_terms.prefer`.

        Ranks are of the plan that is shown now. They become keys before the engine thread has the
        call, since an answer on stock may give the run another order meanwhile.
        """
        return prefer(driver.context, keys_at(driver.plan, places), self._capabilities_of)

    async def wait_longer(self, driver: RunDriver, seconds: Seconds) -> None:
        """Wait so much longer for stock. On the engine thread."""
        await driver.wait_longer(seconds)
        lengthen_wait(driver.context.progress, seconds)
        driver.context.changed()

    def restore(self, row: RunRow, spec: Spec) -> RunDriver:
        """A driver for a run whose kernel died.

        It has no keys yet: they are loaded where machines are to be reached.
        """
        plan = Plan(spec, (), is_kept=False)
        failover = self._resumed_failover(row, spec)
        driver = self._driver(row.run_id, row.name, spec, plan, failover, row.consent)
        rule = RaceRule(row.race, spec.race.hedge)
        driver.context.progress.notes = tuple(notes_of(spec, plan, rule))
        return driver

    def _resumed_failover(self, row: RunRow, spec: Spec) -> Failover:
        return resumed_failover(
            self.ledger,
            row,
            spec,
            deadlines_of=self.deadlines_of,
            can_replan=self.can_replan,
            least_pause=self.least_pause,
        )

    def _driver(
        self, run_id: str, name: str, spec: Spec, plan: Plan, failover: Failover, consent: Micros
    ) -> RunDriver:
        context = RunContext(
            run_id=run_id,
            ledger=self.ledger,
            clouds=self._clouds,
            clock=self._clock,
            runlog=RunLog(self._home / "logs" / f"{run_id}.log", self._clock),
            keys_folder=self._home / "keys" / run_id,
            progress=RunProgress(name, spec, plan, failover, consent),
            replan=self._replan if self.can_replan else None,
            listeners=RunListeners(self._changed, self._left),
        )
        return RunDriver(context)

    async def _replan(self, spec: Spec, blocks: Sequence[Block]) -> Plan:
        replan = self._hooks.replan
        assert replan is not None, "a run that cannot be planned again asks for no plan"
        return await self._planners.run(replan, spec, blocks, seconds=PLAN_SECONDS)

    # ------------------------------------------------------------ driving

    async def launch(self, driver: RunDriver, folder: str, outputs_to: str) -> None:
        """Write the run down, take its lease, and drive it; see `Engine.launch`.

        Raises
        ------
        KeyMaterialError
            If the keys cannot be written.
        LedgerError
            If the run cannot be written down; then its keys are removed.
        """
        progress = driver.context.progress
        progress.keys = ClusterKeys.create(driver.context.keys_folder)
        try:
            self._open(driver, folder, outputs_to)
        except BaseException:
            self._remove_keys(driver)
            raise
        progress.state = RunState.LAUNCHING
        self.follow(driver)

    def _open(self, driver: RunDriver, folder: str, outputs_to: str) -> None:
        self.ledger.runs.open(
            driver.run_id,
            driver.name,
            readable_text(driver.spec),
            folder=folder,
            race=driver.failover.race,
            consent=driver.consent,
            state=RunState.LAUNCHING,
            wait_deadline=begin_wait(driver.context),
            outputs_to=outputs_to,
        )

    def _remove_keys(self, driver: RunDriver) -> None:
        """Remove the keys of a run that could not be begun, if the ledger surely has no row."""
        with contextlib.suppress(LedgerError):
            if self.ledger.runs.get(driver.run_id) is None:
                ClusterKeys.remove(driver.context.keys_folder)

    def follow(
        self, driver: RunDriver, first: list[events.Action] | None = None
    ) -> asyncio.Task[None]:
        """Drive a run in the background; `first` are the actions of a restored run."""
        self.drivers[driver.run_id] = driver
        self._followed = [d for d in self._followed if not d.finished.done()] + [driver]
        driver.ready.add_done_callback(lambda ready: self._hand_over(driver.run_id, ready))
        task = asyncio.create_task(self._drive(driver, first))
        driver.task = task
        return task

    def _hand_over(self, run_id: str, ready: concurrent.futures.Future[LiveCluster]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self._ready(run_id, ready.result())

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
        self._watch()
        self._changed()

    async def _pause_after(self, driver: RunDriver, error: Exception, faults: int) -> None:
        """Wait after an exception of ours, which must leave no run without a driver.

        The driver lets go, and after the pause the run continues from the ledger's rows.
        """
        log.exception("run %s", driver.run_id)
        if self.drivers.get(driver.run_id) is driver:
            del self.drivers[driver.run_id]
        fault = f"{type(error).__name__}: {error}"
        if faults > ADOPTIONS:
            text = f"a fault of nbprov's own, {faults} times: {fault}"
            driver.given_up = Failure(Cause.UNKNOWN, text)
            if not driver.ready.done():
                driver.leave_ready(
                    NbprovError(
                        f"{driver.name}: {fault}; what was made is being ended",
                        hint="%clusters shows how far it is",
                    )
                )
        pause = min(MOST_FAULT_PAUSE, FAULT_PAUSE * 2 ** (faults - 1))
        text = f"a fault of nbprov's own ({fault}); taken up again in {pause:g} s"
        driver.runlog.line(text)
        driver.show_message(text)
        await asyncio.sleep(pause)

    async def _start_over(self, driver: RunDriver) -> list[events.Action] | None:
        """What the ledger says is to be done about a run whose driver stopped.

        None where somebody else works on it by now.
        """
        run_id, ledger = driver.run_id, self.ledger
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
        row = ledger.runs.get(run_id)
        if row is None or driver.finished.done() or not ledger.leases.take(run_id):
            driver.lose()
            return None
        driver.is_cancelled = driver.is_cancelled or row.cancelled
        failover = self._resumed_failover(row, driver.spec)
        launches, cluster = ledger.launches.of_run(run_id), ledger.clusters.of_run(run_id)
        first = await driver.start_over(failover, launches, has_cluster=cluster is not None)
        self.drivers[run_id] = driver
        driver.runlog.line("taken up again")
        driver.show_message("taken up again: what was under way goes on, nothing new is begun")
        return first

    def is_driven(self, run_id: str) -> bool:
        """Whether this kernel drives a run that is not finished."""
        driver = self.drivers.get(run_id)
        return driver is not None and not driver.failover.finished

    def release(self, run_id: str) -> None:
        """Release the lease of a run, unless it is driven here."""
        if not self.is_driven(run_id):
            self.ledger.leases.release(run_id)

    def look_all(self) -> None:
        """Have runs that wait for stock compare what they wait for with today's blocks."""
        for driver in list(self.drivers.values()):
            driver.look()

    # ------------------------------------------------------------ leases and shutdown

    def renew_leases(self) -> None:
        """Renew the leases of all runs that are under way, and cancel those that are to end."""
        active = [d for d in self._followed if not d.finished.done()]
        lost = self.ledger.leases.renew(d.run_id for d in active) if active else set()
        for driver in active:
            if driver.run_id in lost:
                driver.lose()
        # A wait may go on for hours: another kernel that cancels it must not have to wait so long.
        going = [
            d
            for d in active
            if d.run_id not in lost
            and not d.is_cancelled
            and d.state in (RunState.LAUNCHING, RunState.WAITING)
        ]
        cancelled = self.ledger.runs.cancelled(d.run_id for d in going)
        for driver in going:
            if driver.run_id in cancelled:
                driver.cancel()

    async def close(self) -> None:
        """Stop all drivers. Machines stay, and the next kernel continues the runs."""
        self.leave_all()
        tasks = [d.task for d in self._followed if d.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def leave_all(self) -> None:
        """Tell whoever waits for a run that this kernel will not see its end. Any thread."""
        for driver in self._followed:
            driver.leave(
                NbprovError(
                    f"{driver.name}: this kernel is shutting down; the next load takes it up",
                    hint="%load_ext nbprov",
                    code="run.left",
                )
            )
