"""Show a panel in the running cell, or print its lines where no panel can be drawn."""

from __future__ import annotations

from typing import Any

from nbprov.notebook.terminal import say

from .live_display import LiveDisplay
from .panel import Panel


def show(panel: Panel[Any]) -> LiveDisplay[Any]:
    """Show a panel in the running cell; print its lines where only lines can be shown."""
    display = LiveDisplay(panel)
    display.show()
    print_lines(display)
    return display


def print_lines(display: LiveDisplay[Any]) -> None:
    """Print what has changed where no live panel shows it."""
    for line in display.take_lines():
        say(line, flush=True)
