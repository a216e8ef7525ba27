"""Keeps the displays of live panels up to date while the engine works."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from .live_display import LiveDisplay

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

FLUSH_SECONDS = 1.0
"""How long the end of a cell waits for pending updates. They take microseconds unless the engine
is stuck."""


class DisplayFollower:
    """Renews one display whenever the engine reports a change.

    Parameters
    ----------
    snapshot
        Returns the view to show now. Called on the engine's thread.
    stage
        Returns what the saved output should tell apart; the saved output is renewed whenever this
        value changes. None means that things are in motion: the saved output is left alone then,
        since renewing it redraws the panel under the reader's hand.
    is_over
        Whether nothing more can happen to what the view shows.
    """

    _open: set[DisplayFollower] = set()  # noqa: RUF012 - shared by the whole process on purpose

    def __init__(
        self,
        display: LiveDisplay[Any],
        snapshot: Callable[[], Any],
        stage: Callable[[Any], Hashable | None],
        is_over: Callable[[Any], bool],
        engine: Engine,
    ) -> None:
        self._display = display
        self._snapshot = snapshot
        self._stage = stage
        self._is_over = is_over
        self._engine = engine
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

    def changed(self) -> None:
        """Schedule an update. May be called from any thread."""
        self._engine.publisher.mark(self._display.display_id, self._send)

    def _send(self) -> None:
        self._display.update(self._snapshot())
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
        for follower in tuple(cls._open):
            follower.changed()
            follower._engine.publisher.forget(follower._display.display_id)
        engines = {follower._engine for follower in cls._open}
        concurrent.futures.wait(
            [engine.thread.call(_do_nothing()) for engine in engines], FLUSH_SECONDS
        )

    @classmethod
    def stop_all(cls) -> None:
        """Stop all followers of the process, because the engine is about to end."""
        for follower in tuple(cls._open):
            follower._unsubscribe()
        cls._open.clear()


async def _do_nothing() -> None:
    """Complete once the engine's thread has done everything it was asked before."""
