"""Find out whether a create whose answer was lost made machines."""

from __future__ import annotations

import asyncio

from nbprov.model.failures import CloudError
from nbprov.model.launches import Accepted, CreateOperation, Refused
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.run import events
from nbprov.provisioning.run.attempt import WATCH_SECONDS
from nbprov.provisioning.run.attempt_transitions import MOST_HEEDED
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.pricing.price_check import TooDear

from .launch_requests import MOST_PAUSE, LaunchRequests


class OutcomeResolution:
    """Resolves the unknown outcomes of a run. On the engine thread."""

    def __init__(self, context: RunContext, requests: LaunchRequests) -> None:
        self._context, self._requests = context, requests

    async def resolve(self, token: str) -> None:
        """Find out what a create made, and post it."""
        context, cloud = self._context, self._context.cloud_of(token)
        operation = context.progress.rows[token].operation
        may_send = cloud.capabilities.replayable and context.progress.failover.may_start
        if operation is None and may_send:
            operation = await self._send_again(token, cloud)
        if operation is not None:
            ids = await self._poll_until_decided(operation, cloud)
        else:
            ids = await self._ids_listed(token, cloud)
        context.post(events.Resolved(token, ids))

    async def _send_again(self, token: str, cloud: AsyncCloud) -> CreateOperation | None:
        """Send the same create again; a cloud that knows its token names the first operation.

        None once the create cannot or must not be sent any more, or would cost more now than was
        agreed to; then the list decides.
        """
        context, pause = self._context, cloud.capabilities.poll_every
        deadline = context.progress.rows[token].deadline
        while context.clock.now() < deadline and not context.is_unwanted(token):
            try:
                operation = await self._requests.send_again(token, cloud)
            except TooDear as error:
                context.log_attempt(token, f"not sent again: {error.failure.message}")
                return None
            except CloudError as error:
                if not is_passing(error.failure):
                    return None
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
                pause = min(MOST_PAUSE, pause * 2)
            else:
                self._requests.keep_operation(token, operation)
                return operation
        return None

    async def _poll_until_decided(
        self, operation: CreateOperation, cloud: AsyncCloud
    ) -> tuple[str, ...]:
        clock = self._context.clock
        end = clock.elapsed() + WATCH_SECONDS
        while clock.elapsed() < end:
            result = await self._requests.poll(cloud, operation)
            if isinstance(result, Accepted):
                return result.ids
            if isinstance(result, Refused):
                return ()
            await asyncio.sleep(cloud.capabilities.poll_every)
        return await self._ids_listed(operation.token, cloud)

    async def _ids_listed(self, token: str, cloud: AsyncCloud) -> tuple[str, ...]:
        """The ids that a launch made, by the cloud's list.

        Fewer than were asked for count only after the create could no longer appear there.
        """
        row, clock = self._context.progress.rows[token], self._context.clock
        sure_after = row.deadline + cloud.capabilities.settle
        while True:
            asked = clock.now()
            ours = await self._requests.machines(token, cloud)
            if len(ours) >= row.candidate.count or asked > sure_after:
                return tuple(i.id for i in sorted(ours, key=lambda i: (i.node, i.id)))
            await asyncio.sleep(max(cloud.capabilities.poll_every, min(1.0, sure_after - asked)))
