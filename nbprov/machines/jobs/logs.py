"""What jobs print: whole, the end of it, or as it comes; always safe to show."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.machines.agents import agent_of
from nbprov.machines.node_selection import one_node
from nbprov.machines.sanitize.text import clean_text
from nbprov.model.clock import Seconds
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import Output

from .jobs import Job, no_job

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient

LOG_BYTES = 32 * 1024 * 1024
"""Of one job on one node: what its agent keeps. One that sends more is not believed, and its last so many bytes are taken."""
SHOWN_LINES = 1000
"""What is shown of a log unless asked otherwise: as much as a person scrolls through, and a browser draws without a pause."""
SHOWN_BYTES = 1024 * 1024
"""And no more than this, however long its lines are."""
PIECE = 4096
"""Smaller pieces are joined to so long ones: millions of single characters would each take fifty times their room."""
STALL_SECONDS: Seconds = 60.0
"""Without one output more of those that are there: they are not coming. A line that broke is renewed in less."""
MORE = 8
"""The last N lines are looked for in the last N outputs, and where they are not all there in so many times as many."""

DROPPED = "nbprov: {} outputs before this were dropped: a machine keeps the last 32 MB of a job\n"


@dataclass(frozen=True, slots=True)
class Log:
    """A log, or the end of one.

    Attributes
    ----------
    text
        Cleaned of everything but colours.
    earlier
        Lines before it that are not in it; where they were not counted, at least so many.
    is_counted
        Whether `earlier` is exact.
    """

    text: str
    earlier: int = 0
    is_counted: bool = True


class Writer:
    """Turns outputs into text: pieces of a line are joined, and what the other stream puts in between gets a line of its own."""

    def __init__(self) -> None:
        self._open = ""

    def text(self, output: Output) -> str:
        """The text of one output; empty where it has none."""
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
    """The last lines of a text that comes in pieces, within a number of lines and of characters. Pieces are taken apart at the end alone."""

    def __init__(self, lines: int | None, size: int) -> None:
        self._most, self._size = lines, size
        self._pieces: deque[str] = deque()
        self._lines = self._held = self._dropped = 0

    def add(self, text: str) -> None:
        """Take in what comes next."""
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
        """What is left, and how many lines were before it."""
        text = "".join(self._pieces)
        start = max(0, len(text) - self._size)
        if start:
            start = (
                text.find("\n", start - 1, -1) + 1 or start
            )  # not in the middle of a line, unless there is but one
        if self._most is not None:
            place = len(text) - text.endswith("\n")
            for _ in range(self._most):
                place = text.rfind("\n", 0, place)
                if place < 0:
                    break
            start = max(start, place + 1)
        return text[start:], self._dropped + text.count("\n", 0, start)


def tail_of(text: str, lines: int | None, size: int = SHOWN_BYTES) -> Log:
    """The end of a text.

    Examples
    --------
    >>> tail_of("a\\nb\\nc", 2)
    Log(text='b\\nc', earlier=1, is_counted=True)
    """
    tail = Tail(lines, size)
    tail.add(text)
    return Log(*tail.result())


def node_of(live: LiveCluster, node: int) -> Node:
    """The node whose log of a job is wanted.

    Raises
    ------
    UsageError
        If it has no part of it.
    """
    return one_node(live, node)


async def read_log(
    live: LiveCluster, job: Job, *, node: int = 0, lines: int | None = None, size: int = LOG_BYTES
) -> Log:
    """The output of a job so far, or its last lines.

    Raises
    ------
    NotFound
        If that node has no part of it.
    """
    agent = agent_of(node_of(live, node))
    known = await _last(agent, live.name, job.id)
    since = 0 if lines is None else max(0, known - lines)
    while True:
        text, earlier = await _read(agent, job.id, since, known, Tail(lines, size))
        if not since or earlier or lines is None:
            return Log(text, since + earlier, is_counted=not since)
        # Not enough of them: progress bars write a line in many pieces.
        since = max(0, known - (known - since) * MORE)


async def _read(agent: AgentClient, id: str, since: int, known: int, tail: Tail) -> tuple[str, int]:
    writer = Writer()
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
            pass  # a full disk there: the last of what is counted was never written
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
    """The last lines of a job's output, then what comes, to its end. Leaving the loop does not touch the job."""
    agent = agent_of(node_of(live, node))
    known = await _last(agent, live.name, job.id)
    since = 0 if lines is None else max(0, known - lines)
    writer, tail = Writer(), Tail(lines, SHOWN_BYTES)
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
