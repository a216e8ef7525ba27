"""Writes down in the ledger what is to become of a cluster, and carries it out.

An end or a stop waits for logs and outputs. It is written down first, so that another kernel
continues should this one die.
"""

from __future__ import annotations

import asyncio
import logging

from nbprov.model.clock import Seconds
from nbprov.model.clusters import DesiredState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow
from nbprov.runtime.fault_log import log_fault

from .cluster_work import ClusterWork
from .context import SupervisionContext
from .listing.cluster_listing import ClusterListing
from .listing.cluster_state import BILLED, SETTLED
from .verbs.stopper import Stopper
from .verbs.terminator import Terminator
from .verbs.transition import CannotStop

log = logging.getLogger("nbprov.lifecycle")

_PENDING = {
    DesiredState.ENDED: "to be ended",
    DesiredState.ENDED_WITHOUT_OUTPUTS: "to be ended without its outputs",
    DesiredState.STOPPED: "to be stopped",
}
"""What a person is told of a cluster whose end or stop was requested and has not begun."""

OUTPUTS_SECONDS: Seconds = 3600.0
"""How long a kernel pulls outputs when it continues an end for which nobody waits."""

AGAIN_SECONDS: Seconds = 60.0
"""Before this kernel repeats what failed for an unforeseen reason: each try pulls anew."""


def reason_words(row: ClusterRow) -> str:
    """A cluster's reason for people, behind what is to become of it where that has not begun."""
    return row.reason if row.pending is None else f"{_PENDING[row.pending]}: {row.reason}"


class DesiredStateKeeper:
    """Writes down what is to become of one cluster, and continues what another kernel began.

    On the engine thread unless a method says otherwise.
    """

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        listing: ClusterListing,
        terminator: Terminator,
        stopper: Stopper,
    ) -> None:
        self._context, self._work, self._listing = context, work, listing
        self._terminator, self._stopper = terminator, stopper
        self.is_used_again = False
        """Somebody in this kernel used the cluster again while it was about to be ended."""

    def is_reachable(self, row: ClusterRow) -> bool:
        """Whether its cloud shows it to this kernel; otherwise it can neither start nor end."""
        cloud = row.candidate.offer.cloud
        return not self._context.outages.is_out(cloud) and not self._listing.is_foreign

    def ask(self, row: ClusterRow, desired: DesiredState, reason: str) -> bool:
        """Write down what is to become of a running cluster. See `ClusterLifecycle.ask`.

        It may be called from any thread.
        """
        if row.state not in BILLED:
            return False
        ledger = self._context.ledger
        try:
            now = ledger.clusters.by_id(row.cluster_id)
            if now is None or now.state not in BILLED:
                return False
            is_to_end = now.desired_state.is_end or now.desired_state is DesiredState.REPLACED
            if desired is DesiredState.STOPPED and is_to_end:
                return False
            self._context.requested.add(row.cluster_id)
            self._work.try_lease()  # or another kernel would take it up at once
            return ledger.clusters.move(
                row.cluster_id, now.state, reason, desired=desired, was=now.state
            )
        except Exception as error:  # a full disk must not keep a machine from its end
            log_fault(log, error, "%s: what was asked for could not be written down", row.name)
            return False

    def is_asked(self, row: ClusterRow, *desired: DesiredState) -> bool:
        """Whether one of these ends or stops is still requested in the ledger. Any thread."""
        now = self._context.ledger.clusters.by_id(row.cluster_id)
        return now is not None and now.pending in desired

    def take_back(self, row: ClusterRow) -> None:
        """Keep a cluster that was to be ended or stopped. Any thread."""
        ledger = self._context.ledger
        self.is_used_again = True
        now = ledger.clusters.by_id(row.cluster_id)
        if now is not None and now.pending is not None:
            reason = f"it was to be {'ended' if now.pending.is_end else 'stopped'}, and is kept"
            ledger.clusters.move(
                row.cluster_id, now.state, reason, desired=DesiredState.KEPT, was=now.state
            )

    # ------------------------------------------------------------ continuing

    def reconcile(self, row: ClusterRow) -> None:
        """Continue the end or the stop that the ledger has, where no kernel sees to it."""
        requested = self._context.requested
        if row.pending is None or row.cluster_id in requested or row.state not in SETTLED:
            return
        if not self.is_reachable(row) or not self._work.try_lease():
            return
        requested.add(row.cluster_id)
        self._work.begin(self._continue(row, row.pending))

    async def _continue(self, row: ClusterRow, desired: DesiredState) -> None:
        try:
            async with self._work.leased():
                if desired is DesiredState.STOPPED:
                    await self._stop(row)
                else:
                    await self.end(row, outputs=desired is DesiredState.ENDED)
        except Exception as error:
            log.warning("%s: %s: %s; tried again", row.name, _PENDING[desired], error)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._context.requested.discard(row.cluster_id)

    async def end(self, row: ClusterRow, *, outputs: bool) -> None:
        """Fetch logs and outputs in bounded time, and end the cluster.

        A cluster whose outputs cannot be fetched is kept under its guards, as for every end.
        """
        ledger = self._context.ledger
        problem = await self._fetch_outputs(row, outputs=outputs)
        now = ledger.clusters.by_id(row.cluster_id)
        if now is None or now.pending is None or not now.pending.is_end:
            return  # somebody uses it again, or ends it
        if not problem:
            await self._terminator.down(now, now.reason)
            return
        kept = f"its end was asked for, and it is kept: {problem}"
        ledger.events.add(row.run_id, EventKind.CLUSTER_KEPT, kept, row.token)
        ledger.clusters.move(
            row.cluster_id, now.state, kept, desired=DesiredState.KEPT, was=now.state
        )
        self._context.changed()

    async def _fetch_outputs(self, row: ClusterRow, *, outputs: bool) -> str:
        """Why the cluster has to be kept; empty where its outputs are here."""
        teardown = self._context.hooks.teardown
        if teardown is None:
            return ""
        try:
            async with asyncio.timeout(OUTPUTS_SECONDS):
                await teardown.before_end(row, outputs=outputs)
        except TimeoutError:
            return "its outputs did not all come in time"
        except (CloudError, NbprovError) as error:
            return error.message if isinstance(error, NbprovError) else str(error)
        return ""

    async def _stop(self, row: ClusterRow) -> None:
        teardown = self._context.hooks.teardown
        if teardown is not None:
            await teardown.before_stop(row)
        now = self._context.ledger.clusters.by_id(row.cluster_id)
        if now is None or now.pending is not DesiredState.STOPPED:
            return
        try:
            await self._stopper.stop(now, now.reason)
        except CannotStop as error:
            log.warning("%s", error)
            self.take_back(row)
