"""The calls that the actions of an attempt share: send its create, poll it, list its machines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, Instance, Pending, PollResult
from nbprov.model.money import SECONDS_PER_HOUR, format_usd
from nbprov.model.offers import Candidate
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.run.attempt_transitions import MOST_HEEDED
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.pricing.price_check import PriceCheck
from nbprov.provisioning.run.run_journal import RunJournal
from nbprov.provisioning.supervision.guard_config import LEAST_BUDGET_SECONDS, check_budget

MOST_PAUSE: Seconds = 10.0
"""The longest pause between two tries of what must not be given up: resolving, and ending."""

LIST, POLL, END = "listing its machines", "asking after its create", "ending its machines"
"""What an attempt was doing when its cloud refused, as panels show it."""


class LaunchRequests:
    """Calls to the cloud of an attempt. On the engine thread."""

    def __init__(self, context: RunContext, journal: RunJournal) -> None:
        self._context, self._journal = context, journal

    async def ask_price(self, cloud: AsyncCloud, candidate: Candidate) -> PriceCheck:
        """Ask what a candidate costs now; needed before each create, also one that is sent again.

        Raises
        ------
        TooDear
            If consent, cap, `confirm_above` or budget forbid to buy it.
        """
        return await PriceCheck.ask(cloud, candidate, self._context.consent, self._check_money)

    def _check_money(self, candidate: Candidate) -> None:
        context, spec = self._context, self._context.progress.spec
        spent, total = context.spent(), spec.confirm_above.total
        least = candidate.hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR
        if total is not None and spent + least > total:
            allowed = f"confirm_above allows {format_usd(total)} in all"
            raise UsageError(f"{format_usd(spent)} are spent, and {allowed}")
        check_budget(spec.guards, candidate, spent=spent)

    async def send(self, token: str, check: PriceCheck) -> CreateOperation:
        """Send the create of a launch, with its key material filled in."""
        launch = self._context.progress.rows[token].launch
        filled = replace(launch, template_values=self._template_values())
        return await check.submit(filled, partial(self._book, token))

    async def _book(self, token: str, candidate: Candidate) -> None:
        context, row = self._context, self._context.progress.rows[token]
        launch = replace(row.launch, candidate=candidate)
        await self._journal.persist(lambda: context.ledger.launches.reprice(token, launch))
        context.progress.rows[token] = replace(row, candidate=candidate, launch=launch)
        context.set_price(token, candidate)

    def _template_values(self) -> dict[str, str]:
        from nbprov.remote.boot.user_data import template_values

        return template_values(self._context.keys)

    async def send_again(self, token: str, cloud: AsyncCloud) -> CreateOperation:
        """Ask the price again, and send the same create again.

        Raises
        ------
        TooDear
            If it costs more now than was agreed to; nothing is sent.
        """
        row = self._context.progress.rows[token]
        return await self.send(token, await self.ask_price(cloud, row.candidate))

    def keep_operation(self, token: str, operation: CreateOperation) -> None:
        """Write down the operation of a create that was sent."""
        rows, ledger = self._context.progress.rows, self._context.ledger
        self._journal.record(lambda: ledger.launches.sent(token, operation))
        rows[token] = replace(rows[token], operation=operation)

    async def poll(self, cloud: AsyncCloud, operation: CreateOperation) -> PollResult:
        """What the cloud says of a create; one that cannot be asked leaves it undecided."""
        try:
            result = await cloud.poll(operation, self._template_values().values())
        except CloudError as error:
            if not is_passing(error.failure):
                self._context.trouble(operation.token, POLL, error.failure)
            return Pending()
        self._context.trouble(operation.token, POLL, None)
        return result

    async def machines(self, token: str, cloud: AsyncCloud) -> list[Instance]:
        """The machines of a launch, by the cloud's list.

        It waits until the cloud answers with the account of the launch: neither silence nor the
        list of another account says that there is no machine.
        """
        context, pause = self._context, cloud.capabilities.poll_every
        while True:
            try:
                listed = await cloud.list(context.ledger.owner)
            except CloudError as error:
                if not is_passing(error.failure):
                    context.trouble(token, LIST, error.failure)
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
                pause = min(MOST_PAUSE, pause * 2)
                continue
            ours = [i for i in listed if i.token == token]
            account = context.progress.rows[token].candidate.account
            if ours or await cloud.is_of(account):
                context.trouble(token, LIST, None)
                context.ledger.record(partial(context.ledger.instances.seen, ours), False)
                return ours
            context.trouble(token, LIST, _other_account(account))
            await asyncio.sleep(pause)
            pause = min(MOST_PAUSE, pause * 2)


def _other_account(account: str) -> Failure:
    return Failure(
        Cause.CREDENTIALS,
        f"the credentials in use are not those of {account}, with which it was launched:"
        " put them back",
        "other-account",
    )
