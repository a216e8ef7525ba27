"""Variables on their way between this kernel and the head's: packed, copied piece by piece through a box on the machine, taken there or here once.

A box is a file in the agent's folder, for one copy. Pieces go by the agent and not by cells: a kernel keeps the text of every cell, and the agent's journal
what cells put out. Each says where it belongs, so after a cut it is sent again and is there once; the cell that takes the whole has one id, so it runs once.
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

from nbprov.machines.agents import agent_of
from nbprov.machines.cells.cells import own_cell
from nbprov.machines.cells.notices import LOOK_SECONDS
from nbprov.machines.cells.output import Budget, OnOutput
from nbprov.machines.idle_inhibitor import others_awake
from nbprov.machines.node_selection import chosen_nodes
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.on_machine.loader import loading
from nbprov.on_machine.pack_values import MARK
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.agent.client import AgentClient

FIRST_PIECE = 256 * 1024
"""Bytes of a first piece: on a slow line it must be over before the sign of life that waits behind it is missed, after 20 s."""
LARGEST_PIECE = 4 * 1024 * 1024
QUICK: Seconds = 0.5
"""A piece that took less is followed by one of twice its size."""
SLOW: Seconds = 4.0
"""A piece that took more is followed by one of half its size."""
SMALLEST_PIECE = 16 * 1024

TOUCH_SECONDS: Seconds = 300.0
"""Between two signs that a box is still wanted: its agent removes it after 900 s without one, and a cell may wait for hours behind another."""

MOST_TURNS = 20
"""So often may a machine say that it has less than it was sent: its agent was started anew, or it lies."""

PROGRAM = ("plain_forms", "pack_values")
"""The modules that run in the kernel there."""
LONGEST_ANSWER = 100_000
"""Characters of what a machine says of a copy."""

_RUN = """(lambda b: b.exec(
    b.compile(b.open({path!r}, encoding="utf-8").read(), "nbprov", "exec"),
    {{"__name__": "nbprov_there", "space": b.globals(), "request": {request!r}}},
))(__import__("builtins"))
"""
# By `builtins`, since the cell runs among the user's variables: `from os import *` brings another open, `from re import *` another compile.
# In one piece, on a line of its own: a thread of the user's may have begun one, and may print meanwhile.
_ANSWER = """
print("\\n%s\\n" % module.answered(space, request), end="")
for name in [name for name in sys.modules if name.startswith("nbprov_there.")]:
    del sys.modules[name]
"""


Told = Mapping[str, Any]
"""What the program on the machine says of a copy: a machine's words."""


@dataclass
class Copying:
    """How far a copy is. Written by the thread that copies, read by the one that shows it.

    Attributes
    ----------
    doing
        What goes on, with braces where the variables are named.
    done, total
        Bytes; a total of 0 is not known.
    settled
        Set once nothing more is done for it, an interrupt on the machine included.
    """

    doing: str = "packing {}"
    done: int = 0
    total: int = 0
    settled: threading.Event = field(default_factory=threading.Event)

    def begin(self, doing: str, total: int = 0) -> None:
        """Something else is being done from now on."""
        self.doing, self.done, self.total = doing, 0, total


class Torn(NbprovError):
    """What came is not what was sent."""

    code = "variable.torn"


async def send(
    live: LiveCluster,
    data: bytes | memoryview,
    names: Sequence[str],
    copying: Copying,
    on_output: OnOutput,
) -> Told:
    """Copy what `pack` made to the head and take it into the kernel there, all of it or nothing; what that says."""
    async with _copy(live, copying) as agent, _box(agent) as box:
        copying.begin("sending {}", len(data))
        async with _line_told(live, agent, on_output):
            path = await _fill(agent, box, data, copying)
        copying.begin("unpacking {} there")
        told = await _asked(
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
) -> tuple[Told, list[bytes]]:
    """Pack variables of the head's kernel and copy them here; what it said, and the bytes of each."""
    async with _copy(live, copying) as agent, _box(agent) as box:
        copying.begin("packing {} there")
        _, path = await agent.put(box, 0, b"")
        request = {
            "do": "pack",
            "path": path,
            "names": list(names),
            "most": most,
            "is_plain": is_plain,
        }
        told = await _asked(live, agent, request, on_output)
        if "no" in told:
            return told, []
        sizes = _sizes(told, len(names), most)
        copying.begin("fetching {}", sum(sizes))
        found, begun = [], 0
        async with _line_told(live, agent, on_output):
            for size in sizes:
                found.append(await _read(agent, box, begun, size, copying))
                begun += size
        return told, found


