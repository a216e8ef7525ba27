"""The set-up of clusters: files, Python, setup and run, also on clusters that run already."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context, Proposal
from nbprov.api.errors import readable_error, with_readable_errors
from nbprov.api.operation import Operation
from nbprov.api.spec_inputs import Ask, SpecInputs, collect, read_again
from nbprov.api.uploads import sent_notes
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.events import EventKind
from nbprov.model.money import format_usd
from nbprov.model.spec import DOWN, Spec

from .engines.compute_engines import ComputeEngineService
from .job_archive import JobArchiveService

if TYPE_CHECKING:
    from nbprov.machines.setup.setup_jobs import SetupReport
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.provisioning.live_cluster import LiveCluster

log = logging.getLogger("nbprov.api")

REASON = "it could not be set up"

KEPT_LINES = 500
"""How many lines a set-up keeps for a listener that comes later."""


class SetupEnded(NbprovError):
    """A cluster could not be set up and was ended, as `on_setup_failure: down` asks."""

    code = "setup.failed-down"


def is_wanted(spec: Spec) -> bool:
    """Whether a spec asks for any set-up."""
    return bool(
        spec.workdir or spec.file_mounts or spec.setup or spec.run or spec.python or spec.engine
    )


def is_set_up(ledger: Ledger, run_id: str, spec: Spec) -> bool:
    """Whether a cluster's set-up is complete. What failed is left to do."""
    if not is_wanted(spec):
        return True
    ends = (EventKind.SET_UP, EventKind.SETUP_FAILED)
    last = next(
        (event.kind for event in reversed(ledger.events.of_run(run_id)) if event.kind in ends), None
    )
    if last is not None:
        return last is EventKind.SET_UP
    jobs = {job["kind"]: job["exit_code"] for job in ledger.jobs.of_run(run_id)}
    if jobs.get("setup"):
        return False
    if spec.run:
        return "run" in jobs
    return bool(spec.setup) and spec.engine is None and jobs.get("setup") is not None


class ClusterSetup(Operation):
    """The set-up of a running cluster: its kernel ended first, it failed, or it changed.

    Attributes
    ----------
    message
        What goes on, in a line.
    why
        Why it is done, in a phrase.
    spec, given, folder
        What is done, with which values, and what its paths are relative to.
    notes
        What it sends from this computer, a line each, where a person asked for it.
    """

    def __init__(
        self,
        service: SetupService,
        row: ClusterRow,
        spec: Spec,
        given: SpecInputs,
        folder: str,
        why: str = "",
        again: bool = False,
    ) -> None:
        self.message = self.why = why or "it was never set up"
        self.spec, self.given, self.folder = spec, given, folder
        self.notes: tuple[str, ...] = ()
        self._told: deque[tuple[str, str]] = deque(maxlen=KEPT_LINES)
        self._hear: Callable[[str, str], None] = lambda text, line: None
        self._telling = threading.Lock()
        work = service.bring_up_again(row, spec, given, folder, self._report, again=again)
        super().__init__(service.begin(with_readable_errors(work)), f"setting {row.name} up")

    def _report(self, text: str, line: str = "", /) -> None:
        self.message = text
        with self._telling:
            self._told.append((text, line))
            self._hear(text, line)

    def listen(self, hear: Callable[[str, str], None]) -> None:
        """Call a function with what goes on and, where there is one, its line of the log.

        What was told before comes first, in the caller's thread; the rest on the engine thread.
        """
        with self._telling:
            for text, line in self._told:
                hear(text, line)
            self._hear = hear


