"""A panel on display: updated live from any thread, its saved form renewed when told."""

from __future__ import annotations

import threading
import uuid
from typing import Generic

from nbprov.model.errors import UsageError

from . import frontend
from .panel import Panel, View


class LiveDisplay(Generic[View]):
    """Shows a panel in the cell that runs now, and keeps that output true.

    Nothing here prints: what a terminal or a log should show is queued as lines, and the waiting caller, who owns the cell's
    stdout, takes and prints them.

    Parameters
    ----------
    panel
        What to show.
    where
        What shows it; found out where not given.

    Examples
    --------
    Under nbclient, in the cell's own thread:

    >>> display = LiveDisplay(panel)                                   # doctest: +SKIP
    >>> display.show()                                                 # doctest: +SKIP
    >>> while not run.wait(0.2):                                       # doctest: +SKIP
    ...     print(*display.take_lines(), sep="\\n")
    """

    def __init__(self, panel: Panel[View], *, where: frontend.Host | None = None) -> None:
        self.panel = panel
        self.where = frontend.current() if where is None else where
        self.display_id = f"nbprov-{uuid.uuid4().hex}"
        self._lock = threading.RLock()
        self._is_shown = False
        self._lines: list[str] = []
        self._saved: View | None = None

    def show(self) -> None:
        """Put the panel into the running cell's output. Call it from the cell's own thread, once.

        Raises
        ------
        UsageError
            It is shown already.
        """
        with self._lock:
            if self._is_shown:
                raise UsageError("this display is shown already")
            self._is_shown = True
            if self.where is frontend.Host.TEXT:
                self._lines += self.panel.text().splitlines()
            elif self.where is frontend.Host.STATIC:
                self._lines += self.panel.lines(None)
            self._publish_static(update=False)
            self._publish_widget()

    def update(self, view: View) -> None:
        """Show another view, live. From any thread.

        Where a live panel hides it, the saved output is renewed with every change that is worth a line, so that it is not far
        behind when the kernel dies.
        """
        with self._lock:
            previous = self.panel.view
            self.panel.update(view)
            if not self._is_shown:
                return
            news = self.panel.lines(previous)
            if self.where is not frontend.Host.WIDGETS:
                self._lines += news
            elif news:
                self.freeze()

    def freeze(self) -> None:
        """Renew the saved output, so that a notebook opened without a kernel tells how things stand. From any thread.

        Where there is no live panel this draws the output anew: call it when something ended, not at every change.
        """
        with self._lock:
            if self._is_shown and self._saved is not self.panel.view:
                self._publish_static(update=True)

    def take_lines(self) -> list[str]:
        """The lines that have come up since they were last taken; always empty where a live panel shows the same."""
        with self._lock:
            taken, self._lines = self._lines, []
            return taken

    def _publish_static(self, *, update: bool) -> None:
        self._saved = self.panel.view
        running = frontend.shell()
        if self.where is frontend.Host.TEXT or running is None:
            return
        data, metadata = self.panel.static_bundle(beside_widget=self.where is frontend.Host.WIDGETS)
        running.display_pub.publish(
            data=data, metadata=metadata, transient={"display_id": self.display_id}, update=update
        )

    def _publish_widget(self) -> None:
        running = frontend.shell()
        if self.where is frontend.Host.WIDGETS and running is not None:
            data, metadata = self.panel.widget_bundle()
            running.display_pub.publish(data=data, metadata=metadata)
