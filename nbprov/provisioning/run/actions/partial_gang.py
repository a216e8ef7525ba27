"""A create that made fewer machines than asked for.

The machines are held for a short time while the missing ones are asked for again; then all are
let go.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Accepted, CreateOperation
from nbprov.model.money import format_usd
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.run import events
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.pricing.price_check import TooDear
from nbprov.provisioning.run.pricing.requote import listed_beyond, listed_prices
from nbprov.provisioning.run.run_journal import RunJournal

from .launch_requests import LaunchRequests

HOLD_SECONDS: Seconds = 90.0
"""How long some machines are paid for while the others are missing.

Machines that other customers give back come within a minute or two, or take hours.
"""

SHARE = 0.9
"""The share of the time left to accept a create that machines may be held for.

So the run learns that they are given up before that time is over.
"""

ASK_EVERY: Seconds = 5.0
"""Between two requests for the missing machines; every cloud's limit of creates allows that."""


class PartialGang:
    """Completes creates that made only some of their machines. On the engine thread."""

    def __init__(self, context: RunContext, journal: RunJournal, requests: LaunchRequests) -> None:
        self._context, self._journal, self._requests = context, journal, requests

    async def complete(
        self, token: str, cloud: AsyncCloud, operation: CreateOperation, ids: tuple[str, ...]
    ) -> events.Event:
        """Ask for the missing machines until all are there or the time is over.

        They are asked for in the same place and with the same token. Each request is committed
        before it is sent, so that what it makes is found by its token, whatever happens.
        """
        context, clock = self._context, self._context.clock
        attempt, begun = context.attempt(token), clock.elapsed()
        count = context.progress.rows[token].candidate.count
        end = begun + min(HOLD_SECONDS, SHARE * (attempt.deadline - begun))
        pause = max(cloud.capabilities.poll_every, min(ASK_EVERY, (end - begun) / 10))
        words = (
            f"{len(ids)} of {count} machines were made; they are held for"
            f" {short_duration(end - begun)} while the rest is asked for"
        )
        self._journal.record(lambda: self._journal.note(attempt, words)())
        while (
            clock.elapsed() + pause < end
            and context.progress.failover.may_start
            and not context.is_unwanted(token)
        ):
            await asyncio.sleep(pause)
            try:
                await self._ask_again(token, cloud)
            except TooDear as error:
                text = f"{len(ids)} of {count} machines were made, and {error.failure.message}"
                return events.Partial(token, ids, Failure(Cause.CANCELLED, text))
            result = await self._requests.poll(cloud, operation)
            if isinstance(result, Accepted):
                ids = result.ids
            # The list is asked for since it writes down from when on each machine costs.
            listed = listed_prices(await self._requests.machines(token, cloud))
            if beyond := listed_beyond(context.attempt(token).candidate, listed, context.consent):
                return events.Partial(token, ids, Failure(Cause.UNHEALTHY, beyond))
            if len(ids) >= count:
                return events.Polled(token, Accepted(ids))
        held, cost = short_duration(clock.elapsed() - begun), context.costs().get(token, 0)
        text = f"{len(ids)} of {count} machines were made, and held for {held} ({format_usd(cost)})"
        return events.Partial(token, ids, Failure(Cause.CAPACITY, text))

    async def _ask_again(self, token: str, cloud: AsyncCloud) -> None:
        context, rows = self._context, self._context.progress.rows
        answer_by = context.clock.now() + cloud.capabilities.submit_seconds
        launch = replace(rows[token].launch, answer_by=answer_by)
        try:
            await self._journal.persist(
                lambda: context.ledger.launches.prolong(token, launch),
                lambda: not context.is_unwanted(token),
            )
        except LedgerError:
            return  # it is given up: nothing more is asked for
        rows[token] = replace(rows[token], launch=launch, deadline=answer_by)
        if context.is_unwanted(token):
            return
        try:
            await self._requests.send_again(token, cloud)
        except TooDear:
            raise
        except CloudError as error:
            context.log_attempt(token, f"the rest: {error.failure.sentence()}")
