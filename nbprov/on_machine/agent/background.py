"""Background tasks of the event loop."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any, Coroutine

_running: set[Any] = set()


def spawn(work: Coroutine[Any, Any, Any]) -> Any:
    """Start a coroutine, hold on to its task, and print its error if it fails.

    The event loop itself holds its tasks weakly, and shows no error that nobody asks for. Printing
    cannot fail (`log.py`).
    """
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_finish)
    return task


def _finish(task: Any) -> None:
    _running.discard(task)
    if not task.cancelled() and task.exception() is not None:
        error = task.exception()
        traceback.print_exception(type(error), error, error.__traceback__)
