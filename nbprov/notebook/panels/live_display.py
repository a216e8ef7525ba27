"""A panel shown in a cell: updated live from any thread, with a saved form beside it."""

from __future__ import annotations

import threading
import uuid
from typing import Any, Generic, Protocol, TypeVar

from nbprov.model.errors import UsageError

from . import frontend
from .page_link import PageLink, page_link

View = TypeVar("View")

Bundle = tuple[dict[str, Any], dict[str, Any]]
"""Data by MIME type, and the metadata of each type."""


class Displayable(Protocol[View]):
    """What a `LiveDisplay` needs of a panel."""

    anchor: str
    """The mark of its static form."""

    @property
    def view(self) -> View:
        """The view that is shown now."""

    def update(self, view: View) -> None:
        """Show another view."""

    def text(self) -> str:
        """Return the view as text."""

    def lines(self, previous: View | None) -> list[str]:
        """Return what changed since an earlier view, one line for each change."""

    def static_bundle(self, *, beside_widget: bool = False) -> Bundle:
        """Return the view as static HTML and text."""

    def widget_bundle(self) -> Bundle:
        """Return the live widget."""

    def close(self) -> None:
        """Close the widget, if there is one."""


class LiveDisplay(Generic[View]):
    """Shows a panel in the running cell and keeps that output up to date.

    Nothing here prints, because updates come from threads that do not own the cell's stdout.
    What a terminal or a log should show is queued as lines; the caller that waits in the cell
    takes them and prints them.

    Parameters
    ----------
    panel
        The panel to show.
    where
        The front end that shows it; detected by default.
    pages
        The link to the pages that show it.

    Examples
    --------
    Under nbclient, in the cell's own thread:

    >>> display = LiveDisplay(panel)                                   # doctest: +SKIP
    >>> display.show()                                                 # doctest: +SKIP
    >>> while not run.wait(0.2):                                       # doctest: +SKIP
    ...     print(*display.take_lines(), sep="\\n")
    """

    def __init__(
        self,
        panel: Displayable[View],
        *,
        where: frontend.Frontend | None = None,
        pages: PageLink = page_link,
    ) -> None:
        self.panel = panel
        self._pages = pages
        self.where = frontend.current() if where is None else where
        self.display_id = f"nbprov-{uuid.uuid4().hex}"
        self._lock = threading.RLock()
        self._is_shown = False
        self._lines: list[str] = []
        self._saved: View | None = None

    def show(self) -> None:
        """Put the panel into the running cell's output.

        Call this once, from the cell's own thread.

        Raises
        ------
        UsageError
            If the panel is shown already.
        """
        with self._lock:
            if self._is_shown:
                raise UsageError("this display is shown already")
            self._is_shown = True
            if self.where is frontend.Frontend.WIDGETS:
                # Before a page sees the form and asks for it.
                self._pages.add(self.panel.anchor, self)
            elif self.where is frontend.Frontend.TEXT:
                self._lines += self.panel.text().splitlines()
            elif self.where is frontend.Frontend.STATIC:
                self._lines += self.panel.lines(None)
            # First, because a person can read it while the widgets are still being imported.
            self._publish_static(update=False)
            if self.where is frontend.Frontend.WIDGETS:
                self._pages.open()
            self._publish_widget()

    def take_up(self) -> None:
        """Go on with an output that an earlier kernel has shown; see `outputs`."""
        with self._lock:
            self._is_shown = True

    def outputs(self) -> dict[str, Any]:
        """Return the static form and the widget, for a page that puts them in place."""
        with self._lock:
            self._saved = self.panel.view
            static, _ = self.panel.static_bundle(beside_widget=True)
            live, _ = self.panel.widget_bundle()
            return {**_form(static), "live": live}

    def update(self, view: View) -> None:
        """Show another view. May be called from any thread.

        Where a live panel hides the saved output, that output is renewed with every change that
        is worth a line. So it is nearly up to date if the kernel dies.
        """
        with self._lock:
            previous = self.panel.view
            self.panel.update(view)
            if not self._is_shown:
                return
            news = self.panel.lines(previous)
            if self.where is not frontend.Frontend.WIDGETS:
                self._lines += news
            elif news:
                self.freeze()

    def close(self) -> None:
        """Show no more than the static form from now on, as things are now."""
        self.freeze()
        self._pages.remove(self.panel.anchor)
        with self._lock:
            self._is_shown = False
            self.panel.close()

    def freeze(self) -> None:
        """Renew the saved output, which is what a notebook shows when it has no kernel.

        May be called from any thread. Where there is no live panel this redraws the output, so
        call it when something has ended and not at every change.
        """
        with self._lock:
            if self._is_shown and self._saved is not self.panel.view:
                self._publish_static(update=True)

    def take_lines(self) -> list[str]:
        """Return the lines that were queued since the last call.

        The list is always empty where a live panel shows the same.
        """
        with self._lock:
            taken, self._lines = self._lines, []
            return taken

    def _publish_static(self, *, update: bool) -> None:
        self._saved = self.panel.view
        running = frontend.shell()
        if self.where is frontend.Frontend.TEXT or running is None:
            return
        is_live = self.where is frontend.Frontend.WIDGETS
        data, metadata = self.panel.static_bundle(beside_widget=is_live)
        running.display_pub.publish(
            data=data, metadata=metadata, transient={"display_id": self.display_id}, update=update
        )
        if update and is_live:
            # A page that was reloaded does not know the display any more.
            self._pages.send(self.panel.anchor, _form(data))

    def _publish_widget(self) -> None:
        running = frontend.shell()
        if self.where is frontend.Frontend.WIDGETS and running is not None:
            data, metadata = self.panel.widget_bundle()
            running.display_pub.publish(data=data, metadata=metadata)


def _form(static: dict[str, Any]) -> dict[str, Any]:
    return {"html": static["text/html"], "text": static["text/plain"]}
