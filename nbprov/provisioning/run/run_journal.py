"""What one run writes to the ledger. The ledger has a change before anything in memory shows it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nbprov.model.clock import utc_text
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.events import EventKind
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate
from nbprov.provisioning.ledger import LaunchRow
from nbprov.runtime.fault_log import log_fault

from . import events
from .actions.held_actions import FIRST_PAUSE, MOST_PAUSE
from .attempt import Attempt
from .context import RunContext

log = logging.getLogger("nbprov.provisioning")

T = TypeVar("T")

WRITTEN_ELSEWHERE = (
    AttemptState.INTENT,
    AttemptState.SENT,
    AttemptState.ACCEPTED,
    AttemptState.READY,
)
"""States that are written where they arise.

That is before the create, with its operation, with its ids, and at the hand-over.
"""

FAILED = (
    AttemptState.REFUSED,
    AttemptState.UNKNOWN,
    AttemptState.ENDING,
    AttemptState.ABSENT,
)
"""States that an attempt is brought to by a failure, which is written with them."""


def _always() -> bool:
    return True


class RunJournal:
    """Writes the changes of one run to the ledger. On the engine thread."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._later: list[Callable[[], object]] = []

    def record(self, write: Callable[[], object]) -> None:
        """Write down what a cloud answered, now or with the next change that can be written.

        The intent is in the ledger: what this kernel cannot write of its answer before it dies,
        the next one asks the cloud for.
        """
        try:
            write()
        except LedgerError:
            self._later.append(write)

    async def persist(self, write: Callable[[], T], is_wanted: Callable[[], bool] = _always) -> T:
        """Write, and try again for as long as the ledger is locked or the disk is full.

        `write` makes one atomic change; where it raises `LedgerError`, nothing was written. That
        error is raised once the change is not wanted any more.
        """
        context, pause = self._context, FIRST_PAUSE
        while True:
            try:
                return write()
            except LedgerError as error:
                if not is_wanted():
                    raise
                log_fault(log, error, "run %s: tried again", context.run_id)
                if context.progress.state in (RunState.LAUNCHING, RunState.CANCELLING):
                    context.show_message(f"{error.message}; tried again")
                await asyncio.sleep(pause)
                pause = min(MOST_PAUSE, pause * 2)

    def write(self, before: dict[str, AttemptState], actions: list[events.Action]) -> None:
        """Write what one event changed in one transaction, which costs one fsync.

        Parameters
        ----------
        before
            The states of the attempts before the event.
        actions
            What follows from the event.
        """
        context, progress = self._context, self._context.progress
        after: list[Callable[[], None]] = []
        changed = [
            a
            for a in progress.failover.attempts.values()
            if before.get(a.token) is not a.state and a.token in progress.rows
        ]
        with context.ledger.together():
            for write in self._later:
                write()
            if progress.is_cancel_unwritten:
                context.ledger.runs.request_cancel(context.run_id)
            for attempt in changed:
                self._write_attempt(attempt, after)
            for action in actions:
                self._write_action(action)
        progress.is_cancel_unwritten = False
        self._later.clear()
        for change in after:
            change()

    def _write_action(self, action: events.Action) -> None:
        ledger, run_id = self._context.ledger, self._context.run_id
        match action:
            case events.StoreBlock(block):
                ledger.blocks.remember(block)
            case events.Pause(next_pass):
                ledger.runs.move(
                    run_id, RunState.WAITING, f"waits for stock; next pass at {utc_text(next_pass)}"
                )
            case events.BeginPass(number):
                ledger.runs.move(run_id, RunState.LAUNCHING, f"pass {number}")
                ledger.events.add(
                    run_id,
                    EventKind.PASS_BEGUN,
                    f"pass {number}: trying the places again",
                    number=number,
                )

    def _write_attempt(self, attempt: Attempt, after: list[Callable[[], None]]) -> None:
        context, token, state = self._context, attempt.token, attempt.state
        rows = context.progress.rows
        if attempt.ids and not rows[token].ids:
            row = replace(rows[token], ids=attempt.ids)
            context.ledger.launches.accepted(token, attempt.ids)
            context.ledger.blocks.clear(attempt.candidate)
            after.append(lambda: rows.__setitem__(token, row))
            after.append(self.note(attempt, "accepted"))
        if state in WRITTEN_ELSEWHERE:
            return
        if attempt.failure is not None and state in FAILED:
            context.ledger.launches.failed(token, attempt.failure, state)
        else:
            context.ledger.launches.move(token, state)
        if state.is_final:
            after.append(lambda: context.end_time(token))
        if state is AttemptState.GONE:
            context.ledger.blocks.free_quota(attempt.candidate)
        after.append(self.note(attempt, _state_words(attempt)))

    def write_intent(self, row: LaunchRow, attempt: Attempt, *, leaves_side_objects: bool) -> None:
        """Commit an intent. Its create may be sent only after that.

        Parameters
        ----------
        leaves_side_objects
            Whether the launch may leave objects beside its machines.
        """
        context = self._context
        with context.ledger.together():
            context.ledger.launches.intend(row)
            if leaves_side_objects:
                context.ledger.side_objects.expect(row.cloud, row.token)
            show = self.note(attempt, _asked_words(row.candidate))
        context.add_row(row)
        context.changed()
        show()

    def note(self, attempt: Attempt, words: str) -> Callable[[], None]:
        """Add a line on an attempt to the run's history.

        Returns
        -------
        Callable
            Shows the line; to be called once it is committed.
        """
        context, offer = self._context, attempt.candidate.offer
        text = f"attempt {attempt.number}  {offer.place}  {offer.instance_type}  {words}"
        context.ledger.events.add(
            context.run_id,
            EventKind.ATTEMPT_CHANGED,
            text,
            attempt.token,
            state=attempt.state.value,
        )

        def show() -> None:
            context.runlog.line(text)
            if context.progress.state is RunState.LAUNCHING:
                context.progress.message = text

        return show


def _asked_words(candidate: Candidate) -> str:
    """The price that is asked for, and where it comes from: a quote of now, or a list's age."""
    offer = candidate.offer
    source = " of ".join(words for words in (offer.source, offer.as_of) if words)
    return f"asked at {format_usd(candidate.hourly)}/h" + (f" ({source})" if source else "")


def _state_words(attempt: Attempt) -> str:
    if attempt.state is AttemptState.GONE:
        return "ended, confirmed by the cloud's list"
    words = "nothing was made" if attempt.state is AttemptState.ABSENT else attempt.state.value
    return words + (f": {attempt.failure.sentence()}" if attempt.failure is not None else "")
