"""Ends and stops that were asked for and wait for logs and outputs: written down first, so that another kernel goes on should this one die."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow

from .guard_enforcement import BILLED, Enforcing

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

_PENDING = {
    DesiredState.ENDED: "to be ended",
    DesiredState.ENDED_WITHOUT_OUTPUTS: "to be ended without its outputs",
    DesiredState.STOPPED: "to be stopped",
}
"""What a person is told of a cluster whose end or stop has not begun."""

OUTPUTS_SECONDS: Seconds = 3600.0
"""How long a kernel that goes on with an end, in front of which nobody waits, goes on pulling."""

AGAIN_SECONDS: Seconds = 60.0
"""Before this kernel tries again what failed for a reason that nobody foresaw: each try pulls anew."""


class Leaving(Protocol):
    """What a session does before machines go. On the engine thread."""

    async def before_the_end(self, row: ClusterRow, *, outputs: bool = True) -> None:
        """Bring logs and outputs here. Raises an `NbprovError` where the cluster has to be kept for outputs that did not come."""

    async def before_a_stop(self, row: ClusterRow) -> None:
        """Bring logs and outputs here as far as that goes in bounded time; never raises but when cancelled."""

    def outputs_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to bring since it ran."""


def is_leaving(row: ClusterRow) -> bool:
    """Whether a cluster is to be ended or stopped, or another one was put in its place: it needs no more machines."""
    return row.pending is not None or row.desired_state is DesiredState.REPLACED


def reason_words(row: ClusterRow) -> str:
    """A cluster's reason for people: behind what is to become of it, where that has not begun."""
    return row.reason if row.pending is None else f"{_PENDING[row.pending]}: {row.reason}"


def wanted_then(row: ClusterRow, state: ClusterState, told: str) -> tuple[DesiredState, str]:
    """What is wanted of a cluster, and why, once a listing shows it in another state.

    What somebody asked for is not forgotten over a listing; otherwise what the listing shows is taken as wanted.
    """
    # Whoever was to stop it did not; it costs as if nobody had wanted it.
    is_unstopped = row.state is ClusterState.STOPPING and state is ClusterState.RUNNING
    if row.state is ClusterState.ENDING or is_leaving(row) or is_unstopped:
        return row.desired_state, row.reason
    return DesiredState.of(state), told


class Intents(Enforcing):
    """Writes down what is asked for, and goes on with what a kernel that is gone was asked for. On the engine thread where nothing else is said."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked: set[str] = set()
        """Clusters whose end or stop this kernel sees to, their logs and outputs first."""
        self.wanted_again: set[str] = set()
        """Clusters that were used again in this kernel while it was about to end them, before it had written that down."""

    def ask(self, row: ClusterRow, desired: DesiredState, reason: str) -> bool:
        """Write down what is to become of a cluster that runs; whether that stands in the ledger now. Any thread; never raises.

        An end is not made a stop by a later word, nor is that of a cluster in whose place another one was put.
        """
        if row.state not in BILLED:
            return False
        ledger = self._engine.ledger
        try:
            now = ledger.clusters.by_id(row.cluster_id)
            if now is None or now.state not in BILLED:
                return False
            if desired is DesiredState.STOPPED and (
                now.desired_state.is_end or now.desired_state is DesiredState.REPLACED
            ):
                return False
            self.asked.add(row.cluster_id)
            self._try_lease(row.run_id)  # or another kernel would take it up at once
            return ledger.clusters.move(
                row.cluster_id, now.state, reason, desired=desired, was=now.state
            )
        except Exception:  # a disk that is full here must not keep a machine from its end
            log.exception("%s: what was asked for could not be written down", row.name)
            return False

    def is_asked(self, row: ClusterRow, *desired: DesiredState) -> bool:
        """Whether one of these ends or stops is still asked for in the ledger. Any thread."""
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        return now is not None and now.pending in desired

    def take_back(self, row: ClusterRow) -> None:
        """A cluster that was to be ended or stopped is used again, or cannot be. Any thread."""
        ledger = self._engine.ledger
        self.wanted_again.add(row.cluster_id)
        now = ledger.clusters.by_id(row.cluster_id)
        if now is not None and now.pending is not None:
            reason = f"it was to be {'ended' if now.pending.is_end else 'stopped'}, and is kept"
            ledger.clusters.move(
                row.cluster_id, now.state, reason, desired=DesiredState.KEPT, was=now.state
            )

    def _go_on(self, row: ClusterRow) -> None:
        """Take up what the ledger says is to become of a cluster, where no kernel sees to it."""
        settled = (*BILLED, ClusterState.STOPPED)
        if row.pending is None or row.cluster_id in self.asked or row.state not in settled:
            return
        # A cloud that cannot be asked cannot end anything either, and a line that is away tells nothing then.
        if (
            row.candidate.offer.cloud in self._dark
            or row.cluster_id in self._foreign
            or not self._try_lease(row.run_id)
        ):
            return
        self.asked.add(row.cluster_id)
        self._begin(self._go_on_with(row, row.pending))

    async def _go_on_with(self, row: ClusterRow, desired: DesiredState) -> None:
        try:
            async with self.leased(row):
                if desired is DesiredState.STOPPED:
                    await self._go_on_stopping(row)
                else:
                    await self._go_on_ending(row, outputs=desired is DesiredState.ENDED)
        except Exception as error:
            log.warning("%s: %s: %s; tried again", row.name, _PENDING[desired], error)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self.asked.discard(row.cluster_id)

    async def _go_on_ending(self, row: ClusterRow, *, outputs: bool) -> None:
        """Logs and outputs in bounded time, by the rule of every end; then the end, or the cluster is kept under its guards."""
        ledger, leaving = self._engine.ledger, self._engine.leaving
        why = ""
        try:
            if leaving is not None:
                async with asyncio.timeout(OUTPUTS_SECONDS):
                    await leaving.before_the_end(row, outputs=outputs)
        except TimeoutError:
            why = "its outputs did not all come in time"
        except (CloudError, NbprovError) as error:
            why = error.message if isinstance(error, NbprovError) else str(error)
        now = ledger.clusters.by_id(row.cluster_id)
        if now is None or now.pending is None or not now.pending.is_end:
            return  # somebody uses it again, or ends it
        if not why:
            await self.down(now, now.reason)
            return
        kept = f"its end was asked for, and it is kept: {why}"
        ledger.events.add(row.run_id, EventKind.CLUSTER_KEPT, kept, row.token)
        ledger.clusters.move(
            row.cluster_id, now.state, kept, desired=DesiredState.KEPT, was=now.state
        )
        self._engine.changed()

    async def _go_on_stopping(self, row: ClusterRow) -> None:
        from .lifecycle import CannotStop  # which is built on this

        leaving = self._engine.leaving
        if leaving is not None:
            await leaving.before_a_stop(row)
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        if now is None or now.pending is not DesiredState.STOPPED:
            return
        try:
            await self.stop(now, now.reason)
        except CannotStop as error:
            log.warning("%s", error)
            self.take_back(row)
