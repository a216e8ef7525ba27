"""What all panels share: one view, shown as a widget, as static HTML and as text."""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from nbprov.model.errors import NbprovError
from nbprov.notebook.rendering.price_data import TableData

from . import frontend
from .comm_routing import free_route

View = TypeVar("View")

Bundle = tuple[dict[str, Any], dict[str, Any]]
"""Data by MIME type, and its metadata."""

_HTML = "text/html"
_TEXT = "text/plain"
_WIDGET = "application/vnd.jupyter.widget-view+json"

ANCHOR_DIGITS = 12
"""Enough to tell the panels of one page apart."""

_HIDE_WIDGETLESS = (
    '.jp-OutputArea-child:has([data-nbprov="{anchor}"]) + '
    ".jp-OutputArea-child:has(> .jp-OutputArea-output:not([data-mime-type])):not(:has(.nbprov-root:not([hidden]))) {{ display: none }}"
)
"""JupyterLab says of a widget without its kernel "Loading widget" or "model not found", for good: that line goes, unless a panel is
drawn there. Viewers that drop style elements do not know widgets either, and show the widget's empty text."""


class Panel(ABC, Generic[View]):
    """A view of the model on display.

    Where widgets are, a panel takes two outputs: the static one, and below it the widget, which hides the static one for as long as
    it is alive. In one bundle they would exclude each other: JupyterLab chooses the widget even where there is no kernel for it.

    A panel can be made, updated and read anywhere, also where there are no widgets. Updates come from any thread; messages of
    the browser come on the kernel's main thread or on a subshell's. Callbacks run there and must only hand off: an `NbprovError`
    that they raise is shown in the panel.
    """

    def __init__(self, view: View) -> None:
        self._lock = threading.RLock()
        self._view = view
        self._anchor = uuid.uuid4().hex[:ANCHOR_DIGITS]
        self._widget: Any | None = None
        self._seen = time.monotonic()
        self._version = 1

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The view as JSON, as `widgets/types.d.ts` describes it."""

    @abstractmethod
    def html(self) -> str:
        """The view as static HTML."""

    @abstractmethod
    def text(self) -> str:
        """The view as text."""

    @abstractmethod
    def _widget_class(self) -> Callable[..., Any]:
        """The anywidget class; called only where widgets are."""

    @abstractmethod
    def _handle(self, kind: str, content: Mapping[str, Any]) -> None:
        """Act on a message of the browser that is this panel's own."""

    def _table(self, view: View) -> TableData | None:
        """The table that goes to the browser in binary; None where there is none."""
        return None

    def _has_new_table(self, before: View, after: View) -> bool:
        return False

    def lines(self, previous: View | None) -> list[str]:
        """What changed since an earlier view, or since the beginning, as plain lines; none where a table is no story."""
        return []

    @property
    def view(self) -> View:
        """What is shown."""
        return self._view

    @property
    def widget(self) -> Any | None:
        """The anywidget behind the panel once it was shown as one; None before."""
        return self._widget

    def update(self, view: View) -> None:
        """Show another view. From any thread; the caller sees to it that this is not called too often."""
        with self._lock:
            before, self._view = self._view, view
            self._seen = time.monotonic()
            if self._has_new_table(before, view):
                self._version += 1
            if self._widget is not None:
                free_route(self._widget)
                self._widget.state = self.state()

    def close(self) -> None:
        """End the widget, if there is one."""
        with self._lock:
            if self._widget is not None:
                self._widget.close()
                self._widget = None

    def static_bundle(self, *, beside_widget: bool = False) -> Bundle:
        """The view as it is now, in HTML and text. `beside_widget`: the widget's output comes next, and is to find this one."""
        with self._lock:
            html, text = self.html(), self.text()
        if beside_widget:
            style = _HIDE_WIDGETLESS.format(anchor=self._anchor)
            html = f'<div data-nbprov="{self._anchor}">\n<style>{style}</style>\n{html}</div>'
        return {_TEXT: text, _HTML: html}, {}

    def widget_bundle(self) -> Bundle:
        """The live panel. Its static forms are there, and empty: the output above it says the same."""
        with self._lock:
            made = self._make_widget()._repr_mimebundle_()
        live, metadata = made if isinstance(made, tuple) else (made, {})
        return {_WIDGET: live[_WIDGET], _HTML: "", _TEXT: ""}, metadata

    def _ipython_display_(self) -> None:
        """Show the panel that is a cell's value or was given to `display`, in two outputs where widgets are."""
        if frontend.current() is not frontend.Host.WIDGETS:
            raise NotImplementedError  # IPython's way to be told that the MIME bundle is to be taken
        from .live_display import LiveDisplay

        LiveDisplay(self, where=frontend.Host.WIDGETS).show()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Bundle:
        return self.static_bundle()

    def __repr__(self) -> str:
        return self.text()

    def _make_widget(self) -> Any:
        if self._widget is None:
            self._widget = self._widget_class()(state=self.state(), anchor=self._anchor)
            free_route(self._widget)
            self._widget.on_msg(self._received)
        return self._widget

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer the browser. What is not understood is left: a page of an older session may still be open."""
        if not isinstance(content, Mapping):
            return
        kind, view = str(content.get("type", "")), str(content.get("view", ""))
        if kind == "ready":
            self._send_table(view)
        elif kind == "sync":
            with self._lock:
                age = time.monotonic() - self._seen
                self._send({"type": "state", "view": view, "state": self.state(), "age": age})
        else:
            try:
                self._handle(kind, content)
            except NbprovError as error:
                self._send(
                    {"type": "notice", "view": "", "text": f"{error.message} {error.hint}".strip()}
                )

    def _send_table(self, view: str) -> None:
        with self._lock:
            table, version = self._table(self._view), self._version
        if table is None:
            return
        packed = table.pack()
        self._send(
            {"type": "table", "view": view, "version": version, "table": packed.header},
            packed.buffers,
        )

    def _send(self, content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        with self._lock:
            if self._widget is not None:
                free_route(self._widget)
                self._widget.send(content, buffers=buffers)


Callback = Callable[[], object]
NamedCallback = Callable[[str], object]
RankCallback = Callable[[int], object]


def call(callback: Callable[..., object] | None, *arguments: object) -> None:
    """Call what somebody listens with, if anybody does."""
    if callback is not None:
        callback(*arguments)
