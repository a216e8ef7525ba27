"""Send the create of an attempt, and poll it until it is decided."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nbprov.model.clusters import AttemptState
from nbprov.model.errors import LedgerError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Accepted, Pending
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import LaunchRow
from nbprov.provisioning.run import events
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.launch_builder import make_launch
from nbprov.provisioning.run.pricing.price_check import TooDear
from nbprov.provisioning.run.run_journal import RunJournal

from .launch_requests import LaunchRequests
from .partial_gang import PartialGang

UNSENT = Failure(Cause.CANCELLED, "given up before it was sent")


class CreateActions:
    """The creates of a run. On the engine thread."""

    def __init__(self, context: RunContext, journal: RunJournal, requests: LaunchRequests) -> None:
        self._context, self._journal, self._requests = context, journal, requests
        self._partial_gang = PartialGang(context, journal, requests)

    async def submit(self, action: events.Submit) -> None:
        """Ask the price again, commit the intent, send the create."""
        context, token = self._context, action.token
        cloud = context.cloud_of(token)
        try:
            check = await self._requests.ask_price(cloud, action.candidate)
        except TooDear as error:
            context.post(events.Withdrawn(token, error.failure))
            return
        if context.is_unwanted(token):
            context.post(events.Withdrawn(token, UNSENT))
            return
        try:
            await self._journal.persist(
                lambda: self._write_intent(replace(action, candidate=check.candidate), cloud),
                lambda: not context.is_unwanted(token),
            )
        except LedgerError:
            self.withdraw(action)
            return
        if context.is_unwanted(token):  # since the ledger could not be written at once
            context.post(events.SubmitFailed(token, UNSENT))
            return
        try:
            operation = await self._requests.send(token, check)
        except CloudError as error:
            context.post(events.SubmitFailed(token, error.failure))
            return
        finally:
            context.listeners.on_side_objects(cloud.name, False)
        self._requests.keep_operation(token, operation)
        context.post(events.Submitted(token))

    def withdraw(self, action: events.Submit) -> None:
        """Give up a create that was never sent, and whose intent could not be committed."""
        made = events.SubmitFailed if action.again else events.Withdrawn
        self._context.post(made(action.token, UNSENT))

    def _write_intent(self, action: events.Submit, cloud: AsyncCloud) -> None:
        context = self._context
        answer_by = context.clock.now() + cloud.capabilities.submit_seconds
        if action.again:
            row = context.progress.rows[action.token]
            launch = replace(row.launch, candidate=action.candidate, answer_by=answer_by)
            context.ledger.launches.intend_again(action.token, launch)
            context.progress.rows[action.token] = replace(
                row, candidate=action.candidate, launch=launch, deadline=answer_by, operation=None
            )
        else:
            row = self._new_row(action, cloud, answer_by)
            attempt = replace(context.attempt(action.token), candidate=action.candidate)
            self._journal.write_intent(row, attempt, leaves_side_objects=cloud.leaves_side_objects)
        context.set_price(action.token, action.candidate)

    def _new_row(self, action: events.Submit, cloud: AsyncCloud, answer_by: float) -> LaunchRow:
        context, progress = self._context, self._context.progress
        launch = make_launch(
            action.token,
            context.ledger.owner,
            context.run_id,
            progress.name,
            progress.spec,
            action.candidate,
            cloud.capabilities,
            context.keys,
            answer_by=answer_by,
        )
        return LaunchRow(
            token=action.token,
            run_id=context.run_id,
            number=action.number,
            slot=action.slot,
            cloud=cloud.name,
            state=AttemptState.INTENT,
            candidate=action.candidate,
            launch=launch,
            keys=context.keys.fingerprint,
            operation=None,
            ids=(),
            failure=None,
            deadline=answer_by,
            created=context.clock.now(),
            ended=None,
        )

    async def follow(self, token: str) -> None:
        """Poll a create until it is decided."""
        context, row = self._context, self._context.progress.rows[token]
        operation, cloud = row.operation, context.cloud_of(token)
        assert operation is not None, "only a create with a known operation is followed"
        while True:
            result = await self._requests.poll(cloud, operation)
            count = context.progress.rows[token].candidate.count
            if (
                isinstance(result, Accepted)
                and len(result.ids) < count
                and cloud.capabilities.fills
            ):
                gang = self._partial_gang
                context.post(await gang.complete(token, cloud, operation, result.ids))
                return
            if not isinstance(result, Pending):
                context.post(events.Polled(token, result))
                return
            await asyncio.sleep(cloud.capabilities.poll_every)
