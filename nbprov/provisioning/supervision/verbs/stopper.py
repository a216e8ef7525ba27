"""Stops a cluster and keeps its disks."""

from __future__ import annotations

import asyncio

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.launches import InstanceState
from nbprov.model.places import Market
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext

from .transition import CannotStop, Transition


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
        if not context.ledger.clusters.move(row.cluster_id, ClusterState.STOPPING, reason):
            raise self._transition.overtaken(row, InstanceState.STOPPED)
        context.changed()
        await context.connections.forget(row.run_id)
        await self._transition.reach(cloud, row, InstanceState.STOPPED)
        with context.ledger.together():
            if context.ledger.clusters.move(
                row.cluster_id, ClusterState.STOPPED, reason, was=ClusterState.STOPPING
            ):
                text = f"stopped: {reason}"
                context.ledger.events.add(row.run_id, EventKind.CLUSTER_STOPPED, text, row.token)
        context.changed()
