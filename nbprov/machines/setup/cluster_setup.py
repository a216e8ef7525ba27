"""From machines that answer to a cluster that is set up: files, Python, setup, run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from nbprov.machines.agents import agent_of
from nbprov.machines.engines.startup import ensure_engine
from nbprov.machines.jobs.submit import JobRequest, submit_parts
from nbprov.machines.python.cloned_lock import read_there
from nbprov.machines.python.environment import see_python, start_python
from nbprov.machines.python.requirement_files import PythonSource
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import Environment, TaskInfo
from nbprov.spec import fill_paths

from .setup_jobs import LAST_LINES, Report, SetupFailed, Steps, free_id

__all__ = ["LAST_LINES", "RUN", "SETUP", "WORKDIR", "SetupFailed", "bring_up"]

WORKDIR = "sky_workdir"
"""Where `workdir` goes below the home; the name that pasted task files rely on."""

SETUP, RUN = "setup", "run"


async def bring_up(
    live: LiveCluster,
    spec: Spec,
    env: Environment,
    folder: str,
    ledger: Ledger,
    report: Report,
    *,
    home: Path,
    note: Callable[[str], None] | None = None,
    python: PythonSource | None = None,
    again: bool = False,
) -> None:
    """Copy files, make the Python environment, run setup on every node and start run. Returns once run is started.

    Parameters
    ----------
    env
        The spec's envs and secrets; they go to the processes over the open connection and nowhere else. What the steps print is
        shown with its secrets blotted out.
    folder
        What relative paths are relative to.
    report
        Told in a line what goes on.
    python
        What the environment is made from; None where the spec asks for none.
    again
        Run setup again though it has been done: on request, or since the environment it may have changed is a new one.
    home
        Our folder, where it is remembered which files were found the same.
    note
        Told what is worth keeping, as which commit a git workdir is at; `report` by default.

    Raises
    ------
    SetupFailed
        With the last lines of the first node where a step failed.
    PythonFiles
        If the lock of a git workdir is not there, or not of its project any more.
    PythonDiffers
        If the nodes do not end up with the same Python and packages.
    """
    spec = fill_paths(spec, {name: value for name, value in env.items() if isinstance(value, str)})
    steps = Steps(live, env, ledger, report)
    if spec.workdir or spec.file_mounts:
        from nbprov.machines.files.staging import place_files

        report("copying files")
        await place_files(live, spec, Path(folder), home, report, note or report)
    if python is not None and python.there:
        python = await read_there(live, python, WORKDIR)
    before: list[str] = []
    setup = _Setup(steps, spec, again=again)
    if python is not None:
        report(f"python is being made: {python.label}")
        before = [await start_python(steps, live.head, python)]
        if len(live.nodes) == 1:
            # Handed over together, so that setup and run follow even if this kernel is gone by then.
            await setup.start(before)
            if spec.run and spec.engine is None:
                await _start_run(steps, spec, [*setup.ids, *before][:1])
        async with steps.awake():
            await see_python(steps, python, before[0])
    if spec.setup:
        report("setup is running")
        await setup.start(before)
        if spec.run and len(live.nodes) == 1 and spec.engine is None:
            await _start_run(steps, spec, setup.ids)
        await setup.see()
    if spec.engine is not None:
        await ensure_engine(live, spec.engine, lambda: env, report)
    if spec.run:
        report("starting run")
        await _start_run(steps, spec, setup.ids)
        ledger.jobs.set(live.run_id, RUN, RUN, spec.run, "running")


class _Setup:
    """The step `setup` on every node."""

    def __init__(self, steps: Steps, spec: Spec, *, again: bool) -> None:
        self._steps, self._script, self._again = steps, spec.setup, again
        self._cwd = WORKDIR if spec.workdir else None
        self.ids: list[str] = []

    async def start(self, after: list[str]) -> None:
        """Start it, unless that was done. One that an earlier kernel started and that did not fail is that one's, and ours."""
        if self.ids or not self._script:
            return
        known = self._steps.known(SETUP)
        same = (
            known is not None
            and known["command"] == self._script
            and known["exit_code"] in (None, 0)
        )

        def goes_on(job: TaskInfo) -> bool:
            return same and (not job.is_over or (job.status == "ok" and not self._again))

        def started(node: Node) -> Coroutine[Any, Any, str]:
            # What must come first was on the head alone; on the others it is done by now.
            first = after if node is self._steps.live.head else []
            return self._steps.start(
                node, SETUP, self._script, cwd=self._cwd, after=first, reuse=goes_on
            )

        self.ids = list(await asyncio.gather(*map(started, self._steps.live.nodes)))
        self._tell("running")

    async def see(self) -> None:
        """Follow it to its end on every node."""
        steps, ids = (
            self._steps,
            dict(zip((n.instance.node for n in self._steps.live.nodes), self.ids, strict=True)),
        )
        try:
            await steps.on_each(
                steps.live.nodes,
                lambda node: steps.follow(node, SETUP, ids[node.instance.node]),
                SETUP,
            )
        except SetupFailed as error:
            self._tell("ended", error.exit_code)
            raise
        self._tell("ended", 0)

    def _tell(self, state: str, exit_code: int | None = None) -> None:
        self._steps.ledger.jobs.set(
            self._steps.live.run_id, self.ids[0], SETUP, self._script, state, exit_code
        )


async def _start_run(steps: Steps, spec: Spec, after: Sequence[str]) -> None:
    """Put `run` in the queue, where it takes all GPUs, unless it was started once: only one that was skipped, since setup failed, is again."""
    live = steps.live
    jobs = await agent_of(live.head).jobs()
    latest = next((job for job in reversed(jobs) if job.name == RUN), None)
    if latest is None and steps.known(RUN) is not None:
        return  # the machine's journal of it is gone; it was started all the same
    id = latest.id if latest is not None and latest.status != "skipped" else free_id(RUN, jobs)
    # With several nodes, setup is over on all of them by now.
    first = tuple(after) if len(live.nodes) == 1 else ()
    request = JobRequest(
        spec.run, RUN, nodes=None, env=steps.env, cwd=WORKDIR if spec.workdir else None, after=first
    )
    try:
        await submit_parts(live, live.nodes, id, live.run_id, request)
    except AgentError as error:
        if error.code != "agent.unknown-op":
            raise
        for node in live.nodes:  # an agent of an older release that is in use: it has no queue
            await steps.start(
                node,
                RUN,
                spec.run,
                cwd=request.cwd,
                after=first,
                reuse=lambda job: job.status != "skipped",
            )
