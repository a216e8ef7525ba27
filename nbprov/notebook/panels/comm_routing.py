"""Let a panel's buttons work while a cell runs, with ipykernel 7.4, which has no setting for it."""

from __future__ import annotations

from typing import Any


def allow_subshells(widget: Any) -> None:
    """Let the browser choose the subshell that handles its messages.

    ipykernel 7.4 routes a comm's incoming messages to the shell that last sent on it, whatever the
    browser asked for. A panel is written from the engine's thread, so without this its buttons wait
    until the running cell has ended. Other versions do not have this attribute.
    """
    comm = getattr(widget, "comm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
