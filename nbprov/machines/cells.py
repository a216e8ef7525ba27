"""Cells that run on a cluster: Python in a kernel that lives there, and shell scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError, UsageError
from nbprov.provisioning.live import LiveCluster, Node
from nbprov.remote.agent.client import AgentClient, Following
from nbprov.remote.agent.values import Output

from .variables import node_environment

Message = dict[str, Any]
OnOutput = Callable[[Message], None] | None

TOUCH_EVERY: Seconds = 60.0
"""A node that looks on while another one works, and does not hear of it by itself, is told so this often: its idle guard must not end it."""

INTERRUPT_SECONDS: Seconds = 5.0
"""How long a remote interrupt may take to be delivered before the local wait ends anyway."""


class RemoteError(NbprovError):
    """Code on the machine raised, or a script ended with a code other than 0.

    Attributes
    ----------
    traceback
        The remote traceback, coloured, as the kernel there wrote it.
    """

    code = "remote"

    def __init__(self, message: str, *, traceback: Sequence[str] = (), hint: str = "", code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.traceback = tuple(traceback)

    def _render_traceback_(self) -> list[str]:
        return list(self.traceback) or self.render()


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a cell gave.

    Attributes
    ----------
    text
        All text it wrote, results in their text form included.
    value
        Text form of the last expression; empty where there was none.
    exit_code
        Of a shell script; 0 for Python.
    """

    text: str
    value: str = ""
    exit_code: int = 0


def chosen_nodes(live: LiveCluster, nodes: str) -> list[Node]:
    """The nodes that `head`, `all` or a number means.

    Raises
    ------
    UsageError
        If there is no such node.
    """
    if nodes == "head":
        return [live.head]
    if nodes == "all":
        return list(live.nodes)
    if nodes.isdecimal() and int(nodes) < len(live.nodes):
        return [live.nodes[int(nodes)]]
    raise UsageError(f"{live.name} has no node {nodes!r}", hint=f"nodes: head, all, 0 to {len(live.nodes) - 1}")


async def python_cell(live: LiveCluster, code: str, *, nodes: str = "head", on_output: OnOutput = None) -> CellResult:
    """Run Python on the chosen nodes; each has a kernel whose variables live on.

    Cancelling this interrupts the remote cells.

    Raises
    ------
    RemoteError
        With the traceback of the first node whose cell raised.
    """

    async def start(agent: AgentClient, node: Node) -> Following:
        return await agent.cell(code, env=node_environment(live, node))

    return await _on_nodes(live, nodes, start, on_output)


async def bash_cell(live: LiveCluster, command: str, *, nodes: str = "head", on_output: OnOutput = None) -> CellResult:
    """Run a shell script on the chosen nodes.

    Raises
    ------
    RemoteError
        If it ends with a code other than 0 on any.
    """

    async def start(agent: AgentClient, node: Node) -> Following:
        return await agent.shell(command, env=node_environment(live, node))

    return await _on_nodes(live, nodes, start, on_output)


async def _on_nodes(live: LiveCluster, nodes: str, start: Callable[[AgentClient, Node], Any], on_output: OnOutput) -> CellResult:
    chosen = chosen_nodes(live, nodes)
    async with _others_awake(live, chosen):
        results = await asyncio.gather(*(_one(node, start, on_output, prefix=len(chosen) > 1) for node in chosen))
    return results[0]


async def _one(node: Node, start: Callable[[AgentClient, Node], Any], on_output: OnOutput, *, prefix: bool) -> CellResult:
    agent = agent_of(node)
    following: Following = await start(agent, node)
    gathered = _Gathered(f"[{node.instance.node}] " if prefix else "", on_output)
    try:
        async for output in following:
            gathered.take(output)
    except asyncio.CancelledError:
        await asyncio.wait_for(asyncio.shield(agent.cancel_job(following.id)), INTERRUPT_SECONDS)
        raise
    return gathered.result()


def agent_of(node: Node) -> AgentClient:
    """The agent of a node of an attached cluster."""
    assert node.agent is not None, "attach() opens every agent"
    return node.agent


@asynccontextmanager
async def _others_awake(live: LiveCluster, chosen: list[Node]) -> AsyncIterator[None]:
    # Agents that hear of each other need nobody for this, nor does it end with this kernel.
    others = [node for rank, node in enumerate(live.nodes) if rank in live.unheard and node not in chosen]

    async def touch() -> None:
        while True:
            # One that cannot be reached now is told the next time; the cell itself goes on.
            await asyncio.gather(*(agent_of(node).shell(":", name="touch") for node in others), return_exceptions=True)
            await asyncio.sleep(TOUCH_EVERY)

    task = asyncio.create_task(touch()) if others else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


class _Gathered:
    """Turns the agent's outputs into Jupyter messages, and remembers what the result needs."""

    def __init__(self, prefix: str, on_output: OnOutput) -> None:
        self._prefix = prefix
        self._on_output = on_output
        self._text: list[str] = []
        self._value = ""
        self._end: Output | None = None
        self._error: Output | None = None

    def take(self, output: Output) -> None:
        """Pass one output on."""
        if output.kind in ("stdout", "stderr", "stream", "note"):
            self._stream(output)
        elif output.kind in ("display_data", "execute_result", "update_display_data"):
            value = str(output.content.get("data", {}).get("text/plain", ""))
            self._text.append(value)
            if output.kind == "execute_result":
                self._value = value
            self._send(output.kind, dict(output.content))
        elif output.kind == "clear_output":
            self._send("clear_output", dict(output.content))
        elif output.kind == "error":
            self._error = output
        elif output.kind == "gap":
            self._send("stream", {"name": "stderr", "text": "… output was dropped here: the machine's journal was full …\n"})
        elif output.kind == "end":
            self._end = output

    def _stream(self, output: Output) -> None:
        name = str(output.content.get("name", "")) or ("stdout" if output.kind == "stdout" else "stderr")
        text = output.text if output.kind == "stream" or output.text.endswith("\n") else output.text + "\n"
        if output.kind != "note":
            self._text.append(text)
        self._send("stream", {"name": name, "text": self._prefix + text})

    def _send(self, kind: str, content: Message) -> None:
        if self._on_output is not None:
            self._on_output({"msg_type": kind, "content": content})

    def result(self) -> CellResult:
        """The result, or the error."""
        end = self._end.content if self._end is not None else {}
        if self._error is not None:
            content = self._error.content
            raise RemoteError(
                f"{content.get('ename', 'error')}: {content.get('evalue', '')}",
                traceback=content.get("traceback", ()),
                code="remote.raised",
            )
        exit_code = int(end.get("exit_code") or 0)
        if exit_code:
            raise RemoteError(f"{self._prefix}the script ended with code {exit_code}", code="remote.exit-code")
        if end.get("status") not in ("ok", None):
            raise RemoteError(f"the cell was {end.get('status')}", hint=str(end.get("reason", "")), code="remote.not-run")
        return CellResult("".join(self._text), self._value, exit_code)
