"""The machines of one cluster as its cloud lists them, and those that a listing lacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_loss import NodeLoss
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.provisioning.run.attempt_transitions import MOST_HEEDED
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.condition_notes import FOREIGN, OUTAGE_AGAIN, foreign_words
from nbprov.provisioning.supervision.context import SupervisionContext

from .intervals import MOST_WATCH

log = logging.getLogger("nbprov.lifecycle")


class ClusterListing:
    """Tells which machines of a cluster are there, and which are gone. On the engine thread.

    Attributes
    ----------
    is_foreign
        Its machines are not listed, and the credentials in use may be of another account.
    """

    def __init__(
        self,
        context: SupervisionContext,
        absences: AbsenceTracker,
        losses: NodeLoss,
        replacer: NodeReplacer,
    ) -> None:
        self._context, self._absences = context, absences
        self._losses, self._replacer = losses, replacer
        self.is_foreign = False

    def is_missing(self, row: ClusterRow) -> bool:
        """Whether the last listing lacked a machine; that alone does not mean that it is gone."""
        return self._absences.any_of(row.cluster_id)

    def forget(self, row: ClusterRow) -> None:
        """Drop what is known of the machines: the cluster has ended."""
        self._absences.forget(row.cluster_id)

    async def missing(
        self,
        cloud: AsyncCloud,
        row: ClusterRow,
        machines: list[Instance],
        asked: Seconds,
        also: Collection[str] = (),
    ) -> tuple[set[str], set[str]]:
        """The ids that a listing lacks.

        Parameters
        ----------
        asked
            When the listing was asked for.
        also
            Ids that are expected beside those of the ledger.

        Returns
        -------
        tuple
            Ids that are surely gone, and ids of which nothing can be said yet.
        """
        context = self._context
        # A cluster whose ids are not known is missing as a whole or not at all.
        ids = context.ledger.launches.ids_of(row.token) or ((row.token,) if not machines else ())
        expected = (*ids, *also)
        absent = set(expected) - {i.id for i in machines}
        if absent and not await cloud.is_of(row.candidate.account):
            self.is_foreign = True
            context.notes.say(row, FOREIGN, foreign_words(row), again=OUTAGE_AGAIN)
            return set(), absent
        self.is_foreign = False
        context.notes.over(row, FOREIGN)
        return self._absences.look(
            row.cluster_id,
            expected,
            [i.id for i in machines],
            asked=asked,
            answered=context.clock.elapsed(),
            settle=cloud.capabilities.settle,
        )

    async def look(
        self, cloud: AsyncCloud, row: ClusterRow, end: Seconds | None = None
    ) -> tuple[list[Instance], set[str], set[str]]:
        """List the cluster's machines; a listing that fails is repeated until `end`.

        Returns
        -------
        tuple
            The machines, and what `missing` says of those that are not listed.

        Raises
        ------
        CloudError
            If the cloud cannot be listed after `end`.
        """
        clock, ledger = self._context.clock, self._context.ledger
        pause = cloud.capabilities.poll_every
        while True:
            asked = clock.elapsed()
            try:
                listed = await cloud.list(ledger.owner)
            except CloudError as error:
                if end is not None and clock.elapsed() > end:
                    raise
                if not is_passing(error.failure):
                    log.warning("%s: %s", row.name, error.failure.sentence())
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
                pause = min(MOST_WATCH, pause * 2)
            else:
                ours = [i for i in listed if i.token == row.token]
                ledger.record(partial(ledger.instances.seen, ours), False)
                # A machine that was lost may be listed as gone for an hour.
                current = {i.id for i in self._losses.of_cluster(row, ours)}
                ours = [i for i in ours if i.id in current or i.state is not InstanceState.GONE]
                half_made = self._replacer.half_made(row)
                return ours, *await self.missing(cloud, row, ours, asked, half_made)
