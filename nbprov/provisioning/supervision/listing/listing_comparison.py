"""Compares one cluster in the ledger with a listing of its cloud, and acts on the difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.events import EventKind
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_loss import NodeLoss
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.guard_sync import GuardSync
from nbprov.provisioning.supervision.verbs.terminator import Terminator

from .cluster_listing import ClusterListing
from .cluster_state import (
    GOING,
    SETTLED,
    incomplete_words,
    is_incomplete,
    reason_of,
    state_of,
    wanted_then,
)
from .intervals import CONFIRM_SECONDS

_LISTED = {
    ClusterState.RUNNING: EventKind.CLUSTER_LISTED_RUNNING,
    ClusterState.STOPPED: EventKind.CLUSTER_STOPPED,
    ClusterState.ENDED: EventKind.CLUSTER_ENDED,
    ClusterState.UNKNOWN: EventKind.CLUSTER_LISTED_UNKNOWN,
}
"""The event of a cluster that a listing shows in another state."""


@dataclass(frozen=True, slots=True)
class ListingComparison:
    """Compares one cluster with listings. On the engine thread.

    Attributes
    ----------
    watch
        Has clusters looked at regularly.
    """

    context: SupervisionContext
    work: ClusterWork
    listing: ClusterListing
    losses: NodeLoss
    replacer: NodeReplacer
    terminator: Terminator
    guard_sync: GuardSync
    watch: Callable[[], None]

    async def compare(
        self, cloud: AsyncCloud, row: ClusterRow, listed: list[Instance], asked: Seconds
    ) -> bool:
        """Bring the cluster's row up to date with the machines listed under its token.

        Returns whether anything changed. What has to be ended is ended in the background.
        """
        machines = self.losses.of_cluster(row, listed)
        if machines is not listed:
            self.losses.end_surplus(cloud, row, listed)
        if not self.work.is_busy and self.losses.may_lose(row, machines, set()):
            gone, _ = await self.listing.missing(cloud, row, machines, asked)
            is_lost = bool(gone) or any(i.state in GOING for i in machines)
            if is_lost and self.losses.may_lose(row, machines, gone):
                return self._lose(cloud, row, machines, gone)
        if self._end_with(row, machines):
            return False
        gone, unsure = await self.listing.missing(cloud, row, machines, asked)
        if self._end_incomplete(row, machines, gone) or unsure:
            return False
        state = state_of([*(i.state for i in machines), *(InstanceState.GONE for _ in gone)])
        if state is None or state is row.state or not self._is_news(row, state):
            return False
        listed_words = (
            "its machines are gone from the cloud's list"
            if state is ClusterState.ENDED
            else f"its cloud lists it as {state.value}"
        )
        return await self._set(
            row, state, *wanted_then(row, state, reason_of(machines) or listed_words)
        )

    def _lose(
        self, cloud: AsyncCloud, row: ClusterRow, machines: list[Instance], gone: set[str]
    ) -> bool:
        is_changed = self.losses.lose(cloud, row, machines, gone)
        if is_changed:
            self.replacer.lost()
        return is_changed

    def _end_with(self, row: ClusterRow, machines: list[Instance]) -> bool:
        """End the cluster where one of its machines is ending; whether that was begun.

        A machine powered itself off, or its cloud takes it back. The end is confirmed at once,
        with the reason that a later listing may not give any more.
        """
        ending = [i for i in machines if i.state is InstanceState.ENDING]
        if not ending or row.state is ClusterState.ENDING:
            return False
        if self.terminator.is_ending or self.work.is_busy:
            return False
        reason = reason_of(ending) or "its cloud ends it"
        if is_incomplete(machines, set()):
            reason = incomplete_words(reason)
        self.work.begin(self.terminator.down(row, reason))
        return True

    def _end_incomplete(self, row: ClusterRow, machines: list[Instance], gone: set[str]) -> bool:
        """End a gang that lacks machines which are not replaced; whether that was begun."""
        if row.state is ClusterState.ENDING or not is_incomplete(machines, gone):
            return False
        if self.work.is_busy and self.losses.may_lose(row, machines, gone):
            return False
        reason = reason_of([i for i in machines if i.state in GOING])
        reason = incomplete_words(reason or "it is not in its cloud's list any more")
        self.work.begin(self.terminator.down(row, reason))
        return True

    async def _set(
        self, row: ClusterRow, state: ClusterState, desired: DesiredState, reason: str
    ) -> bool:
        context, ledger = self.context, self.context.ledger
        with ledger.together():
            if not ledger.clusters.move(
                row.cluster_id, state, reason, desired=desired, was=row.state
            ):
                return False
            if state is ClusterState.ENDED:
                ledger.blocks.free_quota(row.candidate)
            if state is ClusterState.RUNNING:
                ledger.clusters.resume_prices(row.cluster_id)
            ledger.events.add(row.run_id, _LISTED[state], f"{state.value}: {reason}", row.token)
        # An unknown state is no reason to close connections that work, nor is its end.
        if not {state, row.state} <= {ClusterState.UNKNOWN, ClusterState.RUNNING}:
            await context.connections.forget(row.run_id)
        if state is ClusterState.ENDED:
            self.listing.forget(row)
            context.side_objects.soon(row.candidate.offer.cloud)
        if state is ClusterState.RUNNING:
            self.guard_sync.is_attach_due = True
            self.watch()
        return True

    def _is_news(self, row: ClusterRow, state: ClusterState) -> bool:
        """Whether a listing overrules the ledger.

        Where a kernel is at work on the cluster, only its goal, its end, or a long silence does.
        """
        if row.state is ClusterState.ENDING or self.work.is_busy:
            return state is ClusterState.ENDED and not self.terminator.is_ending
        if row.state in SETTLED:
            return True
        # A start has reached its goal when the agent runs, which no listing tells.
        goal = {
            ClusterState.STOPPING: ClusterState.STOPPED,
            ClusterState.STARTING: ClusterState.ENDED,
        }.get(row.state)
        silence = self.context.clock.now() - (row.confirmed or row.started)
        is_reached = state in (goal, ClusterState.ENDED)
        return goal is not None and (is_reached or silence > CONFIRM_SECONDS)
