"""Pulls of clusters' outputs: before an end, before a guard acts, or on request."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.errors import readable_error, with_readable_errors
from nbprov.api.spec_inputs import filled_outputs
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds, utc_text
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.spec import Spec

if TYPE_CHECKING:
    from nbprov.machines.files.output_targets import OutputFolders
    from nbprov.machines.files.outputs import OutputPull
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow, Ledger
    from nbprov.provisioning.live_cluster import LiveCluster

log = logging.getLogger("nbprov.api")

REACH_SECONDS: Seconds = 120.0
"""How long a machine may be silent before its end goes on without its outputs.

A connection that was lost comes back in less. Nobody knows whether the guards of a machine that is
silent for longer work, so to keep it could cost for ever, and its files cannot be had."""
REACH_PAUSE: Seconds = 5.0
"""The pause between two tries to reach a machine."""
CLOUD_SECONDS: Seconds = 45.0
"""How long its cloud is asked before a machine counts as silent: twice the limit of a listing,
since it may have to wait for one that goes on."""
STOP_SECONDS: Seconds = 600.0
"""How long a stop waits for outputs. The disk is kept, so nothing is lost by going on."""
FRESH_SECONDS: Seconds = STOP_SECONDS + 300.0
"""A pull so long before a stop was made for it; an earlier one may lack half of what is there."""
UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class NotReached(NbprovError):
    """The machines of a cluster do not answer."""

    code = "outputs.not-reached"


class OutputService:
    """Pulls the outputs of clusters, one pull a cluster at a time.

    Whoever wants a second pull of a cluster joins the first. Coroutines run on the engine thread.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: dict[str, asyncio.Task[OutputPull]] = {}
        self._views: dict[str, OutputPull] = {}

    @property
    def _engine(self) -> Engine:
        return self._context.engine

    # ------------------------------------------------------------ on request

    def outputs(self, row: ClusterRow, *, keep_names: bool = False) -> Steps[OutputPull]:
        """Pull the spec's `outputs` to this computer now; the machine goes on. Blocks.

        Only what is missing here or was changed there is moved. A file that was changed here is
        left alone, and the machine's comes beside it. A file keeps its name if its ending is one of
        data; every other gets `.pulled` behind its name.

        Parameters
        ----------
        keep_names
            Give these files their own names too, but for the marks of repositories.

        Returns
        -------
        OutputPull
            What came: `files`, `bytes`, and `lines` that say it.

        Raises
        ------
        OutputsNotPulled
            If some could not be pulled.
        NotReached
            If the machines do not answer.
        UsageError
            If the spec names no outputs.
        Interrupted
            On Ctrl-C; the pull goes on in the background.
        """
        try:
            return (yield from result(self.begin_pull(row, keep_names=keep_names)))
        except KeyboardInterrupt:
            raise Interrupted(
                f"the pull of the outputs of {row.name} goes on in the background;"
                " %clusters shows how far it is"
            ) from None

    def begin_pull(
        self, row: ClusterRow, *, keep_names: bool = False
    ) -> concurrent.futures.Future[OutputPull]:
        """Begin a pull of outputs, or join the one that goes on.

        With `keep_names` that is waited for first.

        Raises
        ------
        UsageError
            If the spec names no outputs.
        """
        if not self.wanted(row.run_id):
            raise UsageError(
                f"the spec of {row.name} names no outputs",
                hint="add outputs: [results] to the cell, and run it again",
            )

        async def pulled() -> OutputPull:
            from nbprov.machines.files.outputs import OutputsNotPulled

            taking = await self.take(row)
            if keep_names:
                taking = await self.take(row, keep_names=True)
            if not taking.is_whole:
                raise OutputsNotPulled(
                    f"not all outputs of {row.name} could be pulled: {taking.left_words()}",
                    hint="the machine goes on; fix the problem and pull again to resume",
                )
            return taking

        return self._engine.thread.call(with_readable_errors(pulled()))

    # ------------------------------------------------------------ state

    def view(self, cluster_id: str) -> OutputPull | None:
        """The pull of a cluster that goes on, or the last one. Any thread."""
        return self._views.get(cluster_id)

    def wanted(self, run_id: str) -> bool:
        """Whether a run's spec names outputs. Any thread.

        Also where the spec cannot be read here, and its machines wait for a pull.
        """
        from nbprov.provisioning.supervision.guard_config import hold_known

        return bool(self._context.spec_of(run_id).outputs) or (
            not self._context.can_read_spec(run_id)
            and hold_known(self._engine.ledger, run_id) > 0.0
        )

    def words(self, row: ClusterRow) -> list[str]:
        """What became of a cluster's outputs, in a line; none where there are none. Any thread."""
        if not self.wanted(row.run_id):
            return []
        from nbprov.provisioning.supervision.stopped_expiry import left_note

        task, now = self._tasks.get(row.cluster_id), self._views.get(row.cluster_id)
        if task is not None and not task.done() and now is not None:
            from nbprov.machines.files.folder_sync import size_words

            return [f"outputs: being pulled, {size_words(now.sent)} so far"]
        if self.are_left(row):
            return [f"outputs: {left_note(self._engine.ledger, row)}"]
        told = [
            event
            for event in self._engine.ledger.events.of_run(row.run_id)
            if event.kind is EventKind.OUTPUTS_PULL_ENDED
        ]
        when = utc_text(told[-1].at) if told else ""
        return [f"outputs: {told[-1].text}, {when}"] if told else ["outputs: not pulled yet"]

    # ------------------------------------------------------------ pulls

    async def take(self, row: ClusterRow, *, keep_names: bool = False) -> OutputPull:
        """Pull the outputs of a cluster; `OutputPull.left` has what could not be pulled.

        Raises
        ------
        NotReached
            If its machines do not answer.
        """
        task = self._tasks.get(row.cluster_id)
        if task is None or task.done():
            task = asyncio.create_task(self._take(row, keep_names=keep_names))
            self._tasks[row.cluster_id] = task
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return await asyncio.shield(task)

    async def _take(self, row: ClusterRow, *, keep_names: bool) -> OutputPull:
        from nbprov.machines.files.outputs import OutputPull, pull_outputs
        from nbprov.machines.liveness import LivenessPolicy

        engine = self._engine
        taking = self._views[row.cluster_id] = OutputPull(row.name)
        spec, folders = self._spec(row), self._folders(row)
        try:
            if not self._context.can_read_spec(row.run_id):
                raise NbprovError(
                    "another release wrote its spec, so its outputs are not known here",
                    code="outputs.unknown",
                )
            async with engine.lifecycle.leased(row):
                live = await self._reached(row)
                answers = LivenessPolicy(REACH_SECONDS, lambda: self._can_be_asked(row))
                await pull_outputs(
                    *(live, spec, folders, engine.home, taking, engine.changed, answers),
                    keep_names=keep_names,
                )
            if taking.silent and not taking.left:
                raise NotReached(
                    f"{row.name} fell silent under the pull of its outputs"
                    f"{taking.silent_words()}; {taking.words()} came"
                )
        except asyncio.CancelledError:
            self.note(row, f"the pull was broken off; {taking.words()} came")
            raise
        except NotReached as error:
            self.note(row, f"not pulled: {error.message}")
            raise
        except Exception as error:
            self.note(row, f"not pulled: {type(error).__name__}: {error}")
            raise
        finally:
            taking.is_over = True
        self.note(
            row,
            f"pulled, {taking.words()}"
            if taking.is_whole
            else f"not all pulled: {taking.left_words()}",
        )
        return taking

    def _folders(self, row: ClusterRow) -> OutputFolders:
        """Where its outputs may be written to, as agreed to at its launch."""
        from nbprov.machines.files.output_targets import OutputFolders

        run = self._engine.ledger.runs.get(row.run_id)
        if run is not None and run.outputs_to:
            return OutputFolders(Path(run.folder or "."), Path(run.outputs_to))
        return OutputFolders.agreed(run.folder if run is not None else "", "", row.name)

    async def _reached(self, row: ClusterRow) -> LiveCluster:
        """Its machines, once they answer.

        A lost connection has `REACH_SECONDS` to come back, counted while its cloud answers.
        """
        while True:
            try:
                return await self._reached_once(row)
            except NotReached:
                now = self._engine.ledger.clusters.by_id(row.cluster_id)
                if now is None or now.state not in UP or await self._can_be_asked(row):
                    raise

    async def _can_be_asked(self, row: ClusterRow) -> bool:
        """Whether the cloud of a silent machine answers.

        Otherwise this computer may be offline, and could not end anything either.
        """
        from nbprov.provisioning.supervision.outages import REFUSALS

        lifecycle = self._engine.lifecycle
        try:
            async with asyncio.timeout(CLOUD_SECONDS):
                await lifecycle.observe(self._engine.cloud(row.candidate.offer.cloud))
        except (CloudError, TimeoutError, OSError) as error:
            log.info("%s: silent, and its cloud cannot be asked either: %s", row.name, error)
            # A refused account has nothing to do with the network, and does not pass by itself.
            return isinstance(error, CloudError) and error.failure.cause in REFUSALS
        except NbprovError as error:  # such as a missing adapter: there is nothing to wait for
            log.info("%s: silent, and its cloud cannot be asked: %s", row.name, error)
        return True

    async def _reached_once(self, row: ClusterRow) -> LiveCluster:
        from nbprov.provisioning.live_cluster import agent_of

        engine = self._engine
        last: BaseException | None = None
        try:
            async with asyncio.timeout(REACH_SECONDS):
                while True:
                    # Somebody may have given it another name meanwhile.
                    now = engine.ledger.clusters.by_id(row.cluster_id) or row
                    try:
                        live = await engine.attach(now.name)
                        await agent_of(live.head).status()
                        return live
                    except (CloudError, NbprovError, TimeoutError, OSError) as error:
                        last = error
                        if now.state not in UP:
                            break  # somebody else stopped or ended it
                    await asyncio.sleep(REACH_PAUSE)
        except TimeoutError as error:
            last = last or error
        why = getattr(readable_error(last), "message", "") if last is not None else ""
        why = why or f"no answer within {REACH_SECONDS:g} s"
        told = f"{row.name} cannot be reached for its outputs: {why}"
        hint = (
            f"start it: %nbprov start {row.name}"
            if row.state is ClusterState.STOPPED
            else "%clusters shows its state; try again"
        )
        raise NotReached(told, hint=hint) from last

    def _spec(self, row: ClusterRow) -> Spec:
        inputs = self._context.inputs.get(row.run_id)
        given = inputs.plain() if inputs is not None else {}
        return filled_outputs(self._context.spec_of(row.run_id), given)

    def note(self, row: ClusterRow, text: str) -> None:
        """Write into the ledger what became of a pull. Never raises."""
        try:
            self._engine.ledger.events.add(
                row.run_id, EventKind.OUTPUTS_PULL_ENDED, text, row.token
            )
        except Exception:  # what matters are the files
            log.exception("%s: %s", row.name, text)
        self._engine.changed()

    def was_dropped(self, cluster_id: str) -> bool:
        """Whether the last pull of a cluster was cancelled. On the engine thread."""
        task = self._tasks.get(cluster_id)
        return task is not None and task.cancelled()

    def drop(self, cluster_id: str) -> None:
        """Cancel a pull. On the engine thread."""
        task = self._tasks.get(cluster_id)
        if task is not None:
            task.cancel()

    async def for_guard(self, row: ClusterRow, seconds: Seconds) -> bool:
        """Pull the outputs of a cluster whose guard is due; whether all came in time.

        A pull that a person asked for goes on after that.
        """
        if not self.wanted(row.run_id):
            return True
        joined = self._tasks.get(row.cluster_id)
        is_ours = joined is None or joined.done()
        try:
            async with asyncio.timeout(seconds):
                return (await self.take(row)).is_whole
        except (NotReached, TimeoutError):
            return False
        finally:
            if is_ours:
                self.drop(row.cluster_id)

    def are_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to pull since. Any thread."""
        return (
            row.state is ClusterState.STOPPED
            and self.wanted(row.run_id)
            and not self._was_tried(row)
        )

    def _was_tried(self, row: ClusterRow) -> bool:
        """Whether outputs were pulled, as far as they came, after the last change to them.

        That is at its stop, or after its last work.
        """
        ledger, stopped = self._engine.ledger, None
        for event in reversed(ledger.events.of_run(row.run_id)):
            if event.kind is EventKind.OUTPUTS_PULL_ENDED:
                return stopped is None or stopped - event.at <= FRESH_SECONDS + _idle_before(
                    ledger, row
                )
            if event.kind is EventKind.CLUSTER_STARTED:
                return False
            if event.kind is EventKind.CLUSTER_START_FAILED:
                # The stop before it ended a start that failed: nothing was at work in between.
                stopped = None
            elif event.kind is EventKind.CLUSTER_STOPPED and stopped is None:
                stopped = event.at
        return False


def _idle_before(ledger: Ledger, row: ClusterRow) -> Seconds:
    """How long a cluster was idle before its guards stopped it; 0 where that is not known."""
    from nbprov.provisioning.supervision.guard_config import STOP, guards_known

    guards = guards_known(ledger, row.run_id)
    if (
        guards is None
        or guards.autostop is None
        or (guards.budget is not None and guards.at_limit == STOP)
    ):
        return 0.0
    return guards.autostop.idle
