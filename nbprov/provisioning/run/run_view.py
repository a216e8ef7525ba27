"""A run as panels show it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from nbprov.model.clock import Instant
from nbprov.model.clusters import AttemptState, AttemptView, RunState, RunView, Waiting
from nbprov.model.failures import Failure
from nbprov.model.money import Micros

from .attempt import Attempt
from .context import RunContext


def view_of(context: RunContext) -> RunView:
    """A snapshot of a run. Any thread may call it."""
    progress, costs = context.progress, context.costs()
    stock_wait = progress.failover.stock_wait
    now, is_launching = context.clock.now(), progress.state is RunState.LAUNCHING
    waiting = Waiting(stock_wait.until, stock_wait.next_pass, stock_wait.passes)
    return RunView(
        run_id=context.run_id,
        name=progress.name,
        state=progress.state,
        plan=progress.plan,
        message=progress.message,
        attempts=_attempt_views(context, costs),
        blocks=tuple(progress.failover.queue.blocks),
        started=progress.started,
        ended=progress.ended,
        now=now,
        following=progress.failover.queue.following(now) if is_launching else None,
        cost=sum(costs.values()),
        error=progress.error,
        log_path=str(context.runlog.path),
        race=progress.failover.race,
        notes=progress.notes,
        waiting=waiting if stock_wait.until else None,
    )


def _attempt_views(context: RunContext, costs: Mapping[str, Micros]) -> tuple[AttemptView, ...]:
    """The attempts, oldest first."""
    progress, phases, views = context.progress, context.phases(), []
    # The attempts are copied, since the engine thread may add one meanwhile.
    for attempt in list(progress.failover.attempts.values()):
        begun, ended = progress.times.get(attempt.token, (context.clock.now(), None))
        views.append(
            AttemptView(
                number=attempt.number,
                token=attempt.token,
                candidate=attempt.candidate,
                state=attempt.state,
                started=begun,
                ended=ended,
                failure=_shown_failure(context, attempt),
                cost=costs.get(attempt.token, 0),
                phases=phases.get(attempt.token, ()),
                cut_off=_cut_off(context, attempt),
                usual=progress.usual_ready.get(attempt.candidate.offer.cloud),
            )
        )
    return tuple(views)


def _cut_off(context: RunContext, attempt: Attempt) -> Instant | None:
    """When the present phase of an attempt is given up, in whole seconds."""
    if attempt.is_over or math.isinf(attempt.deadline):
        return None
    return round(context.clock.now() + attempt.deadline - context.clock.elapsed())


def _shown_failure(context: RunContext, attempt: Attempt) -> Failure | None:
    """Why an attempt failed, together with the request that its cloud refuses now."""
    troubles = [
        (doing, failure)
        for (token, doing), failure in list(context.progress.troubles.items())
        if token == attempt.token
    ]
    if not troubles or attempt.state.is_final or attempt.state is AttemptState.READY:
        return attempt.failure
    doing, trouble = troubles[-1]
    if attempt.failure is None:
        return replace(trouble, message=f"{doing} fails: {trouble.message}")
    first = attempt.failure.message.strip().splitlines()[:1]
    return replace(
        attempt.failure, message="; ".join([*first, f"{doing} fails: {trouble.sentence()}"])
    )
