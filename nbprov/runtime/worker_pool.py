"""Daemon worker threads for blocking SDK calls, a small pool for each cloud.

The threads of `concurrent.futures` are joined at interpreter exit, so one stuck call would hang a
kernel's shutdown. These threads are not joined.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from nbprov.model.clock import Seconds

T = TypeVar("T")

THREADS_PER_CLOUD = 6
"""Enough for a race of three with a listing each, and few enough that a stuck cloud costs little
memory.
"""


class WorkerPool:
    """A pool of daemon threads that grows on demand up to `most`.

    A call that outlives its deadline keeps its thread. The pool then allows one thread more, so
    that stuck calls never starve the others.
    """

    def __init__(self, name: str, most: int = THREADS_PER_CLOUD) -> None:
        self._name = name
        self._most = most
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Queue a call, and return a future that any thread may wait for."""
        future: Future[T] = Future()
        with self._lock:
            self._queue.put((future, function))
            self._unfinished += 1
            if self._unfinished > self._threads and self._threads < self._most:
                self._threads += 1
                threading.Thread(
                    target=self._main, name=f"nbprov-{self._name}-{self._threads}", daemon=True
                ).start()
        return future

    def _main(self) -> None:
        while True:
            future, function = self._queue.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # the waiter gets whatever was raised
                    future.set_exception(error)
            with self._lock:
                self._unfinished -= 1

    async def run(self, function: Callable[..., T], *args: Any, seconds: Seconds) -> T:
        """Await a blocking call for at most `seconds`.

        Raises
        ------
        TimeoutError
            If the call does not return in time; it may still have its effect later.
        """
        future = self.submit(lambda: function(*args))
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            if not future.done() and not future.cancel():
                with self._lock:
                    self._most += 1
            raise TimeoutError(f"{self._name}: no answer within {seconds:g} s") from None
