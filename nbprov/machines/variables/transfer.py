"""Copy packed variables between this kernel and the head's, piece by piece.

They go through a box, a file in the agent's folder that serves one copy. Pieces go through the
agent and not through cells, since a kernel keeps the text of every cell and the agent's journal
keeps their output. Each piece says where it belongs, so that it may be sent again after a broken
connection; the cell that takes the whole has one id, so that it runs once.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from nbprov.machines.cells.cells import own_cell
from nbprov.machines.cells.notices import LOOK_SECONDS
from nbprov.machines.cells.output import OnOutput, OutputBudget
from nbprov.machines.idle_inhibitor import others_awake
from nbprov.machines.node_selection import chosen_nodes
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.on_machine.loader import loading
from nbprov.on_machine.pack_values import MARK
from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch
from nbprov.provisioning.live_cluster import LiveCluster, agent_of
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer

FIRST_PIECE = 256 * 1024
"""Bytes of the first piece.

On a slow line it must be over before the sign of life behind it is missed, after 20 s.
"""
LARGEST_PIECE = 4 * 1024 * 1024
QUICK: Seconds = 0.5
"""After a faster piece, the next one has twice its size."""
SLOW: Seconds = 4.0
"""After a slower piece, the next one has half its size."""
SMALLEST_PIECE = 16 * 1024

COPY_LIMIT = TransferLimit(seconds=600.0)
"""The usual one, but for 10 minutes: the line to the machine may be down for so long."""

TOUCH_SECONDS: Seconds = 300.0
"""Interval of the signs that a box is still needed.

The agent removes a box after 900 s without one, and a cell may wait for hours behind another.
"""

MOST_TURNS = 20
"""How often a machine may say that it has less than was sent to it.

Either its agent was restarted, or it lies.
"""

PROGRAM = ("plain_forms", "pack_values")
"""The modules that run in the kernel there."""
LONGEST_ANSWER = 100_000
"""Characters of a machine's message about a copy."""

_RUN = """(lambda b: b.exec(
    b.compile(b.open({path!r}, encoding="utf-8").read(), "nbprov", "exec"),
    {{"__name__": "nbprov_there", "space": b.globals(), "request": {request!r}}},
))(__import__("builtins"))
"""
# The builtins module is used since the cell runs among the user's variables, where
# `from os import *` replaces `open` and `from re import *` replaces `compile`.
# The answer is printed at once, on a line of its own: a thread of the user may print meanwhile.
_ANSWER = """
print("\\n%s\\n" % module.answered(space, request), end="")
for name in [name for name in sys.modules if name.startswith("nbprov_there.")]:
    del sys.modules[name]
"""


Told = Mapping[str, Any]
"""What the program on the machine says about a copy; it may be anything."""


@dataclass
class Copying:
    """The progress of a copy; written by the thread that copies, read by the one that shows it.

    Attributes
    ----------
    doing
        What happens now, with braces in the place of the variables' names.
    done, total
        Bytes; a total of 0 means unknown.
    settled
        Set once nothing more happens, an interrupt on the machine included.
    """

    doing: str = "packing {}"
    done: int = 0
    total: int = 0
    settled: threading.Event = field(default_factory=threading.Event)

    def begin(self, doing: str, total: int = 0) -> None:
        """Start the next phase."""
        self.doing, self.done, self.total = doing, 0, total


class TransferInterrupted(NbprovError):
    """What arrived is not what was sent."""

    code = "variable.torn"


async def send(
    live: LiveCluster,
    data: bytes | memoryview,
    names: Sequence[str],
    copying: Copying,
    on_output: OnOutput,
    limit: TransferLimit = COPY_LIMIT,
) -> Told:
    """Copy what `pack` wrote to the head and load it into the kernel there, all or nothing.

    Returns what the program there said.

    Raises
    ------
    TransferInterrupted
        If the bytes move slower than the limit allows, or what arrived is not what was sent.
    """
    async with _copy(live, copying) as agent, _box(agent) as box:
        copying.begin("sending {}", len(data))
        async with _report_connection(live, agent, on_output), _bounded(limit) as watch:
            path = await _fill(agent, box, data, copying, watch)
        copying.begin("unpacking {} there")
        told = await _run_program(
            live,
            agent,
            {"do": "take", "path": path, "names": list(names), "size": len(data)},
            on_output,
        )
        copying.doing, copying.done, copying.total = "sending {}", len(data), len(data)
        return told


async def fetch(
    live: LiveCluster,
    names: Sequence[str],
    most: int,
    is_plain: bool,
    copying: Copying,
    on_output: OnOutput,
    limit: TransferLimit = COPY_LIMIT,
) -> tuple[Told, list[bytes]]:
    """Pack variables of the head's kernel and copy them here.

    Returns what the program there said, and the bytes of each variable.

    Raises
    ------
    TransferInterrupted
        As `send`.
    """
    async with _copy(live, copying) as agent, _box(agent) as box:
        copying.begin("packing {} there")
        _, path = await agent.boxes.put(box, 0, b"")
        request = {
            "do": "pack",
            "path": path,
            "names": list(names),
            "most": most,
            "is_plain": is_plain,
        }
        told = await _run_program(live, agent, request, on_output)
        if "no" in told:
            return told, []
        sizes = _sizes(told, len(names), most)
        copying.begin("fetching {}", sum(sizes))
        found, begun = [], 0
        async with _report_connection(live, agent, on_output), _bounded(limit) as watch:
            for size in sizes:
                found.append(await _read(agent, box, begun, size, copying, watch))
                begun += size
        return told, found


