"""What a run does between two passes over its places: it rests, and it plans again."""

from __future__ import annotations

import logging

from nbprov.model.clock import short_duration
from nbprov.model.clusters import RunState
from nbprov.planning import put_first
from nbprov.provisioning.run import events
from nbprov.provisioning.run.candidate_queue import UnrankedCandidates
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.exclusions import narrowed

log = logging.getLogger("nbprov.provisioning")


def begin_wait(context: RunContext) -> float | None:
    """Begin the wait for stock; return its end, or None for a run that does not wait."""
    progress = context.progress
    if not progress.wait:
        return None
    until = context.clock.now() + progress.wait
    progress.failover.stock_wait.until = until
    return until


def show_pass(context: RunContext, action: events.Pause | events.BeginPass) -> None:
    """Show that a run rests, or that it begins another pass."""
    progress = context.progress
    if isinstance(action, events.Pause):
        progress.state = RunState.WAITING
        progress.message = "nothing in stock"  # the panel says itself when the next pass begins
        pause = short_duration(action.next_pass - context.clock.now())
        context.runlog.line(f"{progress.message}; tried again in {pause} or sooner")
    else:
        progress.state = RunState.LAUNCHING
        progress.message = f"pass {action.number}: trying the places again"
        context.runlog.line(progress.message)


async def plan_again(context: RunContext) -> None:
    """Plan under the blocks that hold now; where that fails, the rest of the old plan goes on."""
    progress = context.progress
    assert context.replan is not None, "only a run that can is asked to plan again"
    try:
        queue = progress.failover.queue
        spec = narrowed(progress.spec, list(queue.exclusions))
        made = put_first(await context.replan(spec, list(queue.blocks)), progress.preferred)
    except Exception as error:
        log.warning("run %s: could not plan again: %s", context.run_id, error)
        context.runlog.line(f"could not plan again: {error}")
        context.post(events.Replanned(None))
        return
    if made.silent and not len(made.candidates):
        context.runlog.line(f"could not plan again: no answer from {', '.join(made.silent)}")
        context.post(events.Replanned(None))
        return
    if not len(progress.plan.candidates):
        progress.plan = made
    context.post(events.Replanned(UnrankedCandidates(made.candidates)))
