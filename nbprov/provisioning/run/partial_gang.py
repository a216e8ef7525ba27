"""A create that made fewer machines than asked for: what it made is held briefly, the rest is asked for again, then all is let go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Accepted, Operation
from nbprov.model.money import format_usd
from nbprov.provisioning.async_cloud import AsyncCloud

from . import events

if TYPE_CHECKING:
    from .attempt_actions import Errands

HOLD_SECONDS: Seconds = 90.0
"""How long part of a gang is paid for in the hope of the rest: machines that others give back come within a minute or two, or in hours."""

SHARE = 0.9
"""Of what is left of the time in which a create must be accepted: the word that it was given up comes before that time is over."""

ASK_EVERY: Seconds = 5.0
"""Between two requests for the rest: a minute of them stays below every cloud's limit of creates."""


async def hold(
    errands: Errands, token: str, cloud: AsyncCloud, operation: Operation, ids: tuple[str, ...]
) -> events.Event:
    """Ask for the missing machines in the same place, with the same token, until all are there or the time is over.

    What the create makes is found by its token whatever becomes of this: each request is committed before it is sent, as the first one was.
    """
    run = errands._run
    row, attempt = run.rows[token], run.machine.attempts[token]
    count, begun = row.candidate.count, run.clock.elapsed()
    end = begun + min(HOLD_SECONDS, SHARE * (attempt.deadline - begun))
    pause = max(cloud.capabilities.poll_every, min(ASK_EVERY, (end - begun) / 10))
    words = f"{len(ids)} of {count} machines were made; they are held for {short_duration(end - begun)} while the rest is asked for"
    await run.books.persist(lambda: run.books.say(attempt, words)())
    while (
        run.clock.elapsed() + pause < end
        and run.machine.may_start
        and not run.machine.is_unwanted(token)
    ):
        await asyncio.sleep(pause)
        await _ask_again(errands, token, cloud)
        result = await errands._poll(cloud, operation)
        if isinstance(result, Accepted):
            ids = result.ids
        await errands._listing(cloud, token)  # writes down from when each one costs
        if len(ids) >= count:
            return events.Polled(token, Accepted(ids))
    held, cost = short_duration(run.clock.elapsed() - begun), run.costs().get(token, 0)
    text = f"{len(ids)} of {count} machines were made, and held for {held} ({format_usd(cost)})"
    return events.Partial(token, ids, Failure(Cause.CAPACITY, text))


async def _ask_again(errands: Errands, token: str, cloud: AsyncCloud) -> None:
    run = errands._run
    row = run.rows[token]
    launch = replace(row.launch, answer_by=run.clock.now() + cloud.capabilities.submit_seconds)
    await run.books.persist(lambda: run.ledger.launches.prolong(token, launch))
    run.rows[token] = replace(row, launch=launch, deadline=launch.answer_by)
    if run.machine.is_unwanted(token):
        return
    try:
        await cloud.submit(errands._filled(token))
    except CloudError as error:
        run.runlog.line(
            f"attempt {run.machine.attempts[token].number}  the rest: {error.failure.sentence()}"
        )
