"""Small pieces that the magics show: a line that can be renewed, and displays tied to what they show."""

from __future__ import annotations

import concurrent.futures
import html
import uuid
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from nbprov.model.money import format_usd
from nbprov.model.remarks import Severity
from nbprov.model.spec import Spec

from . import LiveDisplay, Panel, frontend

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

FLUSH_SECONDS = 1.0
"""How long the end of a cell may wait for what is due to be shown: it is microseconds' work unless the engine is stuck."""


_AS_PRINTED = (
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,inherit);"
    "line-height:var(--jp-code-line-height,inherit);padding-left:var(--jp-code-padding,0);white-space:pre-wrap"
)
"""The look of what cells print, in JupyterLab and elsewhere: a line often stands between printed ones."""


class Line:
    """One line of output that can be renewed from any thread, also in the saved notebook."""

    def __init__(self, text: str) -> None:
        self._id = f"nbprov-{uuid.uuid4().hex}"
        self._publish(text, update=False)

    def renew(self, text: str) -> None:
        """Replace the line where it stands; in a terminal, where nothing can be replaced, nothing happens."""
        self._publish(text, update=True)

    def _publish(self, text: str, *, update: bool) -> None:
        shell = frontend.shell()
        if shell is None or not hasattr(shell, "kernel"):
            if not update:
                print(text)
            return
        data = {
            "text/plain": text,
            "text/html": f'<div style="{_AS_PRINTED}">{html.escape(text)}</div>',
        }
        shell.display_pub.publish(
            data=data, metadata={}, transient={"display_id": self._id}, update=update
        )


class Follower:
    """Keeps one display true to what it shows, through the engine's publisher.

    Parameters
    ----------
    snapshot
        What to show now. Called on the engine's thread.
    stage
        What the saved output should tell apart: it is renewed whenever this changes. None while things are in motion: a saved
        output is not renewed then, since that draws the panel anew under the reader's hand. Given the panel's view, as is_over.
    is_over
        Nothing more can happen to what is shown.
    """

    _open: set[Follower] = set()  # noqa: RUF012 - all of the process, on purpose

    def __init__(
        self,
        display: LiveDisplay[Any],
        snapshot: Callable[[], Any],
        stage: Callable[[Any], Hashable | None],
        is_over: Callable[[Any], bool],
        engine: Engine,
    ) -> None:
        self._display, self._snapshot, self._stage, self._is_over = (
            display,
            snapshot,
            stage,
            is_over,
        )
        self._engine = engine
        self._saved = stage(display.panel.view)
        if not is_over(display.panel.view):
            self._unsubscribe = engine.subscribe(self.changed)
            self._open.add(self)

    @property
    def is_open(self) -> bool:
        """Whether it follows still."""
        return self in self._open

    def stop(self) -> None:
        """Follow no more; the display stays as it is."""
        if self.is_open:
            self._unsubscribe()
            self._open.discard(self)

    def changed(self) -> None:
        """Say that something may have changed. From any thread."""
        self._engine.publisher.mark(self._display.display_id, self._send)

    def _send(self) -> None:
        self._display.update(self._snapshot())
        view = self._display.panel.view
        stage = self._stage(view)
        if stage is not None and stage != self._saved:
            self._saved = stage
            self._display.freeze()
        if self._is_over(view):
            self._unsubscribe()
            self._open.discard(self)

    @classmethod
    def flush(cls) -> None:
        """Show at once what is due. At the end of a cell that nobody looks at: the notebook may be saved right after."""
        for follower in tuple(cls._open):
            follower.changed()
            follower._engine.publisher.forget(follower._display.display_id)
        engines = {follower._engine for follower in cls._open}
        concurrent.futures.wait(
            [engine.thread.call(_nothing()) for engine in engines], FLUSH_SECONDS
        )

    @classmethod
    def drop_all(cls) -> None:
        """Follow nothing any more: the engine is about to end."""
        for follower in tuple(cls._open):
            follower._unsubscribe()
        cls._open.clear()


async def _nothing() -> None:
    """Ends once the engine's thread has done what it was asked before."""


def show(panel: Panel[Any]) -> LiveDisplay[Any]:
    """Show a panel in the running cell; where only lines can be shown, print them."""
    display = LiveDisplay(panel)
    display.show()
    print_lines(display)
    return display


def print_lines(display: LiveDisplay[Any]) -> None:
    """Print what has changed where no live panel shows it."""
    for line in display.take_lines():
        print(line, flush=True)


def say(text: str) -> None:
    """Print a line at once: what follows may take a while."""
    print(text, flush=True)


def say_remarks(spec: Spec) -> None:
    """Print what is worth saying of a spec, warnings first, and what notebook variables were put in."""
    for remark in sorted(spec.remarks, key=lambda r: r.level is not Severity.WARNING):
        line = f" (line {remark.origin.line})" if remark.origin.line else ""
        print(f"{remark.level.value}: {remark.message}{line}")
    for variable in spec.variables:
        print(f"${variable.name} = {variable.shown}")


def dollars(micros: int, simulated: bool) -> str:
    """An amount, marked where nobody pays it."""
    return f"{format_usd(micros)}{' simulated' if simulated else ''}"
