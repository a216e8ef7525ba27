"""Ends and stops of clusters: job logs and outputs are fetched first, whoever ends the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.operation import Operation
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError
from nbprov.provisioning.supervision.desired_state import reason_words

from .engines.compute_engines import ComputeEngineService
from .job_archive import JobArchiveService
from .outputs import STOP_SECONDS, UP, NotReached, OutputService
from .tunnels import TunnelService

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow

log = logging.getLogger("nbprov.api")


class UsedAgain(NbprovError):
    """A cluster was to be ended or stopped, and somebody wants otherwise meanwhile."""

    code = "cluster.used-again"


class TeardownHooks:
    """Fetches job logs and outputs before a cluster goes; everything runs on the engine thread.

    The engine calls these hooks for the ends and stops that it carries out by itself.
    """

    def __init__(
        self, context: Context, outputs: OutputService, archive: JobArchiveService
    ) -> None:
        self._context, self._outputs, self._archive = context, outputs, archive

    async def before_end(self, row: ClusterRow, *, outputs: bool = True) -> None:
        """Fetch logs and, where asked for, outputs.

        Raises
        ------
        OutputsNotPulled
            If some outputs could not be pulled though the machine answers: the cluster is kept.
        """
        await self._archive.keeper.archive_before_end(row)
        if outputs:
            await self.pull_before_end(row)

    async def before_stop(self, row: ClusterRow) -> None:
        """Fetch logs and outputs, as far as they come in bounded time."""
        await self._archive.keeper.archive_before_end(row)
        await self.pull_before_stop(row)

    def outputs_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to pull since it ran."""
        return self._outputs.are_left(row)

    async def pull_before_end(self, row: ClusterRow) -> None:
        """Pull the outputs of a cluster that is about to be ended, if it has any.

        Raises
        ------
        OutputsNotPulled
            As `before_end`.
        """
        from nbprov.machines.files.outputs import OutputsNotPulled

        if not self._outputs.wanted(row.run_id):
            return
        if row.state in UP:
            await self._pull_all(row)
        elif self._outputs.are_left(row):
            raise OutputsNotPulled(
                f"{row.name} is kept, stopped: its outputs are only on its disk ({row.reason})",
                hint=f"%nbprov start {row.name}, and down again; or end it without them:"
                f" %nbprov down {row.name} --no-outputs",
            )

    async def _pull_all(self, row: ClusterRow) -> None:
        from nbprov.machines.files.outputs import OutputsNotPulled

        try:
            taking = await self._outputs.take(row)
        except NotReached as error:
            words = f"{error.message}; its end goes on without them"
            log.warning("%s", words)
            self._outputs.note(row, words[:400])
            return
        except asyncio.CancelledError:
            if self._outputs.was_dropped(row.cluster_id) and not _is_cancelled():
                return  # somebody asked meanwhile that it be ended at once
            raise
        except Exception as error:
            if self._is_ending(row) or self._is_stopping(row):
                return
            why = (
                error.message
                if isinstance(error, NbprovError)
                else f"{type(error).__name__}: {error}"
            )
            raise OutputsNotPulled(
                f"{row.name} is kept, under its guards: its outputs could not be pulled: {why}",
                hint=_ways(row.name),
            ) from error
        if not taking.is_whole and not self._is_ending(row) and not self._is_stopping(row):
            raise OutputsNotPulled(
                f"{row.name} is kept, under its guards: not all of its outputs could be pulled:"
                f" {taking.left_words()}",
                hint=_ways(row.name),
            )

    def _is_ending(self, row: ClusterRow) -> bool:
        """Whether its guards or another kernel end it anyway: then nothing can be kept."""
        now = self._context.engine.ledger.clusters.by_id(row.cluster_id)
        return now is None or now.state in (ClusterState.ENDING, ClusterState.ENDED)

    def _is_stopping(self, row: ClusterRow) -> bool:
        """Whether another kernel stops it, which fetched its outputs first as far as they came."""
        now = self._context.engine.ledger.clusters.by_id(row.cluster_id)
        return now is not None and now.state in (ClusterState.STOPPING, ClusterState.STOPPED)

    async def pull_before_stop(self, row: ClusterRow) -> None:
        """Pull the outputs of a cluster that is about to be stopped, within `STOP_SECONDS`.

        Never raises: its disk is kept.
        """
        if row.state in UP and self._outputs.wanted(row.run_id):
            try:
                await self._outputs.for_guard(row, STOP_SECONDS)
            except Exception:
                log.exception("%s: its outputs; it is stopped, and its disk kept", row.name)


