"""Read what jobs print: all of it, its last lines, or as it comes; always safe to show."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.machines.node_selection import one_node
from nbprov.machines.sanitize.text import clean_text
from nbprov.model.clock import Seconds
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import OutputPiece

from .jobs import Job, no_job

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient

LOG_BYTES = 32 * 1024 * 1024
"""Bytes that an agent keeps of one job; of a machine that sends more, only the last are taken."""
SHOWN_LINES = 1000
"""Lines of a log that are shown by default: as many as a person scrolls through."""
SHOWN_BYTES = 1024 * 1024
"""Bytes that are shown by default, however long the lines are, so that a browser draws them."""
PIECE = 4096
"""Smaller pieces are joined up to this length; single characters would take fifty times more."""
STALL_SECONDS: Seconds = 60.0
"""How long to wait for expected output; a broken connection is renewed in less."""
MORE = 8
"""The last N lines are searched in the last N outputs, then in this many times as many."""

DROPPED = "nbprov: {} outputs before this were dropped: a machine keeps the last 32 MB of a job\n"


@dataclass(frozen=True, slots=True)
class Log:
    """A log, or the end of one.

    Attributes
    ----------
    text
        The text, cleaned of all controls but colours.
    earlier
        The number of lines before it, or a lower bound.
    is_counted
        Whether `earlier` is exact.
    """

    text: str
    earlier: int = 0
    is_counted: bool = True


class LogWriter:
    """Turns outputs into text.

    Pieces of a line are joined; what the other stream prints in between gets its own line.
    """

    def __init__(self) -> None:
        self._open = ""

    def text(self, output: OutputPiece) -> str:
        """Return the text of one output; empty if it has none."""
        if output.kind == "gap":
            first, last = output.content.get("from"), output.content.get("to")
            kind, text = (
                "note",
                DROPPED.format(
                    last - first + 1 if type(first) is int and type(last) is int else "some"
                ),
            )
        elif output.kind in ("stdout", "stderr", "note"):
            kind, text = output.kind, clean_text(output.text)
        else:
            return ""
        if self._open not in ("", kind):
            text = "\n" + text
        self._open = "" if text.endswith("\n") else kind
        return text


class Tail:
    """Keeps the last lines of a text that comes in pieces, within limits of lines and characters.

    Pieces are split only at the end.
    """

    def __init__(self, lines: int | None, size: int) -> None:
        self._most, self._size = lines, size
        self._pieces: deque[str] = deque()
        self._lines = self._held = self._dropped = 0

    def add(self, text: str) -> None:
        """Add the next piece."""
        if not text:
            return
        if self._pieces and len(self._pieces[-1]) + len(text) <= PIECE:
            text, more = self._pieces.pop() + text, text
        else:
            more = text
        self._pieces.append(text)
        self._lines += more.count("\n")
        self._held += len(more)
        while len(self._pieces) > 1:
            first = self._pieces[0]
            lines = first.count("\n")
            is_too_much = self._held - len(first) > self._size or (
                self._most is not None and self._lines - lines > self._most
            )
            if not is_too_much:
                return
            self._pieces.popleft()
            self._dropped += lines
            self._lines -= lines
            self._held -= len(first)

    def result(self) -> tuple[str, int]:
        """Return the kept text, and the number of lines before it."""
        text = "".join(self._pieces)
        start = max(0, len(text) - self._size)
        if start:
            start = (
                text.find("\n", start - 1, -1) + 1 or start
            )  # at the start of a line, unless there is only one line
        if self._most is not None:
            place = len(text) - text.endswith("\n")
            for _ in range(self._most):
                place = text.rfind("\n", 0, place)
                if place < 0:
                    break
            start = max(start, place + 1)
        return text[start:], self._dropped + text.count("\n", 0, start)


def tail_of(text: str, lines: int | None, size: int = SHOWN_BYTES) -> Log:
    """Return the end of a text.

    Examples
    --------
    >>> tail_of("a\\nb\\nc", 2)
    Log(text='b\\nc', earlier=1, is_counted=True)
    """
    tail = Tail(lines, size)
    tail.add(text)
    return Log(*tail.result())


def node_of(live: LiveCluster, node: int) -> Node:
    """Return the node whose log of a job is wanted.

    Raises
    ------
    UsageError
        If that node has no part of the job.
    """
    return one_node(live, node)


async def read_log(
    live: LiveCluster, job: Job, *, node: int = 0, lines: int | None = None, size: int = LOG_BYTES
) -> Log:
    """Return the output of a job so far, or its last lines.

    Raises
    ------
    NotFound
        If that node has no part of the job.
    """
    agent = agent_of(node_of(live, node))
    known = await _last(agent, live.name, job.id)
    since = 0 if lines is None else max(0, known - lines)
    while True:
        text, earlier = await _read(agent, job.id, since, known, Tail(lines, size))
        if not since or earlier or lines is None:
            return Log(text, since + earlier, is_counted=not since)
        # There were not enough lines: progress bars write one in many pieces.
        since = max(0, known - (known - since) * MORE)


async def _read(agent: AgentClient, id: str, since: int, known: int, tail: Tail) -> tuple[str, int]:
    writer = LogWriter()
    if known > since:
        outputs = aiter(agent.job_output(id, since))
        try:
            async with asyncio.timeout(None) as pause:
                while True:
                    pause.reschedule(asyncio.get_running_loop().time() + STALL_SECONDS)
                    output = await anext(outputs)
                    tail.add(writer.text(output))
                    if output.number >= known:
                        break
        except (StopAsyncIteration, TimeoutError):
            pass  # the disk there is full, and the last counted outputs were never written
    return tail.result()


async def _last(agent: AgentClient, cluster: str, id: str) -> int:
    try:
        last = (await agent.task(id)).last
        return last if isinstance(last, int) else 0  # a machine may say anything
    except AgentError as error:
        if error.code != "agent.no-task":
            raise
        raise no_job(cluster, id, ()) from None


async def follow_log(
    live: LiveCluster, job: Job, *, node: int = 0, lines: int | None = None
) -> AsyncGenerator[str, None]:
    """Yield the last lines of a job's output, then new output up to the job's end.

    Leaving the loop does not touch the job.
    """
    agent = agent_of(node_of(live, node))
    known = await _last(agent, live.name, job.id)
    since = 0 if lines is None else max(0, known - lines)
    writer, tail = LogWriter(), Tail(lines, SHOWN_BYTES)
    is_live = not known
    async for output in agent.job_output(job.id, since):
        text = writer.text(output)
        if is_live:
            if text:
                yield text
            continue
        tail.add(text)
        if output.number >= known:
            is_live = True
            yield tail.result()[0]
