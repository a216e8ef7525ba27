"""Tab and Shift-Tab inside the body of a `%%on` cell: what the kernel on the machine offers and knows there."""

from __future__ import annotations

import concurrent.futures
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.notebook.arguments import HelpWanted, on_parser

MOST = 1000
"""Words that are offered: a machine may send any number, and nobody reads on this far."""
DEADLINE: Seconds = 1.0
"""How long a Tab key may wait for a machine; then nothing is offered, and what is known here is told."""

MOST_CHARACTERS = 200_000
"""Of a cell that is sent for this, and of what is told of a name."""

_ON = re.compile(r"\s*(%%on\b[^\n]*)\n")


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
    found = _answer(first, body, lambda agent: agent.complete(body, cursor, deadline=DEADLINE))
    return _fitting(found, body, cursor) if found else ("", [])


def remote_details(code: str, cursor: int, detail: int) -> dict[str, Any] | None:
    """What the remote namespace knows of the name at a cursor, as the content of an `inspect_reply`.

    None where the kernel here is to tell: in other cells, in scripts, on the `%%on` line itself, while the kernel there is at work, and
    where this process has no line to the machine yet.

    Parameters
    ----------
    code
        The whole cell.
    cursor
        Where in it, in characters.
    detail
        0 for the signature and the docstring, 1 for the source too.
    """
    from nbprov.machines.sanitize.display_data import safe_page
    from nbprov.machines.sanitize.text import clean_text

    begun = _ON.match(code)
    if begun is None or not begun.end() <= cursor <= len(code):
        return None
    body, at = code[begun.end() :], cursor - begun.end()
    told = _answer(
        begun.group(1),
        body,
        lambda agent: agent.inspect(body, at, 1 if detail else 0, deadline=DEADLINE),
    )
    if not told:
        return None
    text = clean_text(
        safe_page(told.get("data"))[:MOST_CHARACTERS]
    )  # what was cut may end in half a sequence
    is_found = told.get("found") is True and bool(text)
    return {
        "status": "ok",
        "found": is_found,
        "data": {"text/plain": text} if is_found else {},
        "metadata": {},
    }


def _answer(
    first: str, body: str, ask: Callable[[Any], Coroutine[Any, Any, dict[str, Any]]]
) -> dict[str, Any]:
    """What the head's kernel of a `%%on` line answers within the deadline; empty where there is no answer."""
    name = _python_on(first)
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
    from nbprov.machines.sanitize.text import clean_text

    start, end, matches = found.get("cursor_start"), found.get("cursor_end"), found.get("matches")
    if (
        type(start) is not int
        or type(end) is not int
        or not isinstance(matches, list)
        or not 0 <= start <= cursor <= end <= len(body)
    ):
        return "", []
    # The front end puts a match in place of what stands before the cursor, so what follows the cursor must not be doubled.
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
