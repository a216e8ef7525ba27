"""Sends the create call of a replacement and finds out what it made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    InstanceState,
    Launch,
    Pending,
    PollResult,
    Refused,
)
from nbprov.model.offers import Candidate
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ReplacementRow
from nbprov.provisioning.run.attempt import WATCH_SECONDS
from nbprov.provisioning.run.pricing.price_check import PriceCheck, TooDear, agreed_for
from nbprov.provisioning.supervision.context import SupervisionContext

from .cluster_machines import MOST_PAUSE, ClusterMachines

SURE = frozenset(
    {
        Cause.CAPACITY,
        Cause.QUOTA,
        Cause.NOT_OFFERED,
        Cause.CREDENTIALS,
        Cause.BALANCE,
        Cause.PERMISSION,
        Cause.BAD_REQUEST,
        Cause.RATE_LIMIT,
        Cause.SPOT,
    }
)
"""Refusals of a create after which surely no machine of it is there.

After any other answer that is looked into first.
"""


class ReplacementCreate:
    """The create call of a replacement; another kernel may continue it. On the engine thread."""

    def __init__(
        self, context: SupervisionContext, cloud: AsyncCloud, machines: ClusterMachines
    ) -> None:
        self._ledger, self._clock = context.ledger, context.clock
        self._keys_folder = context.keys_folder
        self._cloud, self._machines = cloud, machines

    async def decide(self, row: ReplacementRow, *, is_mine: bool) -> str | Failure | None:
        """Send the create where that may be done, and wait until its outcome is known.

        Parameters
        ----------
        is_mine
            This kernel has just written the intent, so nobody has sent the create yet.

        Returns
        -------
        str, Failure or None
            The id of the machine, why it was refused, or None where nothing was made and nothing
            can be made any more.
        """
        cloud, operation = self._cloud, row.operation
        may_send = is_mine or cloud.capabilities.replayable
        pause = cloud.capabilities.poll_every
        while True:
            self._machines.check_wanted()
            asked = self._clock.now()
            if operation is None and may_send and asked < row.deadline:
                sent = await self._send(row, is_mine=is_mine)
                if isinstance(sent, Failure):
                    return sent
                is_mine, may_send, operation = False, cloud.capabilities.replayable, sent
                pause = pause if sent is not None else min(MOST_PAUSE, pause * 2)
            result: PollResult | None = None
            if operation is not None and asked < row.deadline + WATCH_SECONDS:
                result = await self._machines.polled(operation, self._template_values(row).values())
            if isinstance(result, Refused):
                return result.failure
            if isinstance(result, Accepted):
                return self._made(row, result)
            if result is None:
                found = await self._found(row)
                if found or asked > row.deadline + cloud.capabilities.settle:
                    return found
            await asyncio.sleep(pause)

    def _made(self, row: ReplacementRow, result: Accepted) -> str | Failure:
        if len(result.ids) == 1 and result.ids[0] not in self._ledger.launches.ids_of(row.token):
            return result.ids[0]
        return Failure(
            Cause.BAD_REQUEST,
            f"{self._cloud.name} answered with {', '.join(result.ids)} instead of one new machine",
        )

    async def _found(self, row: ReplacementRow) -> str | None:
        """The oldest listed machine that the create may have made."""
        # Read before the listing: what has joined the cluster by then was not made by this.
        ids = self._ledger.launches.ids_of(row.token)
        new = [
            i
            for i in await self._machines.listed()
            if i.id not in ids and i.state is not InstanceState.GONE and i.node == row.node
        ]
        return min(new, key=lambda i: (i.launched_at, i.id)).id if new else None

    async def _send(
        self, row: ReplacementRow, *, is_mine: bool
    ) -> CreateOperation | Failure | None:
        """Send the create, or the identical one again; None where its outcome is not known."""
        cluster = self._ledger.clusters.of_run(row.run_id)
        agreed = agreed_for(self._ledger, cluster) if cluster is not None else 0
        values = self._template_values(row)
        # As the ledger has it: an earlier request may have been booked at another price.
        launch = (self._ledger.replacements.open_one(row.token) or row).launch
        try:
            check = await PriceCheck.ask(self._cloud, launch.candidate, agreed)
            filled = replace(launch, template_values=values)
            operation = await check.submit(filled, partial(self._book, row, launch))
        except TooDear as error:
            # A first create that is not sent makes nothing; of a repeated one the list tells.
            return error.failure if is_mine else None
        except CloudError as error:
            # A refused repeat says nothing of the first one.
            return error.failure if is_mine and error.failure.cause in SURE else None
        self._ledger.replacements.sent(row, operation)
        return operation

    async def _book(self, row: ReplacementRow, launch: Launch, candidate: Candidate) -> None:
        self._ledger.replacements.reprice(row, replace(launch, candidate=candidate))

    def _template_values(self, row: ReplacementRow) -> dict[str, str]:
        from nbprov.remote.boot.user_data import template_values
        from nbprov.remote.ssh.keys import ClusterKeys

        return template_values(ClusterKeys.load(self._keys_folder / row.run_id))

    async def is_decided(self, row: ReplacementRow, known: set[str]) -> bool:
        """Whether a create whose machine is not known can make none any more.

        A machine that it made is added to `known`.
        """
        if row.operation is None or self._clock.now() > row.deadline + WATCH_SECONDS:
            return True
        result = await self._machines.polled(row.operation, self._template_values(row).values())
        if isinstance(result, Accepted):
            known |= set(result.ids) - set(self._ledger.launches.ids_of(row.token))
        return not isinstance(result, Pending)
