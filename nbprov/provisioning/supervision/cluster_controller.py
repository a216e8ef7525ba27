"""Supervises one live cluster; composes the parts that do so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import LedgerError
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_connections import NodeConnections
from nbprov.provisioning.replacement.node_loss import NodeLoss
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.runtime.fault_log import log_fault

from .absence_tracker import AbsenceTracker
from .budget_warnings import warn_of_budget
from .cluster_work import ClusterWork
from .context import SupervisionContext
from .desired_state import DesiredStateKeeper
from .guard_config import guards_known
from .guard_enforcement import GuardEnforcer
from .guard_sync import GuardSync
from .listing.cluster_listing import ClusterListing
from .listing.cluster_state import SETTLED
from .listing.listing_comparison import ListingComparison
from .outputs_grace import OutputsGrace
from .price_guard import PriceGuard
from .stopped_expiry import StoppedExpiry
from .verbs.starter import Starter
from .verbs.stopper import Stopper
from .verbs.terminator import Terminator
from .verbs.transition import Transition

log = logging.getLogger("nbprov.lifecycle")


class ClusterController:
    """One live cluster: its tasks, its lease, its outages, and the parts that act on it.

    Its state is of this kernel alone; what all kernels must know is in the ledger. Methods take
    the cluster's row, since the row is a snapshot and the caller's may be the newest. On the
    engine thread.

    Parameters
    ----------
    run_id
        The run that made the cluster.
    watch
        Has clusters looked at regularly.
    observe
        Brings the ledger up to date with a listing of a cloud.
    """

    def __init__(
        self,
        context: SupervisionContext,
        run_id: str,
        *,
        watch: Callable[[], None],
        observe: Callable[[AsyncCloud], Awaitable[None]],
    ) -> None:
        self._context, self._run_id = context, run_id
        self._was_ending = False
        absences = AbsenceTracker()
        work = self.work = ClusterWork(context.ledger, run_id, self._is_driven)
        self._losses = NodeLoss(context, work, absences, run_id)
        self.replacer = NodeReplacer(context, work, self._losses)
        self._node_connections = NodeConnections(context, work)
        self.listing = ClusterListing(context, absences, self._losses, self.replacer)
        self.terminator = Terminator(context, work, self.listing, self.replacer)
        transition = Transition(context, self.listing, watch)
        self.stopper = Stopper(context, work, transition, self.replacer)
        self.guard_sync = GuardSync(context, work)
        self.starter = Starter(
            *(context, work, transition, self.stopper, self.guard_sync),
            watch=watch,
            observe=observe,
        )
        self.desired_state = DesiredStateKeeper(
            context, work, self.listing, self.terminator, self.stopper
        )
        self.outputs_grace = OutputsGrace(context, work)
        self.guard_enforcer = GuardEnforcer(
            *(context, work, self.outputs_grace, self.terminator, self.stopper),
            self.desired_state.is_reachable,
        )
        self.price_guard = PriceGuard(context, work, self.outputs_grace, self.guard_enforcer)
        self.stopped_expiry = StoppedExpiry(
            context, work, self.desired_state, self.terminator, self.start
        )
        self.comparison = ListingComparison(
            *(context, work, self.listing, self._losses, self.replacer, self.terminator),
            *(self.guard_sync, watch),
        )

    def _is_driven(self) -> bool:
        driver = self._context.drivers.get(self._run_id)
        return driver is not None and not driver.failover.finished

    async def start(
        self, row: ClusterRow, spec: Spec | None = None, *, agreed: bool = False
    ) -> None:
        """Start the cluster; see `ClusterLifecycle.start`."""
        await self.starter.start(row, spec, agreed=agreed)

    # ------------------------------------------------------------ a round of the watcher

    def resume(self, row: ClusterRow) -> None:
        """Continue ends that nobody works on, and start guards that do not run yet."""
        is_busy = self.work.is_busy
        is_ending = row.state is ClusterState.ENDING and not is_busy
        # In two rounds: whoever has begun to end it had the time to take the lease.
        if is_ending and self._was_ending and self.work.try_lease():
            self.work.begin(self.terminator.down(row, row.reason))
        self._was_ending = is_ending
        if row.state in SETTLED and not is_busy:
            if row.desired_state is DesiredState.REPLACED and self.work.try_lease():
                self.work.begin(self.terminator.down(row, row.reason))
            else:
                self.desired_state.reconcile(row)
        self.guard_sync.attach(row)

    def reconcile(self, row: ClusterRow) -> None:
        """Look after money, guards and lost machines."""
        for act in (
            self.watch_money,
            self.guard_sync.reconcile,
            self.guard_enforcer.reconcile,
            self.price_guard.reconcile,
            self.replace_nodes,
        ):
            try:
                act(row)
            except LedgerError as error:  # a note that cannot be written keeps no guard back
                log_fault(log, error, "%s: tried again", row.name)

    def watch_money(self, row: ClusterRow) -> None:
        """Warn of a budget that is nearly spent, and end what was stopped for long enough."""
        guards = guards_known(self._context.ledger, row.run_id)
        if guards is not None:
            warn_of_budget(self._context, row, guards)
            self.stopped_expiry.reconcile(row, guards)

    def replace_nodes(self, row: ClusterRow) -> None:
        """Connect to machines that replaced lost ones, and replace those that are missing."""
        if self._losses.is_replaceable(row):
            self._node_connections.reconcile(row)
            self.replacer.reconcile(row)
