"""Keeps the displays of live panels up to date while the engine works."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.runtime.worker_pool import WorkerPool

from .live_display import LiveDisplay

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

FLUSH_SECONDS: Seconds = 1.0
"""How long the end of a cell waits for pending updates. They take microseconds unless the engine
is stuck."""

log = logging.getLogger("nbprov.notebook")
_workers = WorkerPool("displays", 1)
"""One thread for all displays: two that read the whole ledger at once would take twice as long."""


class BackgroundReader:
    """Makes snapshots in a thread of its own, one at a time.

    However often one is asked for while another is being made, one more is made after it.
    """

    def __init__(self, snapshot: Callable[[], Any], show: Callable[[Any], None]) -> None:
        self._snapshot, self._show = snapshot, show
        self._lock = threading.Lock()
        self._is_due = False
        self._reading: Future[None] | None = None

    def read(self) -> None:
        """Make a snapshot soon. Any thread."""
        with self._lock:
            self._is_due = True
            if self._reading is None:
                self._reading = _workers.submit(self._read)

    def stop(self) -> None:
        """Make no more snapshots."""
        with self._lock:
            self._is_due = False

    def wait(self, seconds: Seconds) -> None:
        """Wait until none is being made or due, for this long at most."""
        with self._lock:
            reading = self._reading
        if reading is not None:
            concurrent.futures.wait([reading], seconds)

    def _read(self) -> None:
        while self._take():
            try:
                self._show(self._snapshot())
            except Exception:  # nobody else would tell
                log.exception("a display could not be updated")

    def _take(self) -> bool:
        with self._lock:
            is_due, self._is_due = self._is_due, False
            if not is_due:
                self._reading = None
            return is_due


class DisplayFollower:
    """Renews one display whenever the engine reports a change.

    Parameters
    ----------
    snapshot
        Returns the view to show now. Called on the engine's thread, unless `is_slow`.
    stage
        Returns what the saved output should tell apart; the saved output is renewed whenever this
        value changes. None means that things are in motion: the saved output is left alone then,
        since renewing it redraws the panel under the reader's hand.
    is_over
        Whether nothing more can happen to what the view shows.
    is_slow
        Whether a snapshot takes long. It is made in another thread then, since the engine's has
        leases to renew and machines to end.
    """

    _open: set[DisplayFollower] = set()  # noqa: RUF012 - shared by the whole process on purpose

    def __init__(
        self,
        display: LiveDisplay[Any],
        snapshot: Callable[[], Any],
        stage: Callable[[Any], Hashable | None],
        is_over: Callable[[Any], bool],
        engine: Engine,
        *,
        is_slow: bool = False,
    ) -> None:
        self._display = display
        self._snapshot = snapshot
        self._stage = stage
        self._is_over = is_over
        self._engine = engine
        self._reader = BackgroundReader(snapshot, self._show_soon) if is_slow else None
        self._saved = stage(display.panel.view)
        if not is_over(display.panel.view):
            self._unsubscribe = engine.subscribe(self.changed)
            self._open.add(self)

    @property
    def is_open(self) -> bool:
        """Whether it still follows."""
        return self in self._open

    def stop(self) -> None:
        """Stop following; the display stays as it is."""
        if self.is_open:
            self._unsubscribe()
            self._open.discard(self)
            if self._reader is not None:
                self._reader.stop()

    def changed(self) -> None:
        """Schedule an update. May be called from any thread."""
        self._engine.publisher.mark(self._display.display_id, self._send)

    def _send(self) -> None:
        if self._reader is not None:
            self._reader.read()
        else:
            self._show(self._snapshot())

    @property
    def _shown(self) -> Hashable:
        """The publisher's key of what the reader has read."""
        return self._display.display_id, "read"

    def _show_soon(self, view: Any) -> None:
        if self.is_open:
            self._engine.publisher.mark(self._shown, lambda: self._show(view))

    def _show(self, view: Any) -> None:
        self._display.update(view)
        view = self._display.panel.view
        stage = self._stage(view)
        if stage is not None and stage != self._saved:
            self._saved = stage
            self._display.freeze()
        if self._is_over(view):
            self.stop()

    @classmethod
    def flush(cls) -> None:
        """Send all pending updates now.

        Called at the end of a cell that nobody watches, since the notebook may be saved next.
        """
        followers = tuple(cls._open)
        for follower in followers:
            follower.changed()
            follower._engine.publisher.forget(follower._display.display_id)
        cls._settle()
        slow = [(follower, follower._reader) for follower in followers if follower._reader]
        for follower, reader in slow:
            reader.wait(FLUSH_SECONDS)
            follower._engine.publisher.forget(follower._shown)
        if slow:
            cls._settle()

    @classmethod
    def _settle(cls) -> None:
        engines = {follower._engine for follower in cls._open}
        concurrent.futures.wait(
            [engine.thread.call(_do_nothing()) for engine in engines], FLUSH_SECONDS
        )

    @classmethod
    def stop_all(cls) -> None:
        """Stop all followers of the process, because the engine is about to end."""
        followers = tuple(cls._open)
        for follower in followers:
            follower.stop()
        for follower in followers:
            if follower._reader is not None:  # it would read a ledger that is closed
                follower._reader.wait(FLUSH_SECONDS)


async def _do_nothing() -> None:
    """Complete once the engine's thread has done everything it was asked before."""
