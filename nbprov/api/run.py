"""The handle of one provision."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState, ClusterState, ClusterView, RunState, RunView
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.provisioning.run.driver import RunDriver
from nbprov.runtime.waiting import Waitable, wait_for

from .cluster import Cluster, Done
from .cluster_proxy import ClusterVerbs
from .errors import readable
from .launching.adopted_launches import cancel
from .launching.cluster_replacement import put_in_place
from .launching.cluster_reuse import note_set_up
from .launching.setup_failure import after_failure
from .services.compute_engines import EngineClientsOfRun
from .spec_inputs import Given

if TYPE_CHECKING:
    from nbprov.machines.masking import Masker
    from nbprov.remote.agent.messages import Environment

    from .session import Session

CANCEL, DETACH = "cancel", "detach"

LOG_LINES = 500
"""Of the set-up's log that are kept for display; all of it is on the machine: `%nbprov logs NAME setup`."""


class Run(Waitable[Cluster], EngineClientsOfRun, ClusterVerbs):
    """One provision, from the plan to a cluster that is set up.

    `run.launch()` agrees to the price shown; `run.wait()` blocks until the cluster is ready and set up, `await run` does not block;
    `run.cancel()` ends what was made. Make one with `nbprov.provision(...)`. What a `Cluster` can do the run of it can, too: `run.cell("1 + 1")`
    waits until it is set up.

    Examples
    --------
    >>> run = nbprov.provision("resources: {accelerators: A100, infra: local}", "dev")  # doctest: +SKIP
    >>> cluster = run.launch().wait()  # doctest: +SKIP
    """

    def __init__(
        self,
        session: Session,
        driver: RunDriver,
        given: Given,
        folder: str,
        *,
        launched: bool = False,
    ) -> None:
        super().__init__(concurrent.futures.Future())
        self._session = session
        self._driver = driver
        self._given = given
        self._folder = folder
        self._lock = threading.Lock()
        self._launched = launched
        self._work = ""
        self._ports: tuple[str, ...] = ()
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._logged = 0
        self._set_up: tuple[str, ...] = ()
        self._error: BaseException | None = None
        self._listeners: set[Callable[[], None]] = set()
        self.on_interrupt = CANCEL
        self.replaces = ""
        driver.on_change = self._changed
        if (
            self.plan.chosen is None and not launched
        ):  # one that was taken up has no plan until its next pass
            self._driver.state = RunState.FAILED
            self._error = self._nothing_fits()
            self._future.set_exception(self._error)

    @classmethod
    def joined(cls, session: Session, driver: RunDriver, given: Given, folder: str) -> Run:
        """The handle of a launch that goes on already: what is agreed to is agreed to, and its set-up is done once it is ready."""
        run = cls(session, driver, given, folder, launched=True)
        session.engine.thread.call(run._bring_up())
        run._changed()
        return run

    def _nothing_fits(self) -> NbprovError:
        from nbprov.provisioning.run.unavailable import Unavailable

        return Unavailable.of(self._driver.view())

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
        """What drives it, on the engine's thread."""
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
        return self._driver.machine.race

    def masker(self) -> Masker:
        """What blots out the secrets of this run's setup and run."""
        from nbprov.machines.masking import masker

        return masker(self._given.everything())

    def plain_values(self) -> dict[str, str]:
        """The values of the spec's envs, those given by the caller included."""
        return {
            name: value
            for name, value in self._given.everything().items()
            if isinstance(value, str)
        }

    def environment(self) -> Environment:
        """The envs and secrets of this run."""
        return self._given.everything()

    def down(self) -> Done:
        """End what this run made: its launch, or its cluster. Never a later one of the same name."""
        return self._session.down(self.name, cluster_id=self.run_id)

    def launch(self) -> Run:
        """Agree to the dearest candidate's price and start. A second call does nothing. Returns at once.

        Raises
        ------
        NameTaken
            If a live cluster or launch has this name by now.
        Unavailable
            If no candidate fits, or the run was given up before.
        """
        if self._claim():
            try:
                wait_for(self._session.engine.thread.call(self._begin()))
            except Exception as error:
                self._not_begun(error)
                raise
        elif self._error is not None and not self._launched:
            raise self._error
        return self

    def _not_begun(self, error: BaseException) -> None:
        # Nothing was written and nothing was asked of a cloud, so there is nothing to settle.
        self._launched = False
        self._driver.state = RunState.FAILED
        self._fail(error)

    def launch_soon(self) -> None:
        """As `launch`, from a button: never blocks, never raises; what goes wrong is shown."""
        if self._claim():
            self._session.engine.thread.call(self._begin_or_fail())

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
        engine = self._session.engine
        await engine.launch(self._driver, folder=self._folder)
        engine.thread.call(self._bring_up())
        self._changed()

    async def _bring_up(self) -> None:
        try:
            from nbprov.machines.setup.cluster_setup import bring_up

            live = await asyncio.wrap_future(self._driver.ready)
            engine = self._session.engine
            engine.live[live.run_id] = live
            self._ports = tuple(await self._session.open_ports(live, self.spec.expose))
            try:
                given, ledger = self._given, engine.ledger
                await bring_up(
                    live,
                    self.spec,
                    given.everything(),
                    self._folder,
                    ledger,
                    self._report,
                    home=engine.home,
                    note=self._note,
                    python=given.python,
                )
            except Exception as error:
                raise await after_failure(
                    self._session, self.run_id, self.spec, error, self._report
                ) from None
            note_set_up(engine.ledger, self.run_id)
            if self.spec.engine is not None:
                await self._session.engine_up(
                    live, self.spec.engine, self.environment, self._report
                )
            if self.replaces:
                await put_in_place(self._session, self.run_id, self.replaces)
            cluster = Cluster(self._session, self.name, cluster_id=self.run_id)
        except asyncio.CancelledError:
            self._fail(
                NbprovError(
                    f"{self.name}: nbprov was unloaded before it was set up",
                    hint="%load_ext nbprov",
                    code="run.left",
                )
            )
            raise
        except Exception as error:
            self._fail(readable(error))
            return
        self._work = ""
        self._future.set_result(cluster)
        self._changed()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._work = ""
        if not self._future.done():
            self._future.set_exception(error)
        self._changed()

    def _report(self, text: str, line: str = "", /) -> None:
        self._work = text
        if line:
            self._log.append(line)
            self._logged += 1
        self._changed()

    def _note(self, text: str) -> None:
        self._set_up = (*self._set_up, text)
        self._report(text)

    def cancel(self) -> Run:
        """Give the launch up: what was made is ended and confirmed. Returns at once; does nothing to a cluster that is ready."""
        if self._launched:
            cancel(self._session.engine, self._driver)
        else:
            self._withdraw("not launched; nothing was created")
        return self

    def supersede(self) -> None:
        """Close a run that waits for Launch, since a later one took its name; does nothing to any other."""
        if not self._launched:
            self._withdraw("not launched; a later cell has taken its place")

    def _withdraw(self, why: str) -> None:
        from nbprov.provisioning.run.unavailable import Unavailable

        if self._future.done():
            return
        self._driver.state = RunState.CANCELLED
        self._driver.message = why
        self._fail(Unavailable(f"{self.name}: {why}", code="provision.cancelled"))

    # ------------------------------------------------------------ waiting

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
        TimeoutError
            After `timeout` seconds; the launch goes on.
        """
        self._refuse_endless_wait()
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            raise self.interrupt() from None

    async def _polled(self) -> Cluster:
        # A kernel turns its stop button into a cancellation of the awaiting cell. As with a task, to cancel who awaits is to cancel
        # what is awaited, unless the run was told to detach; `asyncio.shield(run)` keeps it from that too.
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
            raise UsageError(
                f"{self.name} waits for Launch",
                hint="press Launch in its panel, or call launch() on the run, then run this cell again",
                code="run.not-launched",
            )

    def wait_detached(self) -> None:
        """Block until the cluster is set up or could not be; an interrupt leaves the launch alone. Raises as `wait`."""
        self._refuse_endless_wait()
        try:
            super().wait()
        except KeyboardInterrupt:
            raise self._left_alone() from None

    @property
    def launched(self) -> bool:
        """Whether it was agreed to."""
        return self._launched

    @property
    def is_under_way(self) -> bool:
        """Whether machines are being got, or got rid of."""
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
        """Do what a Ctrl-C during a wait does; returns the error to raise."""
        if not self._launched:
            self.cancel()
            return Interrupted(f"{self.name}: interrupted before Launch; nothing was created")
        if not self.cancels_on_interrupt:
            return self._left_alone()
        # Before anything that could fail, the ledger above all.
        self.cancel()
        alive = sum(not a.state.is_final for a in list(self._driver.machine.attempts.values()))
        what = (
            f"{alive} attempt{'' if alive == 1 else 's'} being ended and confirmed"
            if alive
            else "nothing of it is on the bill"
        )
        return Interrupted(f"{self.name}: cancelled; {what}")

    def _left_alone(self) -> Interrupted:
        if self.state is RunState.READY:
            return Interrupted(
                f"{self.name}: its machine runs and its setup goes on; %nbprov down {self.name} ends it"
            )
        return Interrupted(
            f"{self.name}: the launch goes on in the background; %nbprov down {self.name} ends it, %clusters shows it"
        )

    def settled(self, timeout: Seconds | None = None) -> RunState:
        """Block until nothing of the run is pending: losers and half-made machines are confirmed gone.

        Returns at once where nothing was launched. An interrupt ends the wait alone.
        """
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
        """What it ended in where it did not end in a cluster."""
        return self._error

    def view(self) -> RunView:
        """A snapshot for display. Any thread may call it."""
        view = self._driver.view()
        row = self._session.engine.ledger.clusters.of_run(self.run_id)
        error = (
            "\n".join(self._error.render())
            if isinstance(self._error, NbprovError)
            else str(self._error or "")
        )
        is_set_up = self.done and self._error is None
        view = replace(
            view,
            name=row.name if row is not None else view.name,
            needs_launch=not self._launched and not self.done,
            cluster=self._with_tunnels(self._session.cluster_view(row))
            if row is not None
            else None,
            notes=(*view.notes, *self._set_up),
            message=self._work or ("" if is_set_up else view.message),
            error=error,
            log=tuple(self._log),
            logged=self._logged,
        )
        return (
            _after_its_cluster(view)
            if row is not None and row.state is ClusterState.ENDED
            else view
        )

    def _with_tunnels(self, cluster: ClusterView) -> ClusterView:
        return replace(
            cluster,
            notes=(
                *cluster.notes,
                *self._session.public_words(cluster, self.spec.expose),
                *self._session.tunnel_words(cluster.cluster_id),
                *self._ports,
                *self._set_up,
                *self._session.engine_words(self.run_id),
            ),
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function (soon, on the engine thread) after every change; returns the way to stop that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _changed(self) -> None:
        # Called on the engine thread while it is under way, and on any other before.
        self._session.engine.thread.soon(self._tell)

    def _tell(self) -> None:
        self._session.engine.changed()
        for listener in tuple(self._listeners):
            listener()

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.state.value}>"


def _after_its_cluster(view: RunView) -> RunView:
    """A run whose cluster has ended: what was ready is gone, and the panel of a saved notebook should not say otherwise."""
    reason = view.cluster.reason if view.cluster is not None else ""
    attempts = tuple(
        replace(a, state=AttemptState.GONE) if a.state is AttemptState.READY else a
        for a in view.attempts
    )
    return replace(
        view,
        state=RunState.ENDED,
        message=f"{view.name} has ended: {reason}".rstrip(": "),
        attempts=attempts,
    )
