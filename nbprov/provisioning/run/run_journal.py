"""What one run writes down: a change is in the ledger before anything in memory says that it happened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from nbprov.model.clock import Seconds, iso
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import LedgerError
from nbprov.model.money import format_usd
from nbprov.provisioning.ledger import LaunchRow

from . import events
from .attempt import Attempt

if TYPE_CHECKING:
    from .driver import RunDriver

log = logging.getLogger("nbprov.provisioning")

T = TypeVar("T")

PASS = "pass"
"""The event of a run that begins a further pass."""

FIRST_PAUSE: Seconds = 0.2
MOST_PAUSE: Seconds = 5.0
"""Between two tries to write to a ledger that is locked or full."""


class Books:
    """The writing side of a run. On the engine thread."""

    def __init__(self, run: RunDriver) -> None:
        self._run = run

    async def persist(self, write: Callable[[], T]) -> T:
        """Write, and write again after a pause for as long as the ledger is locked or cannot be written (a full disk).

        `write` makes one atomic change; where it raises `LedgerError`, nothing of it happened.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                return write()
            except LedgerError as error:
                log.warning("run %s: %s; tried again", self._run.run_id, error.message)
                if self._run.state in (RunState.LAUNCHING, RunState.CANCELLING):
                    self._run.tell(f"{error.message}; tried again")
                await asyncio.sleep(pause)
                pause = min(MOST_PAUSE, pause * 2)

    def write(self, before: dict[str, AttemptState], actions: list[events.Action]) -> None:
        """Write what one event changed, with one fsync."""
        run = self._run
        after: list[Callable[[], None]] = []
        changed = [
            a
            for a in run.machine.attempts.values()
            if before.get(a.token) is not a.state and a.token in run.rows
        ]
        with run.ledger.together():
            if run.cancel_unwritten:
                run.ledger.runs.request_cancel(run.run_id)
            for attempt in changed:
                self._write_attempt(attempt, after)
            for action in actions:
                self._write_action(action)
        run.cancel_unwritten = False
        for change in after:
            change()

    def _write_action(self, action: events.Action) -> None:
        ledger, run_id = self._run.ledger, self._run.run_id
        match action:
            case events.Remember(block):
                ledger.blocks.remember(block)
            case events.Rest(next_pass):
                ledger.runs.move(
                    run_id, RunState.WAITING, f"waits for stock; next pass at {iso(next_pass)}"
                )
            case events.BeginPass(number):
                ledger.runs.move(run_id, RunState.LAUNCHING, f"pass {number}")
                ledger.events.add(run_id, PASS, f"pass {number}: trying the places again")

    def _write_attempt(self, attempt: Attempt, after: list[Callable[[], None]]) -> None:
        run, token, state = self._run, attempt.token, attempt.state
        if attempt.ids and not run.rows[token].ids:
            row = replace(run.rows[token], ids=attempt.ids)
            run.ledger.launches.accepted(token, attempt.ids)
            run.ledger.blocks.clear(attempt.candidate)
            after.append(lambda: run.rows.__setitem__(token, row))
            after.append(self.say(attempt, "accepted"))
        if state in (
            AttemptState.INTENT,
            AttemptState.SENT,
            AttemptState.ACCEPTED,
            AttemptState.READY,
        ):
            return  # written where they happen: before the create, with its operation, with its ids, at the hand-over
        if attempt.failure is not None and state in (
            AttemptState.REFUSED,
            AttemptState.UNKNOWN,
            AttemptState.ENDING,
            AttemptState.ABSENT,
        ):
            run.ledger.launches.failed(token, attempt.failure, state)
        else:
            run.ledger.launches.move(token, state)
        if state.is_final:
            after.append(lambda: run.end_time(token))
            run.ledger.blocks.free_quota(attempt.candidate) if state is AttemptState.GONE else None
        words = {
            AttemptState.GONE: "ended, confirmed by the cloud's list",
            AttemptState.ABSENT: "nothing was made",
        }.get(state, state.value)
        reason = (
            f": {attempt.failure.sentence()}"
            if attempt.failure is not None and state is not AttemptState.GONE
            else ""
        )
        after.append(self.say(attempt, words + reason))

    def intend(self, row: LaunchRow, attempt: Attempt, *, leaves: bool) -> None:
        """Commit an intent; only then may its create be sent. `leaves` says whether its machines leave anything beside them."""
        run = self._run
        with run.ledger.together():
            run.ledger.launches.intend(row)
            if leaves:
                run.ledger.side_objects.expect(row.cloud, row.token)
            shown = self.say(attempt, f"asked at {format_usd(row.candidate.hourly)}/h")
        run.began(row)
        shown()

    def say(self, attempt: Attempt, words: str) -> Callable[[], None]:
        """Add a line to the run's history. What is returned shows it, once it is committed."""
        run = self._run
        text = f"attempt {attempt.number}  {attempt.candidate.offer.place}  {attempt.candidate.offer.instance_type}  {words}"
        run.ledger.events.add(run.run_id, "attempt", text, attempt.token)

        def show() -> None:
            run.runlog.line(text)
            if run.state is RunState.LAUNCHING:
                run.message = text

        return show