class TeardownService:
    """Ends and stops clusters that a person asked to end or to stop."""

    def __init__(
        self,
        context: Context,
        hooks: TeardownHooks,
        outputs: OutputService,
        archive: JobArchiveService,
        tunnels: TunnelService,
        engines: ComputeEngineService,
    ) -> None:
        self._context, self._hooks, self._outputs = context, hooks, outputs
        self._archive, self._tunnels, self._engines = archive, tunnels, engines

    def down(self, row: ClusterRow, *, outputs: bool) -> Operation:
        """End a cluster; see `Cluster.down`."""
        lifecycle = self._context.engine.lifecycle
        desired = DesiredState.ENDED if outputs else DesiredState.ENDED_WITHOUT_OUTPUTS
        asked = lifecycle.ask(row, desired, "you ended it")
        return self._begin(row, self._down(row, outputs=outputs, asked=asked), "ending")

    def stop(self, row: ClusterRow) -> Operation:
        """Stop a cluster; see `Cluster.stop`."""
        lifecycle = self._context.engine.lifecycle
        asked = lifecycle.can_stop(row) and lifecycle.ask(
            row, DesiredState.STOPPED, "you stopped it"
        )
        return self._begin(row, self._stop(row, asked=asked), "stopping")

    def _begin(self, row: ClusterRow, work: Coroutine[Any, Any, None], doing: str) -> Operation:
        self._engines.forget_clients(row.cluster_id)
        remarks: list[str] = []
        work = self._archive.with_logs_kept(row, work, remarks.append)
        work = self._tunnels.settled_after(row.cluster_id, work)
        future = self._context.engine.thread.call(with_readable_errors(work))
        return Operation(future, f"{doing} {row.name}", remarks=remarks)

    async def _down(self, row: ClusterRow, *, outputs: bool, asked: bool) -> None:
        """End a cluster after its outputs were pulled; without `outputs` at once.

        Parameters
        ----------
        asked
            Whether the ledger says that it is to be ended. Whoever takes that back keeps it.

        Raises
        ------
        OutputsNotPulled
            If some could not be pulled though the machine answers: it is kept, under its guards.
        UsedAgain
            If somebody uses it again meanwhile.
        """
        from nbprov.machines.files.outputs import OutputsNotPulled

        lifecycle = self._context.engine.lifecycle
        try:
            if outputs:
                await self._hooks.pull_before_end(row)
            else:
                self._outputs.drop(row.cluster_id)
            self._still_wanted(row, asked, DesiredState.ENDED, DesiredState.ENDED_WITHOUT_OUTPUTS)
            await lifecycle.down(row)
        except OutputsNotPulled:
            lifecycle.take_back(row)
            raise

    async def _stop(self, row: ClusterRow, *, asked: bool) -> None:
        """Stop a cluster after its outputs were pulled.

        Raises
        ------
        UsedAgain
            As `_down`; at once if it is to be ended, which no stop takes back.
        """
        lifecycle = self._context.engine.lifecycle
        lifecycle.check_stop(row)
        now = self._context.engine.ledger.clusters.by_id(row.cluster_id)
        if now is not None and now.pending is not None and now.pending.is_end:
            raise _otherwise_wanted(now)
        await self._hooks.pull_before_stop(row)
        self._still_wanted(row, asked, DesiredState.STOPPED)
        await lifecycle.stop(row)

    def _still_wanted(self, row: ClusterRow, asked: bool, *desired: DesiredState) -> None:
        engine = self._context.engine
        now = engine.ledger.clusters.by_id(row.cluster_id)
        if not asked or now is None or now.state not in UP:
            return
        if engine.lifecycle.is_asked(row, *desired):
            return
        if now.pending is DesiredState.STOPPED:
            return  # another notebook stops it: an end is carried out instead
        if now.pending is not None:
            raise _otherwise_wanted(now)
        raise UsedAgain(
            f"{row.name} is used again meanwhile, and goes on",
            hint=f"%nbprov down {row.name} ends it",
        )


def _otherwise_wanted(now: ClusterRow) -> UsedAgain:
    return UsedAgain(
        f"{now.name} is {reason_words(now)}", hint="%clusters shows what becomes of it"
    )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _ways(name: str) -> str:
    return (
        f"fix the problem, then run %nbprov down {name} again to resume;"
        f" or end it now without them: %nbprov down {name} --no-outputs"
    )
