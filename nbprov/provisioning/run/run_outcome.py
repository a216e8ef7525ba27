"""How a run ends: the cluster is handed over, the run finishes, or this kernel lets it go."""

from __future__ import annotations

import concurrent.futures
import logging
from typing import TypeVar

from nbprov.model.clusters import RunState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import Failure
from nbprov.provisioning.live_cluster import LiveCluster

from .context import RunContext
from .run_journal import RunJournal
from .run_view import view_of
from .webhook import announce

log = logging.getLogger("nbprov.provisioning")

T = TypeVar("T")


class RunOutcome:
    """Writes and announces the end of a run, and resolves what others wait for.

    Attributes
    ----------
    ready
        Resolved with the live cluster, or with the error that ended the run.
    finished
        Resolved when nothing of the run is pending: every machine beside the cluster is gone.
    """

    def __init__(self, context: RunContext, journal: RunJournal) -> None:
        self._context, self._journal = context, journal
        self.ready: concurrent.futures.Future[LiveCluster] = concurrent.futures.Future()
        self.finished: concurrent.futures.Future[RunState] = concurrent.futures.Future()

    async def hand_over(self, token: str) -> None:
        """Make an attempt the cluster."""
        context = self._context
        await self._journal.persist(lambda: self._write_hand_over(token))
        context.progress.state = RunState.READY
        context.progress.ended = context.clock.now()
        context.end_time(token)
        settle(self.ready, context.progress.clusters[token])
        announce(context)

    def _write_hand_over(self, token: str) -> None:
        context, attempt = self._context, self._context.attempt(token)
        with context.ledger.together():
            context.ledger.clusters.hand_over(
                context.run_id, context.progress.name, context.run_id, token, attempt.candidate
            )
            show = self._journal.note(attempt, "ready")
        show()

    def enter_state(
        self, state: RunState, failure: Failure | None
    ) -> tuple[NbprovError | None, str]:
        """Show the state that a run ends in.

        Returns
        -------
        tuple
            The error where there is no cluster, and the message without the run's name.
        """
        from .unavailable import Unavailable

        progress = self._context.progress
        progress.state = state
        progress.ended = progress.ended or self._context.clock.now()
        if state is RunState.READY:
            return None, progress.message
        error = Unavailable.of(view_of(self._context), failure)
        progress.message = error.message
        progress.error = "\n".join(error.render()) if state is RunState.FAILED else ""
        return error, error.said

    async def finish(self, state: RunState, error: NbprovError | None, message: str) -> None:
        """Write the end of a run and resolve what others wait for."""
        context = self._context
        await self._journal.persist(lambda: self._write_finish(state, message))
        context.runlog.line(f"run {state.value}")
        if state is not RunState.READY:  # a cluster was announced when it was handed over
            announce(context)
        if not self.ready.done():
            self._settle_ready(error)
        for cloud in sorted({row.cloud for row in context.progress.rows.values()}):
            context.listeners.on_side_objects(cloud, True)
        settle(self.finished, state)
        context.changed()

    def _write_finish(self, state: RunState, message: str) -> None:
        ledger, run_id = self._context.ledger, self._context.run_id
        with ledger.together():
            # The hand-over wrote that it is ready, and the cluster may have ended since.
            if state is not RunState.READY:
                ledger.runs.move(run_id, state, message, self._context.progress.error)
            ledger.events.add(
                run_id, EventKind.RUN_FINISHED, f"{state.value}: {message}", state=state.value
            )
            ledger.leases.release(run_id)

    def _settle_ready(self, error: NbprovError | None) -> None:
        progress = self._context.progress
        live = progress.clusters.get(progress.failover.winner or "")
        if error is None and live is not None:
            settle(self.ready, live)
        else:
            unconnected = NbprovError(
                f"{progress.name} is up, and its connections are not",
                hint=f"%%on {progress.name} opens them",
                code="run.left",
            )
            settle(self.ready, error=error or unconnected)


def settle(
    future: concurrent.futures.Future[T],
    result: T | None = None,
    *,
    error: BaseException | None = None,
) -> None:
    """Resolve a future that somebody else may have resolved already."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]
    except concurrent.futures.InvalidStateError:
        log.debug("settled already")
