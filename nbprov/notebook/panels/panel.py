"""The base of all panels: one view, shown as a widget, as static HTML and as text."""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic

from nbprov.model.errors import NbprovError
from nbprov.notebook.rendering.packed_table import PackedTable
from nbprov.notebook.rendering.price_data import TableData

from . import frontend
from .comm_routing import allow_subshells
from .live_display import Bundle, LiveDisplay, View

_HTML = "text/html"
_TEXT = "text/plain"
_WIDGET = "application/vnd.jupyter.widget-view+json"

ANCHOR_DIGITS = 12
"""Enough to tell the panels of one page apart."""

_HIDE_DEAD_WIDGET = (
    '.jp-OutputArea-child:has([data-nbprov="{anchor}"]) + '
    ".jp-OutputArea-child:has(> .jp-OutputArea-output:not([data-mime-type]))"
    ":not(:has(.nbprov-root:not([hidden]))) {{ display: none }}"
)
"""For a widget without its kernel JupyterLab shows "Loading widget" or "model not found" forever.
This rule hides that line unless a panel is drawn there. Viewers that drop style elements do not
know widgets either and show the widget's empty text."""


_SAY_THAT_IT_WAITS = (
    ".jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator"
    ':is([data-status="busy"], [data-status="unknown"])) '
    '.jp-OutputArea-child:has([data-nbprov="{anchor}"]):has(+ .jp-OutputArea-child '
    "> .jp-OutputArea-output:not([data-mime-type], .jupyter-widgets))"
    ":not(:has(+ .jp-OutputArea-child .nbprov-root)) "
    '[data-nbprov="{anchor}"]::after {{ display: block; content: "The kernel is busy. Once it is '
    'free and nbprov is loaded in it, this panel is live again." }}'
)
"""A kernel that runs a cell answers no page that was opened since (JupyterLab asks on the shell
channel, and learns of subshells only from the answer). This rule says so while JupyterLab waits for
the widget below the form and the kernel has not been heard or is busy."""


