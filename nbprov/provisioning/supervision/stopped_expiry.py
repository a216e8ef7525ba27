"""`down_after`: ends a cluster that has been stopped for long enough.

Outputs that are on its disk alone are fetched first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from nbprov.model.clock import Instant, Seconds, short_duration, utc_text
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .cluster_work import ClusterWork
from .condition_notes import Topic, short
from .context import SupervisionContext
from .desired_state import DesiredStateKeeper
from .guard_config import guards_known, stopped_until
from .verbs.terminator import Terminator

LEFT_AGAIN: Seconds = 24 * 3600.0
"""Outputs on a stopped disk are reported this often: whoever looks once a day knows the date."""

LEFT = Topic(
    EventKind.OUTPUTS_ON_STOPPED_DISK, None, "its outputs are on its disk alone", is_of_run=True
)


class StoppedExpiry:
    """Ends one cluster that stays stopped for too long. On the engine thread.

    Parameters
    ----------
    start
        Starts the cluster at the price that was agreed to.
    """

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        desired_state: DesiredStateKeeper,
        terminator: Terminator,
        start: Callable[[ClusterRow], Awaitable[None]],
    ) -> None:
        self._context, self._work = context, work
        self._desired_state, self._terminator, self._start = desired_state, terminator, start

    def reconcile(self, row: ClusterRow, guards: Guards) -> None:
        """Report outputs that are left on the disk, and end the cluster when it is due."""
        due, context = stopped_until(guards, row), self._context
        if due is None or row.cluster_id in context.requested:
            return
        teardown = context.hooks.teardown
        has_outputs = teardown is not None and teardown.outputs_left(row)
        is_tried = has_outputs and was_tried(context.ledger, row)
        if has_outputs:
            words = left_words(row, due, is_tried=is_tried)
            context.notes.say(row, LEFT, words, again=LEFT_AGAIN)
        if not self._desired_state.is_reachable(row) or context.clock.now() < due:
            return
        if self._work.is_busy or not self._work.try_lease():
            return
        stopped = short_duration(context.clock.now() - (row.confirmed or 0.0))
        reason = f"it was stopped for {stopped} (down_after)"
        if has_outputs and not is_tried:
            context.requested.add(row.cluster_id)
            self._work.begin(self.fetch_and_end(row, reason))
            return
        if is_tried:
            reason += "; its outputs, which were on its disk alone, went with it"
        # Only what is stopped still: whoever started it a moment ago wants it.
        ending = (row.cluster_id, ClusterState.ENDING, reason)
        move = partial(context.ledger.clusters.move, *ending, was=ClusterState.STOPPED)
        if context.ledger.record(move, True):
            self._work.begin(self._terminator.down(row, reason))

    async def fetch_and_end(self, row: ClusterRow, reason: str) -> None:
        """Start the cluster for its outputs alone, at what was agreed to; then end it.

        A cluster that does not start stays stopped for the same time again.
        """
        ledger, desired_state = self._context.ledger, self._desired_state
        desired_state.is_used_again = False
        try:
            async with self._work.leased():
                await self._start(row)
                now = ledger.clusters.by_id(row.cluster_id)
                # Whoever started it meanwhile joined this start, and other kernels were told that
                # it is in use.
                if now is None or desired_state.is_used_again:
                    return
                if desired_state.ask(now, DesiredState.ENDED, reason):
                    await desired_state.end(now, outputs=True)
        except (CloudError, NbprovError) as error:
            self._keep(row, error)
        finally:
            self._context.requested.discard(row.cluster_id)

    def _keep(self, row: ClusterRow, error: CloudError | NbprovError) -> None:
        ledger = self._context.ledger
        message = error.message if isinstance(error, NbprovError) else error.failure.sentence()
        text = f"not brought: it could not be started for its outputs: {short(message)}"
        ledger.events.add(row.run_id, EventKind.OUTPUTS_START_FAILED, text, row.token)
        # Its time begins anew with this write.
        reason = f"not brought: its outputs; {short(message)}"
        ledger.clusters.move(row.cluster_id, ClusterState.STOPPED, reason, was=ClusterState.STOPPED)
        self._context.changed()


_TRIES = (EventKind.OUTPUTS_START_FAILED, EventKind.CLUSTER_STARTED)


def was_tried(ledger: Ledger, row: ClusterRow) -> bool:
    """Whether a cluster could not be started for its outputs, and did not run since."""
    last = next(
        (e.kind for e in reversed(ledger.events.of_run(row.run_id)) if e.kind in _TRIES), None
    )
    return last is EventKind.OUTPUTS_START_FAILED


def left_note(ledger: Ledger, row: ClusterRow) -> str:
    """What is to be said now of the outputs that are on a stopped cluster's disk alone."""
    guards = guards_known(ledger, row.run_id)
    due = stopped_until(guards, row) if guards is not None else None
    if due is None:
        return (
            f"on its disk alone: %nbprov start {row.name} and %nbprov outputs {row.name} bring them"
        )
    return f"{LEFT.begins}{left_words(row, due, is_tried=was_tried(ledger, row))}"


def left_words(row: ClusterRow, due: Instant, *, is_tried: bool) -> str:
    """What is reported of a stopped cluster's outputs, behind `LEFT.begins`."""
    then = (
        f"they go with it at {utc_text(due)} (down_after), since it could not be started for them"
        if is_tried
        else f"at {utc_text(due)} (down_after) a kernel with nbprov starts it for some minutes to"
        " bring them, and ends it"
    )
    return f": {then}; %nbprov start {row.name} and %nbprov outputs {row.name} bring them before"
