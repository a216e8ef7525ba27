"""Blocking waits that Ctrl-C interrupts, and awaits that an interrupt can cancel."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError

from .engine_thread import on_engine_thread

T = TypeVar("T")

SLICE: Seconds = 0.1
"""Length of one slice of a blocking wait.

On Windows a longer wait on a lock does not see Ctrl-C; nobody notices 0.1 s.
"""
AWAIT_SLICE: Seconds = 0.2
"""Length of one slice of an await: a kernel cannot interrupt an await on a bare future before it
ends (ipykernel issue 881).
"""


def wait_for(future: concurrent.futures.Future[T], timeout: Seconds | None = None) -> T:
    """Block until the future is done, in slices short enough to be interrupted.

    Raises
    ------
    TimeoutError
        After `timeout` seconds; the work goes on.
    UsageError
        If called on the engine thread before the result is there: the thread would wait for itself.
    """
    if not future.done() and on_engine_thread():
        raise UsageError(
            "this would wait on the thread that does the work, for ever",
            hint="await it instead, or wait in another thread",
            code="engine.would-deadlock",
        )
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SLICE if end is None else min(SLICE, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"not done within {timeout:g} s; the work goes on")
        done, _ = concurrent.futures.wait([future], timeout=left)
        if done:
            return future.result()


class Waitable(Generic[T]):
    """Work that ends in a `T`: `wait()` blocks until then, `await` does not block.

    It can be awaited in every loop, uvloop included, because it only polls a thread-safe future.
    """

    def __init__(self, future: concurrent.futures.Future[T]) -> None:
        self._future = future

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def wait(self, timeout: Seconds | None = None) -> T:
        """Block until it ends; raises what it ended with, or TimeoutError."""
        return wait_for(self._future, timeout)

    async def _polled(self) -> T:
        future = asyncio.wrap_future(self._future)
        # If the await is cancelled nobody reads this future, and asyncio would report its error
        # as never retrieved.
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        while not future.done():
            await asyncio.wait({future}, timeout=AWAIT_SLICE)
        return future.result()

    def __await__(self) -> Generator[Any, None, T]:
        return self._polled().__await__()
