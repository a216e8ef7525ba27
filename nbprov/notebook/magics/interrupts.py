"""What Ctrl-C does to a launch, and the line that reports the result."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from nbprov.api import Run, session
from nbprov.model.clusters import RunState
from nbprov.model.errors import Interrupted
from nbprov.notebook.panels.output_line import OutputLine
from nbprov.notebook.rendering.formatting import format_cost


def interrupt_run(run: Run) -> Interrupted:
    """Cancel a run or leave it running, as its `on_interrupt` says; return the error to raise.

    The cancellation goes on in the background, and one line of output reports how it ended.
    """
    is_cancelled = run.cancels_on_interrupt
    error = run.interrupt()
    if not is_cancelled:
        return error
    line = OutputLine(error.message)
    ledger = session().engine.ledger

    def cost() -> str:
        return format_cost(ledger.prices.cost(run.run_id), simulated=run.plan.is_simulated)

    def report(future: Any) -> None:
        line.replace(describe_cancellation(run, future, cost))

    run.settled_future.add_done_callback(report)
    return Interrupted(f"interrupted: {run.name} is being cancelled")


def describe_cancellation(
    run: Run, future: concurrent.futures.Future[RunState], cost: Callable[[], str]
) -> str:
    """Return how a cancelled launch really ended."""
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or error is not None:
        return _unsettled(run, str(error or "the wait for it was cancelled"))
    state = future.result()
    if state is RunState.READY:
        return (
            f"{run.name}: it was ready before it could be cancelled;"
            f" %nbprov down {run.name} terminates it"
        )
    if state not in (RunState.CANCELLED, RunState.FAILED):
        return _unsettled(run, run.view().message or state.value)
    return f"{run.name}: cancelled; all its machines are confirmed gone; it cost {cost()}"


def _unsettled(run: Run, why: str) -> str:
    return f"{run.name}: it may not be gone: {why}; %clusters shows what is left"