def _sizes(told: Told, count: int, most: int) -> list[int]:
    """What a machine says of the sizes is believed up to the limit, and then held to it."""
    sizes = told.get("sizes")
    if (
        not isinstance(sizes, list)
        or len(sizes) != count
        or not all(type(size) is int and size >= 0 for size in sizes)
        or sum(sizes) > most
    ):
        raise unreadable(told)
    return sizes


def unreadable(told: object) -> Torn:
    """The error for an answer that is none."""
    return Torn(
        f"the machine's answer cannot be read: {str(told)[:100]!r}", hint="run the cell again"
    )


# ---------------------------------------------------------------- the box


@asynccontextmanager
async def _copy(live: LiveCluster, copying: Copying) -> AsyncIterator[AgentClient]:
    """The head's agent, the other nodes kept awake meanwhile."""
    head = chosen_nodes(live, "head")
    try:
        async with others_awake(live, head):
            yield agent_of(head[0])
    finally:
        copying.settled.set()


@asynccontextmanager
async def _line_told(
    live: LiveCluster, agent: AgentClient, on_output: OnOutput
) -> AsyncIterator[None]:
    """Say that the line is down, and when it is back, where that takes longer than somebody would notice."""
    budget = Budget(on_output, "")

    async def look() -> None:
        is_down = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if agent.is_linked == is_down:
                is_down = not is_down
                budget.note(
                    f"the line to {live.name} is {'down; the copy goes on once it is back' if is_down else 'back'}"
                )

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _box(agent: AgentClient) -> AsyncIterator[str]:
    """The name of a box, which is removed whatever happens: behind the line where that is down, and by its age in the end."""
    box = uuid.uuid4().hex
    touching = asyncio.create_task(_touched(agent, box))
    try:
        yield box
    finally:
        touching.cancel()
        late = asyncio.create_task(_dropped(agent, box))
        _dropping.add(late)
        late.add_done_callback(_dropping.discard)


_dropping: set[asyncio.Task[None]] = set()


async def _dropped(agent: AgentClient, box: str) -> None:
    with suppress(NbprovError, CloudError):
        await agent.drop(box)


async def _touched(agent: AgentClient, box: str) -> None:
    while True:
        await asyncio.sleep(TOUCH_SECONDS)
        with suppress(NbprovError, CloudError):
            await agent.get(box, 0, 0)


async def _timed(piece: Awaitable[Any], size: int) -> tuple[Any, int]:
    """What a piece gave, and the size of the next one."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    found = await piece
    took = loop.time() - begun
    fitting = size * 2 if took < QUICK else size // 2 if took > SLOW else size
    return found, max(SMALLEST_PIECE, min(LARGEST_PIECE, fitting))


async def _fill(agent: AgentClient, box: str, data: bytes | memoryview, copying: Copying) -> str:
    """Write all of it, from wherever the machine says that it is; its path there."""
    piece, at, turns = FIRST_PIECE, 0, 0
    view = memoryview(data)
    while True:
        part = view[at : at + piece]
        (there, path), piece = await _timed(agent.put(box, at, part), piece)
        if not 0 <= there <= at + len(part):
            raise unreadable(there)
        turns += there < at + len(part)
        if turns > MOST_TURNS:
            raise Torn(
                "the machine loses what is sent to it",
                hint="its agent is ended again and again; %nbprov logs, or another machine",
            )
        at = copying.done = there
        if at >= len(view):
            return str(path)


async def _read(agent: AgentClient, box: str, begun: int, size: int, copying: Copying) -> bytes:
    piece, pieces, got = FIRST_PIECE, [], 0
    while got < size:
        data, piece = await _timed(agent.get(box, begun + got, min(piece, size - got)), piece)
        if not data:
            raise Torn(
                "what came back from the machine is less than it said", hint="run the cell again"
            )
        pieces.append(data)
        got += len(data)
        copying.done += len(data)
    return b"".join(pieces)


# ---------------------------------------------------------------- the kernel there


@cache
def _program() -> str:
    return loading(PROGRAM) + _ANSWER


async def _asked(
    live: LiveCluster, agent: AgentClient, request: dict[str, Any], on_output: OnOutput
) -> Told:
    """Run our program on a box in the kernel there. It comes by a box of its own, since a kernel keeps the text of each cell."""
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
