"""The link between this kernel and the pages of its notebook.

`update_display_data` reaches a page only until it is reloaded, and never an output of an earlier
kernel. So one widget that nothing shows runs `widgets/page_link.js` in each page, also in one that
is opened later. That code tells which static forms of panels the notebook has and writes what the
kernel answers. It also tells the text of a cell that is typed, and shows what is wrong with it.
Where a page was closed while a remote cell ran, the next one is given what the cell printed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .comm_routing import allow_subshells
from .ended_cells import EndedCell, EndedCells

MOST_FORMS = 500
"""The most forms that are taken from one message of a page."""

log = logging.getLogger("nbprov.notebook")


class ShownOutputs(Protocol):
    """A display of this kernel, as far as pages need it."""

    def outputs(self) -> dict[str, Any]:
        """Return its static form of now and its widget."""

    def close(self) -> None:
        """Leave the static form alone in its place."""


Follow = Callable[[str, str], ShownOutputs | None]
"""Goes on with a panel of an earlier kernel, given its subject and its anchor. It returns None
where this ledger does not know the subject."""

Check = Callable[[str], list[dict[str, Any]]]
"""Finds what is wrong in the source of a cell, each problem with its place in it."""


class PageLink:
    """Answers the pages of this kernel's notebook. May be used from any thread.

    Attributes
    ----------
    follow
        What goes on with the panels of earlier kernels.
    check
        What looks at a cell while it is typed.
    """

    def __init__(self) -> None:
        self.follow: Follow = lambda subject, anchor: None
        self.check: Check = lambda source: []
        self._lock = threading.Lock()
        self._shown: dict[str, ShownOutputs | None] = {}
        self._ended = EndedCells()
        self._widget: Any | None = None

    def open(self) -> None:
        """Run the code in the pages, which then tell their forms; once for each kernel."""
        from .widget import PageLinkWidget

        with self._lock:
            if self._widget is None:
                self._widget = PageLinkWidget(self._receive)
                allow_subshells(self._widget)
                # What a page told before the comm had its handler is lost: it tells it again.
                self._widget.send({"type": "listening"})

    def close(self) -> None:
        """Close all displays and answer no page any more. The next `open` takes them up again."""
        with self._lock:
            shown = [display for display in self._shown.values() if display is not None]
            self._shown.clear()
        for display in shown:
            display.close()
        with self._lock:
            widget, self._widget = self._widget, None
        if widget is not None:
            widget.close()

    def add(self, anchor: str, display: ShownOutputs) -> None:
        """Renew this form of the notebook from now on."""
        with self._lock:
            self._shown[anchor] = display

    def remove(self, anchor: str) -> None:
        """Renew this form no more; a page that is opened later may go on with it."""
        with self._lock:
            self._shown.pop(anchor, None)

    def send(self, anchor: str, form: dict[str, Any]) -> None:
        """Have the pages write a form into the notebook where they have another one."""
        self._send([{"anchor": anchor, **form}])

    def cell_begins(self, id: str) -> None:
        """Forget the earlier outputs of a cell that runs again, here or on a machine."""
        self._ended.begins(id)

    def cell_ended(self, cell: EndedCell) -> None:
        """Give a remote cell's outputs to a page that did not see them come."""
        self._ended.add(cell)
        self._tell({"type": "cells", "cells": self._ended.marks()})

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        kind = content.get("type") if isinstance(content, dict) else None
        if kind == "forms" and isinstance(forms := content.get("forms"), Sequence):
            self._send([one for form in forms[:MOST_FORMS] if (one := self._outputs_for(form))])
            if marks := self._ended.marks():
                self._tell({"type": "cells", "cells": marks})
        elif kind in ("cell-seen", "cell-missing"):
            self._cell_of_page(
                kind == "cell-seen", str(content.get("cell")), str(content.get("mark"))
            )
        elif kind == "cell" and isinstance(source := content.get("source"), str):
            self._tell({"type": "problems", "source": source, "problems": self._checked(source)})

    def _cell_of_page(self, is_seen: bool, id: str, mark: str) -> None:
        if is_seen:
            self._ended.seen(id, mark)
        elif (cell := self._ended.find(id, mark)) is not None:
            outputs = list(cell.outputs)
            self._tell({"type": "cell", "cell": id, "mark": mark, "outputs": outputs})

    def _checked(self, source: str) -> list[dict[str, Any]]:
        try:
            return self.check(source)
        except Exception as error:  # running the cell says the same where a person reads it
            # Without the error's text, which may hold a secret of the cell.
            log.error("a cell that was typed could not be checked: %s", type(error).__name__)
            return []

    def _outputs_for(self, form: Any) -> dict[str, Any] | None:
        if not isinstance(form, dict):
            return None
        anchor, subject = str(form.get("anchor", "")), str(form.get("subject", ""))
        display = self._display_of(anchor) or self._take_up(anchor, subject)
        return None if display is None else {"anchor": anchor, **display.outputs()}

    def _display_of(self, anchor: str) -> ShownOutputs | None:
        with self._lock:
            return self._shown.get(anchor)

    def _take_up(self, anchor: str, subject: str) -> ShownOutputs | None:
        with self._lock:
            if not subject or anchor in self._shown:
                return None  # another page asks for it just now, and all pages hear the answer
            self._shown[anchor] = None
        display = None
        try:
            display = self.follow(subject, anchor)
        except Exception:  # a page may have any form, and the others are renewed all the same
            log.exception("the panel of %s", subject)
        with self._lock:
            if display is not None:
                self._shown[anchor] = display
            else:
                del self._shown[anchor]
        return display

    def _send(self, outputs: list[dict[str, Any]]) -> None:
        if outputs:
            self._tell({"type": "outputs", "outputs": outputs})

    def _tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            if self._widget is not None:
                allow_subshells(self._widget)
                self._widget.send(message)


page_link = PageLink()
"""The link of this kernel."""
