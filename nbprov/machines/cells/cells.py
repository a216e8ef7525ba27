"""Run cells on a cluster: Python in a kernel that lives there, and shell scripts."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nbprov.machines.idle_inhibitor import others_awake
from nbprov.machines.node_selection import chosen_nodes
from nbprov.machines.node_variables import node_environment
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.agent.client import AgentClient
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import Environment
from nbprov.remote.agent.output_stream import OutputStream
from nbprov.remote.agent.transport import RECONNECT_SECONDS

from .notices import watching
from .output import CellResult, Message, OnOutput, OutputBudget, OutputCollation, RemoteCellError

__all__ = [
    "CellResult",
    "Message",
    "OnOutput",
    "RemoteCellError",
    "RunningCell",
    "bash_cell",
    "own_cell",
    "python_cell",
]

INTERRUPT_SECONDS: Seconds = 3.0
"""How long delivering a remote interrupt may delay the end of the local wait.

If the connection is down, delivery is tried further in the background.
"""

LAST_WORDS_SECONDS: Seconds = 1.0
"""How long an interrupted cell is followed for its last output, and to see whether it ends."""

OWN_PREFIX = "own-"
"""Starts the ids of nbprov's own small cells, which are not listed."""


class RunningCell:
    """One cell while it runs; also tells the waiting thread what became of an interrupt.

    Attributes
    ----------
    id
        The cell's id on every node that it runs on.
    has_begun
        Whether a machine has accepted it.
    is_left
        Set before the wait is cancelled if the cell is to continue.
    settled
        Set once an interrupt has been handled.
    undelivered, still_running
        Nodes that the interrupt did not reach (delivery is tried further), and nodes whose cell
        had not ended a moment after it.
    """

    def __init__(self, kind: str = "cell") -> None:
        self.id = f"{kind}-{uuid.uuid4().hex[:12]}"
        self.has_begun = False
        self.is_left = False
        self.settled = threading.Event()
        self.undelivered: list[int] = []
        self.still_running: list[int] = []


async def python_cell(
    live: LiveCluster,
    code: str,
    *,
    nodes: str = "head",
    on_output: OnOutput = None,
    env: Environment | None = None,
    underway: RunningCell | None = None,
) -> CellResult:
    """Run Python on the chosen nodes, each in a kernel whose variables persist.

    Cancelling this call interrupts the remote cells.

    Parameters
    ----------
    env
        Variables that are set in the kernel's environment before the code runs; they persist.

    Raises
    ------
    RemoteCellError
        With the traceback of the first node whose cell raised.
    """

    async def start(agent: AgentClient, node: Node, id: str) -> OutputStream:
        variables = {**node_environment(live, node), **(env or {})}
        return await agent.cell(code, env=variables, id=id, deadline=RECONNECT_SECONDS, follow=True)

    return await _on_nodes(live, nodes, start, on_output, underway or RunningCell())


async def bash_cell(
    live: LiveCluster,
    command: str,
    *,
    nodes: str = "head",
    on_output: OnOutput = None,
    env: Environment | None = None,
    underway: RunningCell | None = None,
) -> CellResult:
    """Run a shell script on the chosen nodes.

    Raises
    ------
    RemoteCellError
        If it ends with a nonzero code on any node.
    """

    async def start(agent: AgentClient, node: Node, id: str) -> OutputStream:
        variables = {**node_environment(live, node), **(env or {})}
        return await agent.shell(
            command, env=variables, id=id, deadline=RECONNECT_SECONDS, follow=True
        )

    return await _on_nodes(live, nodes, start, on_output, underway or RunningCell("bash"))


async def own_cell(live: LiveCluster, code: str, *, on_output: OnOutput = None) -> CellResult:
    """Run a small cell of nbprov's own in the head's kernel.

    It is not shown, not listed, and not in that kernel's history.
    """

    async def start(agent: AgentClient, node: Node, id: str) -> OutputStream:
        variables = node_environment(live, node)
        return await agent.cell(
            code,
            env=variables,
            id=id,
            deadline=RECONNECT_SECONDS,
            silent=True,
            follow=True,
            verbatim=True,
        )

    return await _on_nodes(live, "head", start, on_output, RunningCell(OWN_PREFIX + "cell"))


Start = Callable[[AgentClient, Node, str], Any]


async def _on_nodes(
    live: LiveCluster, nodes: str, start: Start, on_output: OnOutput, underway: RunningCell
) -> CellResult:
    chosen = chosen_nodes(live, nodes)
    budget = OutputBudget(on_output, f"%nbprov cells {live.name} {underway.id} --save FILE")
    is_many = len(chosen) > 1
    gathered = [
        OutputCollation(
            budget, f"{live.run_id}/{n.instance.node}", f"[{n.instance.node}] " if is_many else ""
        )
        for n in chosen
    ]
    try:
        async with others_awake(live, chosen):
            if not is_many:
                await _one(live, chosen[0], start, gathered[0], budget, underway)
                return gathered[0].result()
            return await _several(live, chosen, start, gathered, budget, underway)
    finally:
        underway.settled.set()


