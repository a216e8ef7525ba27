"""Stops a cluster and keeps its disks."""

from __future__ import annotations

import asyncio
from functools import partial

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import LedgerError, NbprovError
from nbprov.model.events import EventKind
from nbprov.model.launches import InstanceState
from nbprov.model.places import Market
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext

from .transition import CannotStop, Transition


class StopUnrecorded(LedgerError):
    """The cluster is stopped, and the ledger cannot say so yet."""

    code = "ledger.stop-unrecorded"


class Stopper:
    """Stops one cluster. On the engine thread unless a method says otherwise."""

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        transition: Transition,
        replacer: NodeReplacer,
    ) -> None:
        self._context, self._work = context, work
        self._transition, self._replacer = transition, replacer

    def check_stop(self, row: ClusterRow) -> None:
        """Raise `CannotStop` where the cluster has no stopped state. Any thread."""
        cloud = self._context.cloud_of(row)
        if not cloud.capabilities.stop:
            raise CannotStop(
                f"{cloud.name} cannot stop a machine",
                hint=f"end it instead: %nbprov down {row.name}",
            )
        if row.candidate.offer.market is Market.SPOT:
            raise CannotStop(
                f"{row.name} is spot, and a stopped spot machine may never come back",
                hint=f"end it: %nbprov down {row.name}",
            )

    def can_stop(self, row: ClusterRow) -> bool:
        """Whether it has a stopped state, as far as that can be told here. Any thread."""
        try:
            self.check_stop(row)
        except NbprovError:
            return False
        return True

    async def stop(self, row: ClusterRow, reason: str) -> None:
        """Stop the cluster; see `ClusterLifecycle.stop`."""
        self.check_stop(row)
        await asyncio.shield(self._work.begin(self._stop(self._context.cloud_of(row), row, reason)))

    async def _stop(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        async with self._work.exclusive(row):
            self._transition.check_replaced(row, InstanceState.STOPPED)
            await self._replacer.undo(cloud, row)
            await self.halt(cloud, row, reason)

    async def halt(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        """Stop the machines and write that down. The caller works on the cluster."""
        context = self._context
        self._transition.check_replaced(row, InstanceState.STOPPED)
        move = partial(context.ledger.clusters.move, row.cluster_id, ClusterState.STOPPING, reason)
        is_written = context.ledger.record(move, None)
        if is_written is False:
            raise self._transition.overtaken(row, InstanceState.STOPPED)
        context.changed()
        await context.connections.forget(row.run_id)
        unwritten = row.state if is_written is None else None
        await self._transition.reach(cloud, row, InstanceState.STOPPED, unwritten=unwritten)
        try:
            with context.ledger.together():
                if unwritten is not None:
                    move()
                if context.ledger.clusters.move(
                    row.cluster_id, ClusterState.STOPPED, reason, was=ClusterState.STOPPING
                ):
                    text = f"stopped: {reason}"
                    kind = EventKind.CLUSTER_STOPPED
                    context.ledger.events.add(row.run_id, kind, text, row.token)
        except LedgerError as error:
            raise StopUnrecorded(
                f"{row.name} is stopped, as its cloud lists it; that could not be written down,"
                f" so %clusters shows it as before: {error.message}",
                hint=f"{error.hint}; the next look at the cloud's list writes it down",
            ) from error
        finally:
            context.changed()
