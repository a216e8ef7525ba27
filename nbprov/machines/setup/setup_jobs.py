"""The steps of a setup as jobs of the agents: started once, followed live, found again later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from nbprov.machines import idle_inhibitor
from nbprov.machines.node_variables import node_environment
from nbprov.machines.output_masking import masker
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.on_machine.agent.masking import Masker, StreamMasker
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.agent.messages import Environment, TaskInfo

MOST_LINES = 500
"""Last lines of one output that are reported; nobody could read more, and each takes time."""

LAST_LINES = 12
"""Lines of a failed step that are shown."""

SHOWN_OF_A_LINE = 120
KEPT_OF_A_LINE = 500
"""Bounds the memory for a machine that prints endless lines; its own log has all of them."""

MOST_AWAKE: Seconds = 6 * 3600.0
"""How long a step on one node keeps the others from being ended as idle.

This covers two steps of uv at their longest on the head and on a node.
"""


class SetupReport(Protocol):
    """Receives a line about what happens; `line` is the line of a step's log behind it, if any."""

    def __call__(self, text: str, line: str = "", /) -> None: ...


class SetupFailed(NbprovError):
    """`python` or `setup` ended with a nonzero code.

    The cluster is kept under its guards, so that one can look at it.
    """

    code = "setup.failed"
    exit_code = -1
    """The step's exit code; -1 if it never ran."""


def free_id(kind: str, jobs: Sequence[TaskInfo]) -> str:
    """Return an unused job id: `setup`, or `setup-2` if that is taken."""
    taken = {job.id for job in jobs}
    return next(
        name
        for name in (kind, *(f"{kind}-{n}" for n in range(2, len(jobs) + 3)))
        if name not in taken
    )


@dataclass(slots=True)
class SetupSteps:
    """What all steps of one setup share.

    Attributes
    ----------
    note
        Receives what is worth keeping, in a line.
    """

    live: LiveCluster
    env: Environment
    ledger: Ledger
    report: SetupReport
    note: Callable[[str], None]
    hide: Masker = field(init=False)
    _is_told: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.hide = masker(self.env)

    def known(self, kind: str) -> dict[str, object] | None:
        """Return the ledger's latest step of this kind."""
        rows = [row for row in self.ledger.jobs.of_run(self.live.run_id) if row["kind"] == kind]
        return rows[-1] if rows else None

    def record(
        self, id: str, kind: str, command: str, state: str, exit_code: int | None = None
    ) -> None:
        """Write down how far a step is. Where that cannot be written, say so once and go on.

        The step runs on the machine in any case, and `JobMonitor` writes its row later.
        """
        jobs, run_id = self.ledger.jobs, self.live.run_id
        trouble = self.ledger.trouble_with(
            partial(jobs.set, run_id, id, kind, command, state, exit_code)
        )
        if trouble and not self._is_told:
            self._is_told = True
            self.note(f"{kind} goes on, and is not written down yet: {trouble}")

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
        """Start a step on a node; return its job id: `setup`, or `setup-2` for the second.

        Parameters
        ----------
        reuse
            Returns whether the latest step of this kind serves. A broken connection or a dead
            kernel must not make a step run twice.
        """
        agent = agent_of(node)
        jobs = await agent.jobs()
        latest = next((job for job in reversed(jobs) if job.name == kind), None)
        if latest is not None and reuse(latest):
            return latest.id
        if latest is not None and not latest.is_over:
            await agent.cancel_job(
                latest.id
            )  # an earlier kernel started it, with a script that was changed since
        id = free_id(kind, jobs)
        variables = {**node_environment(self.live, node, setup=kind == "setup"), **self.env}
        await agent.run_job(script, name=kind, env=variables, cwd=cwd, after=list(after), id=id)
        return id

    async def follow(
        self, node: Node, kind: str, id: str, tail: deque[str] | None = None
    ) -> tuple[int, list[str]]:
        """Follow a step to its end, reporting its lines as they come.

        Returns its exit code (-1 if it never ran) and its last lines.

        Parameters
        ----------
        tail
            Receives the last lines so far, for callers that do not wait to the end.
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
        """Keep waiting nodes from being ended as idle.

        A step on one node may take longer than the guards of the others allow.
        """
        return idle_inhibitor.awake(self.live.nodes if len(self.live.nodes) > 1 else (), MOST_AWAKE)

    async def on_each(
        self,
        nodes: Sequence[Node],
        work: Callable[[Node], Awaitable[tuple[int, list[str]]]],
        kind: str,
    ) -> None:
        """Run a step on several nodes at once, and wait for all of them.

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
        """Return the error of a step that failed on a node."""
        name = self.live.name
        where = f" on node {node.instance.node}" if len(self.live.nodes) > 1 else ""
        said = (
            f"{kind} ended with code {code}{where}"
            if code != -1
            else f"{kind} was never run to its end{where}"
        )
        error = SetupFailed(
            f"{name}: {said}" + "".join(f"\n    {line.rstrip()}" for line in tail),
            hint="the cluster is kept under its guards: correct the cell and run it again,"
            f" look with %%on {name} --bash or %nbprov logs {name} {kind},"
            f" end it with %nbprov down {name}",
        )
        error.exit_code = code
        return error
