"""The steps of a bring-up as jobs of the agents: started once, followed live, told apart from those of an earlier bring-up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from nbprov.machines import idle_inhibitor
from nbprov.machines.agents import agent_of
from nbprov.machines.masking import Masker, StreamMasker, masker
from nbprov.machines.node_variables import node_environment
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent.messages import Environment, TaskInfo

MOST_LINES = 500
"""Of one output, the last of them: what comes faster nobody sees, and each takes its time on the way to the panel."""

LAST_LINES = 12
"""Of a failed step that are shown."""

SHOWN_OF_A_LINE = 120
KEPT_OF_A_LINE = 500
"""A machine that prints lines without an end must not fill the memory here; all of it is in the machine's own log."""

MOST_AWAKE: Seconds = 6 * 3600.0
"""How long a step of one node holds off the idle guards of the others: two steps of uv at their longest on each of head and node, and some."""


class Report(Protocol):
    """Told what goes on, in a line; `line` is the line of a step's log that it is about, if it is about one."""

    def __call__(self, text: str, line: str = "", /) -> None: ...


class SetupFailed(NbprovError):
    """`python` or `setup` ended with a code other than 0. The cluster is kept, under its guards, for a look."""

    code = "setup.failed"
    exit_code = -1
    """Of the step; -1 where it never ran."""


def free_id(kind: str, jobs: Sequence[TaskInfo]) -> str:
    """`setup`, and `setup-2` where that is taken."""
    taken = {job.id for job in jobs}
    return next(
        name
        for name in (kind, *(f"{kind}-{n}" for n in range(2, len(jobs) + 3)))
        if name not in taken
    )


@dataclass(slots=True)
class Steps:
    """What all steps of one bring-up share."""

    live: LiveCluster
    env: Environment
    ledger: Ledger
    report: Report
    hide: Masker = field(init=False)

    def __post_init__(self) -> None:
        self.hide = masker(self.env)

    def known(self, kind: str) -> dict[str, object] | None:
        """The latest step of this kind that the ledger has."""
        rows = [row for row in self.ledger.jobs.of_run(self.live.run_id) if row["kind"] == kind]
        return rows[-1] if rows else None

    async def start(
        self,
        node: Node,
        kind: str,
        script: str,
        *,
        cwd: str | None = None,
        after: Sequence[str] = (),
        reuse: Callable[[TaskInfo], bool] = lambda task: True,
    ) -> str:
        """Start a step on a node; its id there: `setup`, and `setup-2` for the second.

        Parameters
        ----------
        reuse
            Whether the latest one of this kind will do. A line that broke, or a kernel that died, must start nothing twice.
        """
        agent = agent_of(node)
        jobs = await agent.jobs()
        latest = next((job for job in reversed(jobs) if job.name == kind), None)
        if latest is not None and reuse(latest):
            return latest.id
        if latest is not None and not latest.is_over:
            await agent.cancel_job(
                latest.id
            )  # of an earlier kernel, and of a text that has been corrected since
        id = free_id(kind, jobs)
        variables = {**node_environment(self.live, node, setup=kind == "setup"), **self.env}
        await agent.run_job(script, name=kind, env=variables, cwd=cwd, after=list(after), id=id)
        return id

    async def follow(
        self, node: Node, kind: str, id: str, tail: deque[str] | None = None
    ) -> tuple[int, list[str]]:
        """See a step to its end, its lines told as they come; its exit code (-1 where it never ran) and its last lines.

        Parameters
        ----------
        tail
            Has the last lines so far, for whoever does not wait to the end.
        """
        agent = agent_of(node)
        where = f"[{node.instance.node}] " if len(self.live.nodes) > 1 else ""
        tail = deque(maxlen=LAST_LINES) if tail is None else tail
        hidden = StreamMasker(lambda: self.hide.values)

        def tell(shown: str) -> None:
            for text in shown.splitlines()[-MOST_LINES:]:
                tail.append(text[:KEPT_OF_A_LINE])
                self.report(
                    f"{kind}: {where}{text.strip()[:SHOWN_OF_A_LINE]}",
                    f"{where}{kind}: {text.rstrip()[:KEPT_OF_A_LINE]}",
                )

        async for output in agent.job_output(id):
            if output.kind in ("stdout", "stderr", "note"):
                tell(hidden.add(output.text))
        tell(hidden.end())
        task = await agent.task(id)
        return (-1 if task.exit_code is None else task.exit_code), list(tail)

    def awake(self) -> AbstractAsyncContextManager[None]:
        """Keep nodes that wait for others from being ended as idle: a step on one node may take longer than their guards allow."""
        return idle_inhibitor.awake(self.live.nodes if len(self.live.nodes) > 1 else (), MOST_AWAKE)

    async def on_each(
        self,
        nodes: Sequence[Node],
        work: Callable[[Node], Awaitable[tuple[int, list[str]]]],
        kind: str,
    ) -> None:
        """Do a step on some nodes at once and see all of them out.

        Raises
        ------
        SetupFailed
            With the last lines of the first node where it failed.
        """
        for node, (code, tail) in zip(
            nodes, await asyncio.gather(*(work(node) for node in nodes)), strict=True
        ):
            if code != 0:
                raise self.failed(node, kind, code, tail)

    def failed(self, node: Node, kind: str, code: int, tail: Sequence[str]) -> SetupFailed:
        """The error of a step that failed on a node."""
        name = self.live.name
        where = f" on node {node.instance.node}" if len(self.live.nodes) > 1 else ""
        said = (
            f"{kind} ended with code {code}{where}"
            if code != -1
            else f"{kind} was never run to its end{where}"
        )
        error = SetupFailed(
            f"{name}: {said}" + "".join(f"\n    {line.rstrip()}" for line in tail),
            hint=f"the cluster is kept under its guards: correct the cell and run it again, look with %%on {name} --bash or"
            f" %nbprov logs {name} {kind}, end it with %nbprov down {name}",
        )
        error.exit_code = code
        return error