class SetupService:
    """Sets clusters up, and decides what becomes of those that could not be set up."""

    def __init__(
        self, context: Context, engines: ComputeEngineService, archive: JobArchiveService
    ) -> None:
        self._context, self._engines, self._archive = context, engines, archive
        self._setups: dict[str, ClusterSetup] = {}

    def of_run(self, run_id: str) -> ClusterSetup | None:
        """The last set-up of a running cluster that this session began."""
        return self._setups.get(run_id)

    def set_up(
        self,
        row: ClusterRow,
        spec: Spec,
        given: SpecInputs,
        folder: str,
        why: str = "",
        *,
        again: bool = False,
    ) -> ClusterSetup:
        """Begin to set a running cluster up. Returns at once.

        Parameters
        ----------
        why
            Why it is done, in a phrase.
        again
            Run setup also where it was done before.
        """
        self._context.set_inputs(row.run_id, given)
        setup = ClusterSetup(self, row, spec, given, folder, why, again)
        self._setups[row.run_id] = setup
        return setup

    def set_up_again(self, row: ClusterRow, ask: Ask) -> ClusterSetup:
        """Set a running cluster up again on request; run only where it was never started.

        It is set up as its cell last said in this kernel, else as it was launched. What that sends
        from this computer is in the notes of the set-up.

        Raises
        ------
        UsageError
            If it does not run, if there is nothing to do, or if a value that only the launch had
            is found nowhere.
        """
        if row.state is not ClusterState.RUNNING:
            raise UsageError(
                f"{row.name} is {row.state.value}",
                hint=f"%nbprov start {row.name} brings a stopped cluster back",
            )
        earlier, run = self._setups.get(row.run_id), self._context.runs.get(row.name)
        if earlier is not None and not earlier.done:
            return earlier
        if run is not None and run.run_id == row.run_id and not run.done:
            raise UsageError(
                f"{row.name} is being set up already",
                hint="its panel shows how far it is",
                code="setup.under-way",
            )
        proposal = self._context.proposed.get(row.run_id)
        if proposal is None:
            proposal = Proposal(*self._context.wished(row.run_id))
        spec, folder = proposal.spec, proposal.folder
        if not is_wanted(spec):
            raise UsageError(
                f"nothing of {row.name} is to be set up",
                hint="its cell names no workdir, file_mounts, python, setup or run",
            )
        known = proposal.given
        if earlier is not None and (earlier.spec, earlier.folder) == (spec, folder):
            known = earlier.given
        given = collect(spec, {}, ask, folder) if known is None else read_again(spec, known, folder)
        notes = sent_notes(spec, given, folder)
        self._context.requested[row.run_id] = spec, folder
        setup = self.set_up(row, spec, given, folder, "set up again, as you asked", again=True)
        setup.notes = notes
        return setup

    def begin(self, work: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
        """Begin a set-up on the engine thread."""
        return self._context.engine.thread.call(work)

    # ------------------------------------------------------------ on the engine thread

    async def bring_up_again(
        self,
        row: ClusterRow,
        spec: Spec,
        given: SpecInputs,
        folder: str,
        report: SetupReport,
        *,
        again: bool,
    ) -> None:
        """Set a running cluster up; raises the error that a person reads."""
        try:
            live = await self._context.engine.attach(row.name)
        except Exception as error:
            raise await self._after_failure(row.run_id, spec, error, report) from None
        await self.bring_up(live, spec, given, folder, report, again=again)

    async def bring_up(
        self,
        live: LiveCluster,
        spec: Spec,
        given: SpecInputs,
        folder: str,
        report: SetupReport,
        *,
        note: Callable[[str], None] | None = None,
        again: bool = False,
    ) -> None:
        """Set a cluster up, with its connections open, and start its compute engine.

        Parameters
        ----------
        note
            Told what is worth keeping; `report` by default.

        Raises
        ------
        SetupFailed
            If a step failed; the cluster is kept.
        SetupEnded
            If a step failed and the cluster was ended, as its spec says.
        """
        from nbprov.machines.setup.cluster_setup import bring_up

        engine, run_id = self._context.engine, live.run_id
        try:
            await bring_up(
                live,
                spec,
                given.everything(),
                folder,
                engine.ledger,
                report,
                home=engine.home,
                note=note,
                python=given.python,
                again=again,
            )
        except Exception as error:
            raise await self._after_failure(run_id, spec, error, report) from None
        words = "files are copied, setup is done, run is started"
        self._record(run_id, EventKind.SET_UP, words, note or report)
        if spec.engine is not None:
            await self._engines.start(live, spec.engine, given.everything, report)

    def _record(self, run_id: str, kind: EventKind, text: str, note: Callable[[str], None]) -> None:
        """Write down how a set-up ended; it ended so whether that can be written or not."""
        ledger = self._context.engine.ledger
        trouble = ledger.trouble_with(partial(ledger.events.add, run_id, kind, text))
        if trouble:
            note(f"how its set-up ended is not written down: {trouble}")

    async def _after_failure(
        self, run_id: str, spec: Spec, error: BaseException, report: SetupReport
    ) -> BaseException:
        """Keep or end the cluster of a failed set-up; the error for the person says which it was.

        With `down` it returns once the logs of its jobs are kept and its cloud lists no machine of
        it any more. A cluster that was set up once is kept in any case: somebody's work may be on
        it, and a slip in a later cell must not end that.
        """
        engine, told = self._context.engine, readable_error(error)
        row = engine.ledger.clusters.of_run(run_id)
        said = told.message if isinstance(told, NbprovError) else f"{type(told).__name__}: {told}"
        self._record(run_id, EventKind.SETUP_FAILED, said.partition("\n")[0], report)
        was_set_up = engine.ledger.events.has(run_id, EventKind.SET_UP)
        if spec.on_setup_failure != DOWN or row is None or was_set_up:
            return told
        report("setting up failed: ending the machines, as on_setup_failure: down asks")
        # Written down first: should this kernel die in between, the next one goes on.
        engine.lifecycle.ask(row, DesiredState.ENDED_WITHOUT_OUTPUTS, REASON)
        try:
            await self._archive.with_logs_kept(row, engine.lifecycle.down(row, REASON))
        except Exception as trouble:
            log.exception("%s: ended after its setup failed", row.name)
            hint = f"its guards are on, and %clusters shows it; %nbprov down {row.name} tries again"
            fate = f"it could not be ended yet: {trouble}"
        else:
            fate, hint = self._ended_words(row)
        ended = SetupEnded(f"{said}\n{row.name}: {fate}", hint=hint)
        ended.__cause__ = told
        return ended

    def _ended_words(self, row: ClusterRow) -> tuple[str, str]:
        ledger = self._context.engine.ledger
        cost = format_usd(ledger.prices.cost(row.run_id))
        if row.candidate.offer.is_simulated:
            cost += " (simulated: you pay $0)"
        logs = (
            f"all of its log: %nbprov logs {row.name}; " if ledger.jobs.of_run(row.run_id) else ""
        )
        return (
            "it was ended, as on_setup_failure: down asks, confirmed by the cloud's list;"
            f" it cost {cost}",
            f"{logs}correct the cell and run it again;"
            " without on_setup_failure: down the machines are kept",
        )
