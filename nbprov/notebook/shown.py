"""Small pieces that the magics show: a line that can be renewed, and displays tied to what they show."""

from __future__ import annotations

import html
import uuid
from collections.abc import Callable
from typing import Any

from nbprov.model.money import format_usd
from nbprov.model.spec import Level, Spec

from .panels import LiveDisplay, Panel, host


class Line:
    """One line of output that can be renewed from any thread, also in the saved notebook."""

    def __init__(self, text: str) -> None:
        self._id = f"nbprov-{uuid.uuid4().hex}"
        self._publish(text, update=False)

    def renew(self, text: str) -> None:
        """Replace the line where it stands."""
        self._publish(text, update=True)

    def _publish(self, text: str, *, update: bool) -> None:
        shell = host.shell()
        if shell is None or not hasattr(shell, "kernel"):
            if not update:
                print(text)
            return
        data = {"text/plain": text, "text/html": f'<div style="font-family:monospace;white-space:pre-wrap">{html.escape(text)}</div>'}
        shell.display_pub.publish(data=data, metadata={}, transient={"display_id": self._id}, update=update)


def keep_up_to_date(
    display: LiveDisplay[Any], snapshot: Callable[[], Any], is_final: Callable[[], bool], publish: Any
) -> Callable[[], None]:
    """A listener that sends new snapshots through the publisher and renews the saved output once the story has ended.

    Parameters
    ----------
    publish
        The engine's `Publisher`.
    """
    frozen = False

    def send() -> None:
        nonlocal frozen
        display.update(snapshot())
        if is_final() and not frozen:
            frozen = True
            display.freeze()

    return lambda: publish.mark(display.display_id, send)


def show(panel: Panel[Any]) -> LiveDisplay[Any]:
    """Show a panel in the running cell; where only lines can be shown, print them."""
    display = LiveDisplay(panel)
    display.show()
    for line in display.take_lines():
        print(line)
    return display


def say_remarks(spec: Spec) -> None:
    """Print what is worth saying of a spec: warnings first."""
    for remark in sorted(spec.remarks, key=lambda r: r.level is not Level.WARNING):
        line = f" (line {remark.origin.line})" if remark.origin.line else ""
        print(f"{remark.level.value}: {remark.message}{line}")


def dollars(micros: int, simulated: bool) -> str:
    """An amount, marked where nobody pays it."""
    return f"{format_usd(micros)}{' simulated' if simulated else ''}"
