"""The machines of a cluster while one of them is replaced, and whether that is still wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import CreateOperation, Instance, Pending, PollResult
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.supervision.listing.cluster_state import BILLED, OVER, is_leaving

log = logging.getLogger("nbprov.lifecycle")

MOST_PAUSE: Seconds = 10.0
"""Between two tries of something that must not be given up."""


class Unwanted(Exception):
    """The cluster does not run any more, or is to be ended or stopped.

    What is under way is left to whoever does so.
    """


class ClusterMachines:
    """Lists the machines of one cluster. On the engine thread."""

    def __init__(self, ledger: Ledger, cloud: AsyncCloud, cluster: ClusterRow) -> None:
        self._ledger, self._cloud, self._cluster = ledger, cloud, cluster

    def check_wanted(self) -> None:
        """Raise `Unwanted` where the cluster does not run, or is to be ended or stopped."""
        row = self._ledger.clusters.by_id(self._cluster.cluster_id)
        if row is None or row.state not in BILLED or is_leaving(row):
            raise Unwanted

    def check_not_ended(self) -> None:
        """Raise `Unwanted` where the cluster is being ended, which takes along what is made."""
        row = self._ledger.clusters.by_id(self._cluster.cluster_id)
        if row is None or row.state in OVER:
            raise Unwanted

    async def listed(self, check: Callable[[], None] | None = None) -> list[Instance]:
        """The machines of the cluster's token.

        A listing that fails is repeated, since no answer is not an empty answer.

        Parameters
        ----------
        check
            Raises where the listing is to be given up; `check_wanted` by default.
        """
        pause, token = self._cloud.capabilities.poll_every, self._cluster.token
        while True:
            try:
                ours = [i for i in await self._cloud.list(self._ledger.owner) if i.token == token]
            except CloudError as error:
                if not is_passing(error.failure):
                    log.warning("%s: %s", self._cluster.name, error.failure.sentence())
                (check or self.check_wanted)()
                await asyncio.sleep(pause)
                pause = min(MOST_PAUSE, pause * 2)
            else:
                self._ledger.instances.seen(ours)
                return ours

    async def polled(self, operation: CreateOperation, secrets: Iterable[str]) -> PollResult:
        """What became of a create; no answer decides nothing.

        Parameters
        ----------
        secrets
            Of its start script, which no message may repeat.
        """
        try:
            return await self._cloud.poll(operation, secrets)
        except CloudError:
            return Pending()
