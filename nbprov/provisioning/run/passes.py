"""What a run does between two passes over its places: rests, looks at blocks, plans again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.errors import LedgerError

from . import events
from .candidate_queue import Unranked

if TYPE_CHECKING:
    from .driver import RunDriver

log = logging.getLogger("nbprov.provisioning")


def begin_wait(run: RunDriver) -> Instant | None:
    """Begin the wait that the spec asks for; until when, or None where it asks for none."""
    if not run.spec.wait.seconds:
        return None
    run.machine.patience.until = run.clock.now() + run.spec.wait.seconds
    return run.machine.patience.until


def looked(run: RunDriver) -> events.Event:
    """The blocks that hold now, as the failover is told of them."""
    try:
        return events.Looked(tuple(run.ledger.blocks.standing()))
    except LedgerError as error:
        log.warning("run %s: %s", run.run_id, error.message)
        return events.Tick()


def change_pass(run: RunDriver, action: events.Rest | events.BeginPass) -> None:
    """Show that a run rests, or that it begins a further pass."""
    if isinstance(action, events.Rest):
        run.state = RunState.WAITING
        run.message = "nothing in stock"  # when it is tried again stands in the view, to the minute
        run.runlog.line(
            f"{run.message}; tried again in {short_duration(action.next_pass - run.clock.now())} or sooner"
        )
    else:
        run.state = RunState.LAUNCHING
        run.message = f"pass {action.number}: trying the places again"
        run.runlog.line(run.message)


async def plan_again(run: RunDriver) -> None:
    """Plan with the blocks that hold now; where that fails, what is left of the old plan goes on."""
    assert run.replan is not None, "only a run that can is asked to plan again"
    try:
        made = await run.replan(run.spec, list(run.machine.places.blocks))
    except Exception as error:
        log.warning("run %s: could not plan again: %s", run.run_id, error)
        run.runlog.line(f"could not plan again: {error}")
        run.post(events.Replanned(None))
        return
    if not len(run.plan.candidates):
        run.plan = made
    run.post(events.Replanned(Unranked(made.candidates)))
