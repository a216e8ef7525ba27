"""Lists each cloud with live clusters, again and again, and hands each controller its machines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from nbprov.model.clock import Seconds
from nbprov.model.errors import LedgerError, NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.runtime.fault_log import log_fault

from .cluster_controller import ClusterController
from .condition_notes import OUTAGE_AGAIN, UNASKED, unasked_words
from .context import SupervisionContext
from .listing.intervals import MOST_WATCH
from .outages import REFUSALS

log = logging.getLogger("nbprov.lifecycle")

LEAST_WATCH: Seconds = 1.0

POLLS_PER_WATCH = 20
"""Clusters are looked at every 20 poll intervals of their cloud.

That is often enough to show a preemption soon, and seldom enough for any rate limit.
"""


class CloudWatcher:
    """Keeps the ledger in line with the clouds' listings. On the engine thread.

    Parameters
    ----------
    controller_of
        The controller of a cluster.
    keep
        Drops the controllers of all clusters but these.
    """

    def __init__(
        self,
        context: SupervisionContext,
        controller_of: Callable[[ClusterRow], ClusterController],
        keep: Callable[[Collection[str]], None],
    ) -> None:
        self._context, self._controller_of, self._keep = context, controller_of, keep
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Look at live clusters regularly from now on, as long as there are any."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            pause = LEAST_WATCH
            try:
                rows = self._context.ledger.clusters.latest(live_only=True)
                if not rows:
                    self._keep(())
                    return
                pause = await self.round({row.candidate.offer.cloud for row in rows})
            except Exception as error:
                log_fault(log, error, "clusters could not be watched; tried again")
            await asyncio.sleep(pause)

    async def round(self, clouds: set[str]) -> Seconds:
        """List these clouds and have each controller act; the pause until the next round."""
        context = self._context
        pauses = []
        for name in sorted(clouds):
            try:
                cloud = context.clouds(name)
                pause = cloud.capabilities.poll_every * POLLS_PER_WATCH
                pauses.append(min(MOST_WATCH, max(LEAST_WATCH, pause)))
                await self.observe(cloud)
                context.side_objects.now_and_then(name)
            except LedgerError as error:  # that is no silence of its cloud
                log_fault(log, error, "%s cannot be observed now", name)
            except (CloudError, NbprovError) as error:
                log.info("%s cannot be observed now: %s", name, error)
                self._report_outage(name, error)
            except Exception as error:
                log_fault(log, error, "%s could not be observed", name)
                self._report_outage(name, error)
            else:
                self._end_outage(name)
        rows = context.ledger.clusters.latest(live_only=True)
        cluster_ids = {row.cluster_id for row in rows}
        context.notes.keep(cluster_ids)
        context.outages.keep(clouds)
        self._keep(cluster_ids)
        for row in rows:
            self._act(row, self._controller_of(row).resume)
        for row in rows:
            self._act(row, self._controller_of(row).reconcile)
        return min(pauses, default=MOST_WATCH)

    @staticmethod
    def _act(row: ClusterRow, act: Callable[[ClusterRow], None]) -> None:
        """Have a controller act; a fault keeps no other cluster from being looked after."""
        try:
            act(row)
        except Exception as error:
            log_fault(log, error, "%s: could not be looked after; tried again", row.name)

    def _report_outage(self, name: str, error: Exception) -> None:
        """Report a cloud that cannot be listed.

        Nobody sees what becomes of its clusters meanwhile, or can end them.
        """
        context = self._context
        context.outages.failed(name)
        outage = context.outages.of(name)
        is_refusal = isinstance(error, CloudError) and error.failure.cause in REFUSALS
        if outage.failed(context.clock.elapsed(), is_refusal=is_refusal):
            since = context.clock.now() - outage.span
            for row in self._live_on(name):
                words = unasked_words(row, error, since)
                context.notes.say(row, UNASKED, words, again=OUTAGE_AGAIN)

    def _end_outage(self, name: str) -> None:
        self._context.outages.end(name)
        for row in self._live_on(name):
            self._context.notes.over(row, UNASKED)

    def _live_on(self, name: str) -> list[ClusterRow]:
        rows = self._context.ledger.clusters.latest(live_only=True)
        return [row for row in rows if row.candidate.offer.cloud == name]

    async def observe(self, cloud: AsyncCloud) -> None:
        """Bring the ledger up to date with one listing of a cloud.

        Raises
        ------
        CloudError
            If the cloud cannot be listed; then nothing is concluded.
        """
        context, ledger = self._context, self._context.ledger
        before = {row.cluster_id: row.state for row in ledger.clusters.latest(live_only=True)}
        asked = context.clock.elapsed()
        try:
            listed = await cloud.list(ledger.owner)
        except CloudError:
            context.outages.failed(cloud.name)
            raise
        context.outages.listed(cloud.name)
        known_tokens = ledger.launches.known(i.token for i in listed)
        # An address that moved is a change too.
        known = [i for i in listed if i.token in known_tokens]
        changed = ledger.record(lambda: ledger.instances.seen(known), False)
        for row in self._live_on(cloud.name):
            if before.get(row.cluster_id) is row.state:
                machines = [i for i in listed if i.token == row.token]
                comparison = self._controller_of(row).comparison
                try:
                    changed |= await comparison.compare(cloud, row, machines, asked)
                except LedgerError as error:  # that is no silence of its cloud
                    log_fault(log, error, "%s: what its cloud lists", row.name)
        if changed:
            context.changed()
