"""Tab inside the body of a `%%on` cell: what the kernel on the machine offers there."""

from __future__ import annotations

import concurrent.futures
import sys
from typing import Any

from nbprov.model.clock import Seconds

from .arguments import HelpWanted, on_parser

MOST = 1000
"""Words that are offered: a machine may send any number, and nobody reads on this far."""
DEADLINE: Seconds = 1.0
"""How long a Tab key may wait for a machine; then nothing is offered."""

MOST_CHARACTERS = 200_000
"""Of a cell that is sent for a completion."""


def remote_words(first: str, body: str, cursor: int) -> tuple[str, list[str]]:
    """The fragment before the cursor and what the remote namespace offers for it.

    Nothing where the cell is a script, the kernel there is at work, or this process has no line to the machine yet: a Tab key
    opens no connection.

    Parameters
    ----------
    first
        The `%%on` line.
    body
        The cell below it.
    cursor
        Where in the body.
    """
    name = _python_on(first)
    agent = _agent(name) if name and len(body) <= MOST_CHARACTERS else None
    if agent is None:
        return "", []
    engine = sys.modules["nbprov.api"].current().engine
    future = engine.thread.call(agent.complete(body, cursor, deadline=DEADLINE))
    try:
        found = future.result(DEADLINE)
    except concurrent.futures.TimeoutError:
        future.cancel()
        return "", []
    return _fitting(found, body, cursor)


def _python_on(first: str) -> str:
    """The cluster of a `%%on` line; empty where its body is no Python, or the line is not whole yet."""
    from nbprov.model.errors import UsageError

    try:
        arguments = on_parser().parse_line(first.partition("%%on")[2])
    except (UsageError, HelpWanted):
        return ""
    return "" if arguments.bash else str(arguments.name)


def _agent(name: str) -> Any:
    """The head's agent, where this process is attached to the cluster already."""
    api = sys.modules.get("nbprov.api")
    here = api.current() if api is not None else None
    if here is None:
        return None
    for live in tuple(here.engine.live.values()):
        if live.name == name and live.nodes:
            return live.head.agent
    return None


def _fitting(found: dict[str, Any], body: str, cursor: int) -> tuple[str, list[str]]:
    from nbprov.machines.foreign_text import clean_text

    start, end, matches = found.get("cursor_start"), found.get("cursor_end"), found.get("matches")
    if type(start) is not int or type(end) is not int or not isinstance(matches, list) or not 0 <= start <= cursor <= end <= len(body):
        return "", []
    # The front end puts a match in place of what stands before the cursor, so what follows the cursor must not be doubled.
    rest = body[cursor:end]
    words = [word for word in matches[:MOST] if isinstance(word, str) and word == clean_text(word) and "\n" not in word and len(word) < 500]
    return body[start:cursor], [word.removesuffix(rest) if rest else word for word in words]
