"""The handle of one provision."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState, RunView
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.driver import RunDriver
from nbprov.runtime.waiting import Waitable, wait_for

from .cluster import Cluster
from .given import Given

if TYPE_CHECKING:
    from .session import Session

CANCEL, DETACH = "cancel", "detach"


class Run(Waitable[Cluster]):
    """One provision, from the plan to a cluster that is set up.

    `run.launch()` agrees to the price shown; `run.wait()` blocks until the cluster is ready and set up, `await run` does not block;
    `run.cancel()` ends what was made. Make one with `nbprov.provision(...)`.

    Examples
    --------
    >>> run = nbprov.provision("resources: {accelerators: A100, infra: local}", "dev")  # doctest: +SKIP
    >>> cluster = run.launch().wait()  # doctest: +SKIP
    """

    def __init__(self, session: Session, driver: RunDriver, given: Given, folder: str) -> None:
        super().__init__(concurrent.futures.Future())
        self._session = session
        self._driver = driver
        self._given = given
        self._folder = folder
        self._launched = False
        self._work = ""
        self._error: BaseException | None = None
        self._listeners: set[Callable[[], None]] = set()
        self.on_interrupt = CANCEL
        driver.on_change = self._changed

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self._driver.name

    @property
    def run_id(self) -> str:
        """The run's id in the ledger."""
        return self._driver.run_id

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

    def launch(self) -> Run:
        """Agree to the dearest candidate's price and start. A second call does nothing. Returns at once.

        Raises
        ------
        NameTaken
            If a live cluster or launch has this name by now.
        """
        if self._launched:
            return self
        if self.plan.chosen is None:
            raise self.unavailable()
        self._launched = True
        try:
            wait_for(self._session.engine.thread.call(self._begin()))
        except NbprovError as error:
            self._launched = False
            self._fail(error)
            raise
        return self

    def launch_soon(self) -> None:
        """As `launch`, from a button: never blocks, never raises; what goes wrong is shown."""
        if not self._launched and self.plan.chosen is not None:
            self._launched = True
            self._session.engine.thread.call(self._begin_or_fail())

    def unavailable(self) -> NbprovError:
        """The error of a plan without candidates."""
        from nbprov.provisioning.outcome import Unavailable

        return Unavailable.of(self.view())

    async def _begin_or_fail(self) -> None:
        try:
            await self._begin()
        except NbprovError as error:
            self._fail(error)

    async def _begin(self) -> None:
        engine = self._session.engine
        await engine.launch(self._driver, envs=self._given.chosen, folder=self._folder)
        engine.thread.call(self._bring_up())
        self._changed()

    async def _bring_up(self) -> None:
        import asyncio

        from nbprov.machines.bringup import bring_up

        try:
            live = await asyncio.wrap_future(self._driver.ready)
            engine = self._session.engine
            engine.live[live.run_id] = live
            await bring_up(live, self.spec, self._given.everything(), self._folder, engine.ledger, self._report)
        except (NbprovError, Exception) as error:
            self._fail(error)
            return
        self._report("")
        self._future.set_result(self._session.cluster(self.name))
        self._changed()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        if not self._future.done():
            self._future.set_exception(error)
        self._changed()

    def _report(self, text: str) -> None:
        self._work = text
        self._changed()

    def cancel(self) -> Run:
        """Give the launch up: what was made is ended and confirmed. Returns at once; does nothing to a cluster that is ready."""
        if self._launched:
            self._session.engine.thread.soon(self._driver.cancel)
        elif not self._future.done():
            self._driver.state = RunState.CANCELLED
            self._driver.message = "not launched; nothing was created"
            from nbprov.provisioning.outcome import Unavailable

            self._fail(Unavailable(f"{self.name}: not launched; nothing was created", code="provision.cancelled"))
        return self

    def wait(self, timeout: Seconds | None = None) -> Cluster:
        """Block until the cluster is set up.

        Raises
        ------
        UsageError
            If it was never launched: it would wait for ever.
        Unavailable
            If no machine was to be had, with the failover history.
        SetupFailed
            If `setup` failed; the cluster is kept, under its guards.
        Interrupted
            On Ctrl-C: by default the launch is cancelled, and its message says what is being ended.
        """
        if not self._launched and not self._future.done():
            raise UsageError(
                f"{self.name} waits for Launch", hint="press Launch in its panel, or call run.launch()", code="run.not-launched"
            )
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            raise self.interrupt() from None

    def wait_without_cancelling(self) -> None:
        """Block until the cluster is set up or could not be; an interrupt leaves the launch alone."""
        before, self.on_interrupt = self.on_interrupt, DETACH
        try:
            self.wait()
        finally:
            self.on_interrupt = before

    @property
    def launched(self) -> bool:
        """Whether Launch was pressed or called."""
        return self._launched

    def interrupt(self) -> Interrupted:
        """What a Ctrl-C during a wait does; returns the error to raise."""
        if self.on_interrupt == DETACH or self.state is RunState.READY:
            return Interrupted(f"{self.name}: the launch goes on in the background; %nbprov down {self.name} ends it, %clusters shows it")
        alive = sum(bool(a.state and not a.state.is_final) for a in self._driver.attempts())
        self.cancel()
        return Interrupted(f"{self.name}: cancelled; {alive or 'no'} attempt{'' if alive == 1 else 's'} being ended and confirmed")

    def settled(self, timeout: Seconds | None = None) -> RunState:
        """Block until nothing of the run is pending: losers and half-made machines are confirmed gone."""
        return wait_for(self._driver.finished, timeout)

    @property
    def settled_future(self) -> concurrent.futures.Future[RunState]:
        """Done when nothing of the run is pending."""
        return self._driver.finished

    @property
    def error(self) -> BaseException | None:
        """What the run ended in where it did not end in a cluster."""
        return self._error

    def view(self) -> RunView:
        """A snapshot for display. Any thread may call it."""
        engine = self._session.engine
        view = self._driver.view()
        row = engine.ledger.cluster_of_run(self.run_id)
        error = "\n".join(self._error.render()) if isinstance(self._error, NbprovError) else str(self._error or "")
        return replace(
            view,
            needs_launch=not self._launched and not self._future.done() and self.plan.chosen is not None,
            cluster=self._session.cluster_view(row) if row is not None else None,
            message=self._work or view.message,
            error=error,
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function (soon, on the engine thread) after every change; returns the way to stop that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _changed(self) -> None:
        self._session.engine.changed()
        for listener in tuple(self._listeners):
            listener()

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.state.value}>"