class Panel(ABC, Generic[View]):
    """A view of the model on display.

    In a front end with widgets a panel takes two outputs: the static one, and below it the widget,
    which hides the static one for as long as it is alive. They are not one MIME bundle, because
    JupyterLab then chooses the widget even where there is no kernel for it.

    A panel can be made, updated and read anywhere, also where there are no widgets. Updates come
    from any thread. Messages of the browser come on the kernel's main thread or on a subshell's;
    the callbacks run there and must only start work. An `NbprovError` that they raise is shown in
    the panel.

    Attributes
    ----------
    anchor
        The mark by which the widget, and a later kernel, find the static output.
    subject
        What it shows, for a later kernel that goes on with it; empty where none can.
    """

    def __init__(self, view: View) -> None:
        self._lock = threading.RLock()
        self._view = view
        self.anchor = uuid.uuid4().hex[:ANCHOR_DIGITS]
        self.subject = ""
        self._widget: Any | None = None
        self._updated = time.monotonic()
        self._version = 1

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the view as JSON, as `widgets/types.d.ts` describes it."""

    @abstractmethod
    def html(self) -> str:
        """Return the view as static HTML."""

    @abstractmethod
    def text(self) -> str:
        """Return the view as text."""

    def saved_text(self) -> str:
        """Return the text that a notebook keeps; shorter than `text` where that is long."""
        return self.text()

    def saved_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state that a notebook keeps with its widgets, from the whole one.

        Where it has fewer rows it has `is_cut`, and pages get the whole state as a message.
        """
        return state

    @abstractmethod
    def _widget_class(self) -> Callable[..., Any]:
        """Return the anywidget class; called only where widgets are installed."""

    @abstractmethod
    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        """Act on a message of the browser that only this kind of panel knows."""

    def _table(self, view: View) -> TableData | None:
        """Return the table that goes to the browser in binary, if the panel has one."""
        return None

    def _has_new_table(self, before: View, after: View) -> bool:
        return False

    def lines(self, previous: View | None) -> list[str]:
        """Return what changed since an earlier view, one line for each change.

        Without an earlier view these are all changes so far. A panel that is only a table has
        none.
        """
        return []

    @property
    def view(self) -> View:
        """The view that is shown now."""
        return self._view

    @property
    def widget(self) -> Any | None:
        """The anywidget behind the panel; None until the panel is shown as a widget."""
        return self._widget

    def update(self, view: View) -> None:
        """Show another view. May be called from any thread; the caller limits how often."""
        with self._lock:
            before, self._view = self._view, view
            self._updated = time.monotonic()
            if self._has_new_table(before, view):
                self._version += 1
            if self._widget is None:
                return
            allow_subshells(self._widget)
            state = self.state()
            self._widget.state = saved = self.saved_state(state)
            if saved is not state:
                self._send({"type": "state", "view": "", "state": state, "age": 0})

    def close(self) -> None:
        """Close the widget, if there is one."""
        with self._lock:
            if self._widget is not None:
                self._widget.close()
                self._widget = None

    def static_bundle(self, *, beside_widget: bool = False) -> Bundle:
        """Return the view as static HTML and text.

        Parameters
        ----------
        beside_widget
            Whether the widget's output comes next. The widget then finds this output by its
            anchor and hides it.
        """
        with self._lock:
            html, text = self.html(), self.saved_text()
        if beside_widget:
            style = _HIDE_DEAD_WIDGET.format(anchor=self.anchor)
            mark = ""
            if self.subject:
                mark = f'<i data-nbprov-subject="{self.subject}" hidden></i>'
                style += "\n" + _SAY_THAT_IT_WAITS.format(anchor=self.anchor)
            html = f'<div data-nbprov="{self.anchor}">\n{mark}<style>{style}</style>\n{html}</div>'
        return {_TEXT: text, _HTML: html}, {}

    def widget_bundle(self) -> Bundle:
        """Return the live widget. Its static forms are empty, since the output above has them."""
        with self._lock:
            made = self._make_widget()._repr_mimebundle_()
        live, metadata = made if isinstance(made, tuple) else (made, {})
        return {_WIDGET: live[_WIDGET], _HTML: "", _TEXT: ""}, metadata

    def _ipython_display_(self) -> None:
        """Show the panel as a cell's value, in two outputs where the front end has widgets."""
        if frontend.current() is not frontend.Frontend.WIDGETS:
            raise NotImplementedError  # tells IPython to use the MIME bundle
        LiveDisplay(self, where=frontend.Frontend.WIDGETS).show()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Bundle:
        return self.static_bundle()

    def __repr__(self) -> str:
        return self.text()

    def _make_widget(self) -> Any:
        if self._widget is None:
            state = self.saved_state(self.state())
            self._widget = self._widget_class()(state=state, anchor=self.anchor)
            allow_subshells(self._widget)
            self._widget.on_msg(self._receive)
        return self._widget

    def notice(self, text: str) -> None:
        """Show a line in the panel, in all its views."""
        self._send({"type": "notice", "view": "", "text": text})

    def _receive(self, _widget: Any, content: Any, buffers: Any) -> None:
        """Answer a message of the browser; `_handle` finds its buffers among the content.

        Unknown messages are ignored, because a page of an older session may still be open.
        """
        if not isinstance(content, Mapping):
            return
        kind, view = str(content.get("type", "")), str(content.get("view", ""))
        if kind == "ready":
            self._send_table(view)
        elif kind == "sync":
            with self._lock:
                age = time.monotonic() - self._updated
                self._send({"type": "state", "view": view, "state": self.state(), "age": age})
        else:
            try:
                self._handle(kind, {**content, "buffers": buffers})
            except NbprovError as error:
                self.notice(f"{error.message} {error.hint}".strip())

    def _send_table(self, view: str) -> None:
        with self._lock:
            table, version = self._table(self._view), self._version
        if table is None:
            return
        packed = PackedTable(table)
        for page in packed.pages():
            place = {"view": view, "version": version, "start": page.start, "end": page.end}
            head = {"type": "rows"} if page.start else {"type": "table", "table": packed.header}
            self._send({**head, **place}, page.buffers)

    def _send(self, content: dict[str, Any], buffers: list[memoryview] | None = None) -> None:
        with self._lock:
            if self._widget is not None:
                allow_subshells(self._widget)
                self._widget.send(content, buffers=buffers)


Callback = Callable[[], object]
NamedCallback = Callable[[str], object]
RankCallback = Callable[[int], object]


def call(callback: Callable[..., object] | None, *arguments: object) -> None:
    """Call a callback, if one was given."""
    if callback is not None:
        callback(*arguments)