def _sizes(told: Told, count: int, most: int) -> list[int]:
    """Return the sizes that a machine announced, which must be within the limit."""
    sizes = told.get("sizes")
    if (
        not isinstance(sizes, list)
        or len(sizes) != count
        or not all(type(size) is int and size >= 0 for size in sizes)
        or sum(sizes) > most
    ):
        raise unreadable(told)
    return sizes


def unreadable(told: object) -> TransferInterrupted:
    """Return the error for an answer that is malformed."""
    return TransferInterrupted(
        f"the machine's answer cannot be read: {str(told)[:100]!r}", hint="run the cell again"
    )


@asynccontextmanager
async def _copy(live: LiveCluster, copying: Copying) -> AsyncIterator[AgentClient]:
    """Yield the head's agent while the other nodes are kept awake."""
    head = chosen_nodes(live, "head")
    try:
        async with others_awake(live, head):
            yield agent_of(head[0])
    finally:
        copying.settled.set()


@asynccontextmanager
async def _report_connection(
    live: LiveCluster, agent: AgentClient, on_output: OnOutput
) -> AsyncIterator[None]:
    """Report that the connection is down, and when it is back, once that takes noticeably long."""
    budget = OutputBudget(on_output, "")

    async def look() -> None:
        is_down = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if agent.is_linked == is_down:
                is_down = not is_down
                budget.note(
                    f"the line to {live.name} is "
                    + ("down; the copy goes on once it is back" if is_down else "back")
                )

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _box(agent: AgentClient) -> AsyncIterator[str]:
    """Yield the name of a new box, which is removed in any case.

    While the connection is down it is removed later, and at last by the agent for its age.
    """
    box = uuid.uuid4().hex
    touching = asyncio.create_task(_renew_box(agent, box))
    try:
        yield box
    finally:
        touching.cancel()
        late = asyncio.create_task(_remove_box(agent, box))
        _dropping.add(late)
        late.add_done_callback(_dropping.discard)


_dropping: set[asyncio.Task[None]] = set()


async def _remove_box(agent: AgentClient, box: str) -> None:
    with suppress(NbprovError, CloudError):
        await agent.boxes.drop(box)


async def _renew_box(agent: AgentClient, box: str) -> None:
    while True:
        await asyncio.sleep(TOUCH_SECONDS)
        with suppress(NbprovError, CloudError):
            await agent.boxes.get(box, 0, 0)


async def _copy_piece(piece: Awaitable[Any], size: int) -> tuple[Any, int]:
    """Return a piece's result, and the size of the next piece."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    found = await piece
    took = loop.time() - begun
    fitting = size * 2 if took < QUICK else size // 2 if took > SLOW else size
    return found, max(SMALLEST_PIECE, min(LARGEST_PIECE, fitting))


@asynccontextmanager
async def _bounded(limit: TransferLimit) -> AsyncIterator[TransferWatch]:
    """Yield the watch of a copy, which ends with an error once it passes its limit."""
    try:
        async with bounded_transfer(limit) as watch:
            with watch.moving():
                yield watch
    except TransferTooSlow as slow:
        raise TransferInterrupted(
            f"the copy {slow}, and was ended", hint="run the cell again"
        ) from None


async def _fill(
    agent: AgentClient,
    box: str,
    data: bytes | memoryview,
    copying: Copying,
    watch: TransferWatch | None = None,
) -> str:
    """Write all bytes, from wherever the machine says that it is; return the box's path."""
    piece, at, turns = FIRST_PIECE, 0, 0
    view = memoryview(data)
    while True:
        part = view[at : at + piece]
        (there, path), piece = await _copy_piece(agent.boxes.put(box, at, part), piece)
        if not 0 <= there <= at + len(part):
            raise unreadable(there)
        turns += there < at + len(part)
        if turns > MOST_TURNS:
            raise TransferInterrupted(
                "the machine loses what is sent to it",
                hint="its agent is ended again and again; %nbprov logs, or another machine",
            )
        if watch is not None:
            watch.moved(max(0, there - at))
        at = copying.done = there
        if at >= len(view):
            return str(path)


async def _read(
    agent: AgentClient, box: str, begun: int, size: int, copying: Copying, watch: TransferWatch
) -> bytes:
    piece, pieces, got = FIRST_PIECE, [], 0
    while got < size:
        data, piece = await _copy_piece(
            agent.boxes.get(box, begun + got, min(piece, size - got)), piece
        )
        if not data:
            raise TransferInterrupted(
                "what came back from the machine is less than it said", hint="run the cell again"
            )
        pieces.append(data)
        got += len(data)
        copying.done += len(data)
        watch.moved(len(data))
    return b"".join(pieces)


@cache
def _program() -> str:
    return loading(PROGRAM) + _ANSWER


async def _run_program(
    live: LiveCluster, agent: AgentClient, request: dict[str, Any], on_output: OnOutput
) -> Told:
    """Run our program on a box in the kernel there.

    The program comes in a box of its own, since a kernel keeps the text of each cell.
    """
    async with _box(agent) as program:
        path = await _fill(agent, program, _program().encode(), Copying())
        text = (
            await own_cell(live, _RUN.format(path=path, request=request), on_output=on_output)
        ).text
    lines = [line for line in text.splitlines() if line.startswith(MARK)]
    if not lines or len(lines[-1]) > LONGEST_ANSWER:
        raise unreadable(text[-200:])
    try:
        told = json.loads(lines[-1][len(MARK) :])
    except (ValueError, RecursionError):
        raise unreadable(lines[-1]) from None
    if not isinstance(told, dict):
        raise unreadable(told)
    return told