async def _several(
    live: LiveCluster,
    chosen: list[Node],
    start: Start,
    gathered: list[OutputCollation],
    budget: OutputBudget,
    underway: RunningCell,
) -> CellResult:
    """Run a cell on all nodes to its end on each, whatever happens on the others.

    Their displays follow in the order of the nodes, and one error names all failed nodes.
    """

    async def one(node: Node, mine: OutputCollation) -> None:
        await _one(live, node, start, mine, budget, underway)
        if mine.trouble:
            budget.note(f"{mine.trouble}")

    tasks = [
        asyncio.create_task(one(node, mine)) for node, mine in zip(chosen, gathered, strict=True)
    ]
    try:
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.gather(*tasks, return_exceptions=True)  # each delivers the interrupt
        raise
    finally:
        for mine in gathered:
            mine.flush()
    failed = [
        node.instance.node
        for node, mine, end in zip(chosen, gathered, ends, strict=True)
        if mine.trouble or end is not None
    ]
    if failed:
        raise _error_of_several(
            failed,
            len(chosen),
            [end or _error_of(mine) for mine, end in zip(gathered, ends, strict=True)],
        )
    results = {
        node.instance.node: mine.result() for node, mine in zip(chosen, gathered, strict=True)
    }
    first = next(iter(results.values()))
    return CellResult(first.text, first.value, 0, results)


def _error_of(gathered: OutputCollation) -> BaseException | None:
    try:
        gathered.result()
    except RemoteCellError as error:
        return error
    return None


def _error_of_several(
    failed: list[int], count: int, ends: list[BaseException | None]
) -> BaseException:
    first = next(error for error in ends if error is not None)
    if not isinstance(first, NbprovError):
        return first
    where = f"node {failed[0]}" if len(failed) == 1 else f"nodes {', '.join(map(str, failed))}"
    words = f"failed on {where} of {count}: {first.message}"
    if isinstance(first, RemoteCellError):
        traceback = (
            (f"failed on {where} of {count}; the first of them:", *first.traceback)
            if first.traceback
            else ()
        )
        return RemoteCellError(words, traceback=traceback, hint=first.hint, code=first.code)
    return NbprovError(words, hint=first.hint, code=first.code)


async def _one(
    live: LiveCluster,
    node: Node,
    start: Start,
    gathered: OutputCollation,
    budget: OutputBudget,
    underway: RunningCell,
) -> None:
    agent = agent_of(node)
    following: OutputStream | None = None
    try:
        async with watching(live, node, agent, underway.id, gathered, budget) as watch:
            following = await start(agent, node, underway.id)
            underway.has_begun = True
            watch.began(following)
            async for output in following:
                gathered.take(output)
    except asyncio.CancelledError:
        if not underway.is_left:
            await _interrupt(node, agent, following, gathered, underway)
        raise
    except AgentError as error:
        if error.code not in ("agent.lost", "agent.timeout") or underway.id.startswith(OWN_PREFIX):
            raise
        raise AgentError(
            error.message,
            hint=_where_the_rest_is(live, node, underway, following is not None),
            code=error.code,
        ) from error


def _where_the_rest_is(live: LiveCluster, node: Node, underway: RunningCell, is_taken: bool) -> str:
    """Return the hint about a cell whose machine could not be reached again."""
    which = f" --node {node.instance.node}" if node.instance.node else ""
    look = f"%nbprov cells {live.name} {underway.id}{which} -f"
    goes_on = (
        "the cell goes on there and its output is kept"
        if is_taken
        else "the cell may have begun there"
    )
    return (
        f"{goes_on}: {look} reads the rest once the machine can be reached;"
        " %clusters shows whether it still runs"
    )


async def _interrupt(
    node: Node,
    agent: AgentClient,
    following: OutputStream | None,
    gathered: OutputCollation,
    underway: RunningCell,
) -> None:
    """Deliver an interrupt, then follow the cell for a moment."""
    number = node.instance.node
    asking = asyncio.create_task(_deliver(agent, underway.id))
    _delivering.add(asking)
    asking.add_done_callback(_delivering.discard)
    done, _ = await asyncio.wait({asking}, timeout=INTERRUPT_SECONDS)
    if not done:
        underway.undelivered.append(number)
        return
    if not asking.result() or following is None:
        return
    try:
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            async for output in agent.job_output(following.id, following.number):
                gathered.take(output)
                if output.kind == "end":
                    return
    except (TimeoutError, NbprovError):
        underway.still_running.append(number)


_delivering: set[asyncio.Task[bool]] = set()


async def _deliver(agent: AgentClient, id: str) -> bool:
    """Interrupt a cell, reconnecting if needed; return False if it does not run there."""
    with suppress(NbprovError):
        return not (await agent.cancel_job(id, deadline=RECONNECT_SECONDS)).is_over
    return False
