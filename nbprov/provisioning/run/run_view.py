"""A run as panels show it, and its ledger rows as attempts."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from nbprov.model.clusters import AttemptState, AttemptView, RunView, Waiting
from nbprov.model.failures import Failure
from nbprov.model.money import Micros
from nbprov.provisioning.ledger import LaunchRow

from .attempt import Attempt

if TYPE_CHECKING:
    from .driver import RunDriver

log = logging.getLogger("nbprov.provisioning")

T = TypeVar("T")


def attempts_of(run: RunDriver, costs: Mapping[str, Micros]) -> tuple[AttemptView, ...]:
    """The rows of the panel, oldest first. Copies are read, since any thread may ask while the run goes on."""
    views = []
    for attempt in list(run.machine.attempts.values()):
        begun, ended = run.times.get(attempt.token, (run.clock.now(), None))
        views.append(
            AttemptView(
                number=attempt.number,
                token=attempt.token,
                candidate=attempt.candidate,
                state=attempt.state,
                started=begun,
                ended=ended,
                failure=_shown_failure(run, attempt),
                cost=costs.get(attempt.token, 0),
            )
        )
    return tuple(views)


def view_of(run: RunDriver) -> RunView:
    """A snapshot of a run."""
    costs = run.costs()
    return RunView(
        run_id=run.run_id,
        name=run.name,
        state=run.state,
        plan=run.plan,
        message=run.message,
        attempts=attempts_of(run, costs),
        blocks=tuple(run.machine.places.blocks),
        started=run.started,
        now=run.clock.now(),
        cost=sum(costs.values()),
        error=run.error,
        log_path=str(run.runlog.path),
        race=run.machine.race,
        notes=run.notes,
        waiting=_waiting(run),
    )


def _waiting(run: RunDriver) -> Waiting | None:
    patience = run.machine.patience
    return Waiting(patience.until, patience.next_pass, patience.passes) if patience.until else None


def _shown_failure(run: RunDriver, attempt: Attempt) -> Failure | None:
    """Why an attempt failed, and what its cloud refuses now that its end needs."""
    troubles = [
        (doing, failure)
        for (token, doing), failure in list(run.troubles.items())
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


def attempt_of(row: LaunchRow) -> Attempt:
    """An attempt as the ledger knows it."""
    return Attempt(
        row.token,
        row.candidate,
        row.number,
        row.slot,
        state=row.state,
        failure=row.failure,
        ids=row.ids,
    )


def settle(
    future: concurrent.futures.Future[T],
    result: T | None = None,
    *,
    error: BaseException | None = None,
) -> None:
    """Resolve a future that somebody else may have resolved already."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]
    except concurrent.futures.InvalidStateError:
        log.debug("settled already")
