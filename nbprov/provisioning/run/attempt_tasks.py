"""The asyncio tasks of a run, by attempt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure
from nbprov.provisioning.ledger import LeaseLost
from nbprov.runtime.fault_log import log_fault

from . import events
from .context import RunContext

log = logging.getLogger("nbprov.provisioning")

FAULT_PAUSE: Seconds = 10.0
"""Between a fault of nbprov's own and the next try of work that must not be given up."""


class AttemptTasks:
    """Starts, abandons and stops the tasks of a run. On the engine thread.

    Parameters
    ----------
    on_lease_lost
        Called where a task finds that another kernel holds the run's lease.
    """

    def __init__(self, context: RunContext, on_lease_lost: Callable[[LeaseLost], None]) -> None:
        self._context = context
        self._on_lease_lost = on_lease_lost
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}

    def start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Start work as a task; `key` is the token of its attempt, or a name of its own."""
        task = asyncio.create_task(work)
        self._tasks.setdefault(key, set()).add(task)
        task.add_done_callback(self._tasks[key].discard)

    def start_attempt(self, token: str, work: Coroutine[Any, Any, None]) -> None:
        """Start work on an attempt; an exception of it becomes a failure of the attempt."""
        self.start(token, self._report_failure(token, work))

    def start_until_done(self, token: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Start work that must not be given up, since a machine might stay behind.

        It begins again after a fault of nbprov's own, such as a locked ledger.
        """
        self.start(token, self._repeat(token, work))

    async def _report_failure(self, token: str, work: Coroutine[Any, Any, None]) -> None:
        context = self._context
        try:
            await work
        except LeaseLost as error:
            self._on_lease_lost(error)
        except Exception as error:
            log.exception("run %s: attempt %s", context.run_id, token)
            failure = Failure(Cause.UNKNOWN, f"{type(error).__name__}: {error}")
            if token not in context.progress.rows:  # its intent was never committed
                context.post(events.Withdrawn(token, failure))
            elif context.attempt(token).ids:
                context.post(events.PhaseFailed(token, failure))
            else:
                unknown = replace(failure, cause=Cause.UNKNOWN_OUTCOME)
                context.post(events.SubmitFailed(token, unknown))

    async def _repeat(self, token: str, work: Callable[[str], Awaitable[None]]) -> None:
        while True:
            try:
                await work(token)
            except LeaseLost as error:
                self._on_lease_lost(error)
            except Exception as error:
                log_fault(
                    log, error, "run %s: attempt %s; tried again", self._context.run_id, token
                )
                await asyncio.sleep(FAULT_PAUSE)
                continue
            return

    def abandon(self, token: str) -> None:
        """Cancel the tasks of an attempt."""
        for task in self._tasks.get(token, ()):
            task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = [task for group in self._tasks.values() for task in group]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = {}
