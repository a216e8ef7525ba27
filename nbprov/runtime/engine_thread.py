"""The engine thread: one daemon thread with one asyncio loop, so that a busy or nested user loop never matters."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SECONDS = 2.0
"""How long a stop waits for the thread: a kernel shutdown gives about 2.5 s in all."""


_here = threading.local()


def on_engine_thread() -> bool:
    """Whether the caller runs on an engine thread, where to wait is to wait for oneself."""
    return getattr(_here, "is_engine", False)


class EngineThread:
    """A daemon thread that runs an asyncio loop of its own.

    Examples
    --------
    >>> import asyncio
    >>> thread = EngineThread()
    >>> thread.call(asyncio.sleep(0, "done")).result(5)
    'done'
    >>> thread.stop()
    """

    def __init__(self, name: str = "nbprov-engine") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; the thread is started on first use."""
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._main, args=(self._loop, started), name=self._name, daemon=True
                )
                self._thread.start()
                started.wait()
            return self._loop

    @staticmethod
    def _main(loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
        _here.is_engine = True
        asyncio.set_event_loop(loop)
        loop.call_soon(started.set)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the thread; the result is a future that any thread may wait on."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def soon(self, function: Any, *args: Any) -> None:
        """Call a function on the thread, soon; nothing is returned and nothing waits."""
        self.loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """Cancel what runs and end the thread; waits `STOP_SECONDS` at most."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return

        async def cancel_all() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(cancel_all(), loop).result(STOP_SECONDS)
        except concurrent.futures.TimeoutError:
            thread.name += " (did not stop in time)"
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_SECONDS)
