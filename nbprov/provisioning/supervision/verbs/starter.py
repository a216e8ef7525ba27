"""Starts a stopped cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from nbprov.model.clusters import ClusterState
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.pricing.price_check import PriceCheck, TooDear, agreed_for
from nbprov.provisioning.run.pricing.requote import listed_beyond, listed_prices
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.guard_sync import GuardSync
from nbprov.provisioning.supervision.listing.cluster_state import OVER
from nbprov.provisioning.supervision.listing.intervals import CONFIRM_SECONDS, MOST_WATCH
from nbprov.runtime.fault_log import log_fault

from .start_terms import start_terms, too_dear
from .stopper import Stopper
from .transition import CannotStop, Transition

log = logging.getLogger("nbprov.lifecycle")


class Starter:
    """Starts one cluster. On the engine thread.

    Parameters
    ----------
    watch
        Has clusters looked at regularly.
    observe
        Brings the ledger up to date with a listing of a cloud.
    """

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        transition: Transition,
        stopper: Stopper,
        guard_sync: GuardSync,
        *,
        watch: Callable[[], None],
        observe: Callable[[AsyncCloud], Awaitable[None]],
    ) -> None:
        self._context, self._work = context, work
        self._transition, self._stopper, self._guard_sync = transition, stopper, guard_sync
        self._watch, self._observe = watch, observe

    async def start(self, row: ClusterRow, spec: Spec | None, *, agreed: bool) -> None:
        """Start the cluster; see `ClusterLifecycle.start`."""
        cloud = self._context.cloud_of(row)
        await asyncio.shield(self._work.begin(self._start(cloud, row, spec, agreed)))

    async def _start(
        self, cloud: AsyncCloud, row: ClusterRow, spec: Spec | None, agreed: bool
    ) -> None:
        context = self._context
        async with self._work.exclusive(row):
            self._transition.check_replaced(row, InstanceState.RUNNING)
            if await self._runs(cloud, row):
                await context.connections.attach(row.name)
                return
            candidate = row.candidate
            # A start that a kernel left unfinished was agreed to at this price, and its machines
            # may run; those that do not are started only if they do not cost more now.
            if row.state is not ClusterState.STARTING:
                candidate = await start_terms(context.ledger, cloud, row, spec=spec, agreed=agreed)
            reason = "you started it"
            if not context.ledger.clusters.move(row.cluster_id, ClusterState.STARTING, reason):
                raise self._transition.overtaken(row, InstanceState.RUNNING)
            try:
                with context.ledger.together():
                    context.ledger.clusters.reprice(row.cluster_id, candidate)
                    context.ledger.clusters.resume_prices(row.cluster_id)
                context.changed()
                await self._bring_up(cloud, replace(row, candidate=candidate))
            except Exception as error:
                reason = f"its start failed, and it was stopped again: {error}"
                await self._undo(cloud, row, reason)
                raise
            context.ledger.events.add(row.run_id, EventKind.CLUSTER_STARTED, "started", row.token)
        self._guard_sync.is_attach_due = False
        self._watch()
        context.changed()

    async def _bring_up(self, cloud: AsyncCloud, row: ClusterRow) -> None:
        context, agreed = self._context, agreed_for(self._context.ledger, row)

        async def price() -> PriceCheck:
            return await PriceCheck.ask(cloud, row.candidate, agreed)

        try:
            started = await self._transition.reach(cloud, row, InstanceState.RUNNING, price)
        except TooDear as error:
            raise too_dear(row, error.failure.message) from error
        if beyond := listed_beyond(row.candidate, listed_prices(started), agreed):
            raise too_dear(row, beyond)
        # The agent does not survive a stop, and a machine without one has no guards.
        await context.connections.forget(row.run_id)
        await context.connections.attach(row.name)
        if not context.ledger.clusters.move(
            row.cluster_id, ClusterState.RUNNING, "started", was=ClusterState.STARTING
        ):
            self._transition.check_state(row, InstanceState.RUNNING)

    async def _runs(self, cloud: AsyncCloud, row: ClusterRow) -> bool:
        current = self._context.ledger.clusters.of_run(row.run_id)
        if current is None or current.state is not ClusterState.RUNNING:
            return False
        await self._observe(cloud)
        current = self._context.ledger.clusters.of_run(row.run_id)
        return current is not None and current.state is ClusterState.RUNNING

    async def _undo(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        """Stop the machines again, which may run without a guard, until a listing shows it."""
        clock, ledger = self._context.clock, self._context.ledger
        end, pause = clock.elapsed() + CONFIRM_SECONDS, cloud.capabilities.poll_every
        is_noted = False
        while True:
            try:
                current = ledger.clusters.of_run(row.run_id)
                if current is not None and current.state not in (*OVER, ClusterState.STOPPED):
                    if not is_noted:
                        # Whoever looks at the stop that follows must know that nobody used it.
                        kind = EventKind.CLUSTER_START_FAILED
                        add = partial(ledger.events.add, row.run_id, kind, reason, row.token)
                        ledger.record(add, None)
                        is_noted = True
                    await self._stopper.halt(cloud, row, reason)
            except CannotStop as error:
                log.info("%s", error)
            except Exception as error:
                text = "%s: its start failed, and it could not be stopped again"
                log_fault(log, error, text, row.name)
                gone = isinstance(error, CloudError) and error.failure.cause is Cause.NOT_OFFERED
                if not gone and clock.elapsed() < end:
                    await asyncio.sleep(pause)
                    pause = min(MOST_WATCH, pause * 2)
                    continue
            self._watch()  # its rounds find out what is left
            return
