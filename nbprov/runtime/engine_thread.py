"""The engine thread: one daemon thread that runs one asyncio loop.

The user's own loop may be busy or nested; this one never depends on it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SECONDS = 2.0
"""How long `stop` waits for the thread: a kernel has about 2.5 s in all to shut down."""


_here = threading.local()


def on_engine_thread() -> bool:
    """Whether the caller runs on an engine thread, where a blocking wait would never end."""
    return getattr(_here, "is_engine", False)


class EngineThread:
    """A daemon thread that runs its own asyncio loop.

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
        """The loop; its thread starts on first use."""
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
        """Run a coroutine on the thread, and return a future that any thread may wait for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def soon(self, function: Any, *args: Any) -> None:
        """Schedule a function on the thread without waiting for it."""
        self.loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """Cancel all tasks and end the thread; wait `STOP_SECONDS` at most."""
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
