"""Tab and Shift-Tab inside a `%%on` cell, answered by the kernel on the machine."""

from __future__ import annotations

import concurrent.futures
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.notebook.arguments import HelpWanted
from nbprov.notebook.magics.parsers import on_parser

MOST = 1000
"""The most completions that are offered, since a machine may send any number."""
DEADLINE: Seconds = 1.0
"""How long a Tab key waits for a machine. After that the local kernel answers instead."""

MOST_CHARACTERS = 200_000
"""The longest cell that is sent for this, and the longest help on a name that is shown."""

_ON = re.compile(r"\s*(%%on\b[^\n]*)\n")


def remote_words(first: str, body: str, cursor: int) -> tuple[str, list[str]]:
    """Return the fragment before the cursor and its completions in the remote namespace.

    There are none where the cell is a script, the kernel there is busy, or this process is not
    connected to the machine yet; a Tab key opens no connection.

    Parameters
    ----------
    first
        The `%%on` line.
    body
        The cell below it.
    cursor
        The cursor's position in the body.
    """
    found = _answer(
        first, body, lambda agent: agent.kernels.complete(body, cursor, deadline=DEADLINE)
    )
    return _fitting(found, body, cursor) if found else ("", [])


def remote_details(code: str, cursor: int, detail: int) -> dict[str, Any] | None:
    """Return what the remote namespace knows of the name at the cursor, as an `inspect_reply`.

    None means that the local kernel should answer: in other cells, in scripts, on the `%%on` line
    itself, while the kernel there is busy, and where this process is not connected yet.

    Parameters
    ----------
    code
        The whole cell.
    cursor
        The cursor's position in it, in characters.
    detail
        0 for the signature and the docstring, 1 for the source too.
    """
    from nbprov.machines.sanitize.display_data import safe_page
    from nbprov.machines.sanitize.text import clean_text

    begun = _ON.match(code)
    if begun is None or not begun.end() <= cursor <= len(code):
        return None
    body, at = code[begun.end() :], cursor - begun.end()
    reply = _answer(
        begun.group(1),
        body,
        lambda agent: agent.kernels.inspect(body, at, 1 if detail else 0, deadline=DEADLINE),
    )
    if not reply:
        return None
    # Cut before cleaning, because the cut may leave half an escape sequence.
    text = clean_text(safe_page(reply.get("data"))[:MOST_CHARACTERS])
    is_found = reply.get("found") is True and bool(text)
    return {
        "status": "ok",
        "found": is_found,
        "data": {"text/plain": text} if is_found else {},
        "metadata": {},
    }


def _answer(
    first: str, body: str, ask: Callable[[Any], Coroutine[Any, Any, dict[str, Any]]]
) -> dict[str, Any]:
    """Return the answer of the head node's kernel; empty if none comes within the deadline."""
    name = _python_cluster(first)
    agent = _agent(name) if name and len(body) <= MOST_CHARACTERS else None
    if agent is None:
        return {}
    future = sys.modules["nbprov.api"].current().engine.thread.call(ask(agent))
    try:
        answer: dict[str, Any] = future.result(DEADLINE)
    except concurrent.futures.TimeoutError:
        future.cancel()
        return {}
    return answer


def _python_cluster(first: str) -> str:
    """Return the cluster of a `%%on` line; empty for a script or an incomplete line."""
    from nbprov.model.errors import UsageError

    try:
        arguments = on_parser().parse_line(first.partition("%%on")[2])
    except (UsageError, HelpWanted):
        return ""
    return "" if arguments.bash else str(arguments.name)


def _agent(name: str) -> Any:
    """Return the head node's agent, if this process is attached to the cluster."""
    api = sys.modules.get("nbprov.api")
    here = api.current() if api is not None else None
    if here is None:
        return None
    for live in tuple(here.engine.live.values()):
        if live.name == name and live.nodes:
            return live.head.agent
    return None


def _fitting(found: dict[str, Any], body: str, cursor: int) -> tuple[str, list[str]]:
    from nbprov.machines.sanitize.text import clean_text

    start, end, matches = found.get("cursor_start"), found.get("cursor_end"), found.get("matches")
    if (
        type(start) is not int
        or type(end) is not int
        or not isinstance(matches, list)
        or not 0 <= start <= cursor <= end <= len(body)
    ):
        return "", []
    # The front end replaces only what stands before the cursor, so what follows it is removed
    # from the match.
    rest = body[cursor:end]
    words = [
        word
        for word in matches[:MOST]
        if isinstance(word, str)
        and word == clean_text(word)
        and "\n" not in word
        and len(word) < 500
    ]
    return body[start:cursor], [word.removesuffix(rest) if rest else word for word in words]
