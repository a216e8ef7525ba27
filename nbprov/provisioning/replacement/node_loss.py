"""Detects lost machines of a cluster with a compute engine, and takes them out of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_state import BILLED, GOING, SETTLED

from .node_events import note_once

ASK_AGAIN: Seconds = 300.0
"""A lost machine that is still not gone is asked to end once more after this."""


class NodeLoss:
    """Tells lost machines of one cluster from those that it counts. On the engine thread."""

    def __init__(
        self, context: SupervisionContext, work: ClusterWork, absences: AbsenceTracker, run_id: str
    ) -> None:
        self._context, self._work, self._absences = context, work, absences
        self._run_id = run_id
        self._spec: Spec | None = None
        self._asked_to_end: dict[str, Seconds] = {}

    @property
    def spec(self) -> Spec:
        """The spec of the cluster's run; an empty one where this release cannot read it."""
        if self._spec is None:
            # Loading the parser takes as long as showing a price table, and most clusters lose
            # nothing.
            from nbprov.spec import parse

            run = self._context.ledger.runs.get(self._run_id)
            try:
                self._spec = parse(run.spec) if run is not None else Spec()
            except NbprovError:
                self._spec = Spec()
        return self._spec

    def is_replaceable(self, row: ClusterRow) -> bool:
        """Whether lost machines are replaced: it has an engine, and its cloud can do so."""
        capabilities = self._context.capabilities_of(row)
        return (
            capabilities is not None
            and capabilities.replaces_nodes
            and row.candidate.count > 1
            and self.spec.engine is not None
        )

    def of_cluster(self, row: ClusterRow, machines: list[Instance]) -> list[Instance]:
        """Those of the machines listed under a cluster's token that it counts.

        Call it after the listing: a machine that joined since is one of them.
        """
        if not self.is_replaceable(row):
            return machines
        ids = self._context.ledger.launches.ids_of(row.token)
        return [i for i in machines if i.id in ids] if ids else machines

    def may_lose(self, row: ClusterRow, machines: Sequence[Instance], gone: set[str]) -> bool:
        """Whether the cluster outlives its losses: its head is there, and none ended by itself.

        Parameters
        ----------
        machines, gone
            Those of the cluster that are listed, and ids that are surely missing.
        """
        if row.state not in BILLED or not self.is_replaceable(row):
            return False
        known = self._context.ledger.instances.members(row.token)
        lost = {i.id for i in machines if i.state in GOING} | gone
        if not known or known[0].node != 0 or known[0].id in lost:
            return False
        return not any(i.by_itself for i in (*machines, *known) if i.id in lost)

    def lose(
        self, cloud: AsyncCloud, row: ClusterRow, machines: Sequence[Instance], gone: set[str]
    ) -> bool:
        """Take gone machines out of the cluster; those that are ending are asked to end.

        Returns whether any was taken out.
        """
        self._hurry(cloud, [i.id for i in machines if i.state is InstanceState.ENDING])
        ledger = self._context.ledger
        listed = {i.id: i for i in machines if i.state is InstanceState.GONE}
        members = ledger.instances.members(row.token)
        lost = [listed.get(i.id, i) for i in members if i.id in listed or i.id in gone]
        if not lost:
            return False
        with ledger.together():
            if not ledger.replacements.lose_machines(row.token, lost):
                return False
            ledger.blocks.free_quota(row.candidate)
            text = self._loss_words(row, lost)
            nodes = [i.node for i in lost]
            ledger.events.add(row.run_id, EventKind.NODE_LOST, text, row.token, nodes=nodes)
        for instance in lost:
            self._absences.found(row.cluster_id, instance.id)
        return True

    def _hurry(self, cloud: AsyncCloud, ids: Sequence[str]) -> None:
        now = self._context.clock.elapsed()
        late = [i for i in ids if now - self._asked_to_end.get(i, -ASK_AGAIN) >= ASK_AGAIN]
        if late:
            self._asked_to_end |= dict.fromkeys(late, now)
            self._work.begin(_terminate(cloud, late))

    def _loss_words(self, row: ClusterRow, lost: Sequence[Instance]) -> str:
        names = ", ".join(str(i.node) for i in lost)
        nodes = f"nodes {names} were" if len(lost) > 1 else f"node {names} was"
        reason = next((i.reason for i in lost if i.reason), "")
        reason = reason or "it is not in its cloud's list any more"
        there = len(self._context.ledger.launches.ids_of(row.token))
        return (
            f"{nodes} lost ({reason}):"
            f" {there} of {row.candidate.count} machines work, and another is asked for"
        )

    def end_surplus(self, cloud: AsyncCloud, row: ClusterRow, machines: Sequence[Instance]) -> None:
        """End what is listed under the cluster's token and is none of its machines.

        A create that came late made it. It is looked at again in each round.
        """
        work, ledger = self._work, self._context.ledger
        if row.state not in SETTLED or work.is_replacing or work.is_busy:
            return
        # In this order: a replacement may have joined the cluster since the listing.
        is_open, ids = (
            ledger.replacements.open_one(row.token) is not None,
            ledger.launches.ids_of(row.token),
        )
        surplus = [i.id for i in machines if i.id not in ids and i.state not in GOING]
        if is_open or not ids or not surplus or not work.try_lease():
            return
        text = f"{', '.join(surplus)} was made too late, is none of its machines, and is ended"
        note = partial(note_once, ledger, row, EventKind.NODE_SURPLUS_ENDED, text)
        if ledger.record(partial(note, instances=surplus), False):
            self._context.changed()
        work.begin(_terminate(cloud, surplus))
        work.release()


async def _terminate(cloud: AsyncCloud, ids: list[str]) -> None:
    with contextlib.suppress(CloudError):
        await cloud.terminate(ids)
