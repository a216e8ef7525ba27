"""Set up a cluster whose machines answer: files, Python environment, setup, engine, run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from nbprov.machines.engines.startup import ensure_engine
from nbprov.machines.jobs.submit import JobRequest, submit_parts
from nbprov.machines.python.cloned_lock import read_there
from nbprov.machines.python.environment import follow_environment, start_python
from nbprov.machines.python.requirement_files import PythonSource
from nbprov.model.sources import WORKDIR
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.agent.messages import Environment, TaskInfo
from nbprov.spec import fill_paths

from .setup_jobs import LAST_LINES, SetupFailed, SetupReport, SetupSteps, free_id

__all__ = ["LAST_LINES", "RUN", "SETUP", "SetupFailed", "bring_up"]

SETUP, RUN = "setup", "run"


async def bring_up(
    live: LiveCluster,
    spec: Spec,
    env: Environment,
    folder: str,
    ledger: Ledger,
    report: SetupReport,
    *,
    home: Path,
    note: Callable[[str], None] | None = None,
    python: PythonSource | None = None,
    again: bool = False,
) -> None:
    """Copy files, make the Python environment, run `setup` on every node, then start `run`.

    The call returns once `run` has started.

    Parameters
    ----------
    env
        The envs and secrets of the spec. They reach the processes over the open connection and
        nowhere else; secrets are masked in what the steps print.
    folder
        The folder that relative paths start at.
    report
        Receives a line for each step.
    home
        Our folder, where the state of synced files is remembered.
    note
        Receives the lines worth keeping, such as the commit of a git workdir; `report` by default.
    python
        The source of the environment; None where the spec asks for none.
    again
        Run `setup` even if it has succeeded before: on request, or since its environment is new.

    Raises
    ------
    SetupFailed
        With the last lines of the first node where a step failed.
    PythonFilesError
        If the lock of a git workdir is missing, or does not match its project any more.
    PythonDiffers
        If the nodes do not end up with the same Python and packages.
    """
    spec = fill_paths(spec, {name: value for name, value in env.items() if isinstance(value, str)})
    if spec.workdir or spec.file_mounts:
        from nbprov.machines.files.staging import place_files

        report("copying files")
        await place_files(live, spec, Path(folder), home, report, note or report)
    steps = SetupSteps(live, env, ledger, report, note or report)
    await _run_steps(steps, spec, python, again=again)


async def _run_steps(
    steps: SetupSteps, spec: Spec, python: PythonSource | None, *, again: bool
) -> None:
    live, env, report = steps.live, steps.env, steps.report
    setup = _SetupScript(steps, spec, again=again)
    before: list[str] = []
    if python is not None:
        before = await _make_python(steps, spec, setup, python)
    if spec.setup:
        report("setup is running")
        await setup.start(before)
        if spec.run and len(live.nodes) == 1 and spec.engine is None:
            await _start_run(steps, spec, setup.ids)
        await setup.follow()
    if spec.engine is not None:
        await ensure_engine(live, spec.engine, lambda: env, report)
    if spec.run:
        report("starting run")
        job_id = await _start_run(steps, spec, setup.ids)
        steps.record(job_id, RUN, spec.run, "running")


async def _make_python(
    steps: SetupSteps, spec: Spec, setup: _SetupScript, python: PythonSource
) -> list[str]:
    """Make the Python environment on all nodes, and return the ids of the head's jobs for it."""
    live = steps.live
    if python.there:
        python = await read_there(live, python, WORKDIR)
    steps.report(f"the Python environment is being made: {python.label}")
    ids = [await start_python(steps, live.head, python)]
    if len(live.nodes) == 1:
        # All jobs are queued at once, so that setup and run follow even if this kernel dies.
        await setup.start(ids)
        if spec.run and spec.engine is None:
            await _start_run(steps, spec, [*setup.ids, *ids][:1])
    async with steps.awake():
        await follow_environment(steps, python, ids[0])
    return ids


class _SetupScript:
    """The `setup` script on every node."""

    def __init__(self, steps: SetupSteps, spec: Spec, *, again: bool) -> None:
        self._steps, self._script, self._again = steps, spec.setup, again
        self._cwd = WORKDIR if spec.workdir else None
        self.ids: list[str] = []

    async def start(self, after: list[str]) -> None:
        """Start it unless that was done.

        A script that an earlier kernel started, and that did not fail, is followed instead.
        """
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
            # Earlier jobs ran on the head alone; on the other nodes nothing is left to wait for.
            first = after if node is self._steps.live.head else []
            return self._steps.start(
                node, SETUP, self._script, cwd=self._cwd, after=first, reuse=goes_on
            )

        self.ids = list(await asyncio.gather(*map(started, self._steps.live.nodes)))
        self._tell("running")

    async def follow(self) -> None:
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
        self._steps.record(self.ids[0], SETUP, self._script, state, exit_code)


async def _start_run(steps: SetupSteps, spec: Spec, after: Sequence[str]) -> str:
    """Queue `run`, which takes all GPUs, unless it was started before; return its job id.

    A `run` that was skipped because setup failed is queued again, as `run-2`.
    """
    live = steps.live
    jobs = await agent_of(live.head).jobs()
    latest = next((job for job in reversed(jobs) if job.name == RUN), None)
    known = steps.known(RUN)
    if latest is None and known is not None:
        return str(known["job_id"])  # it was started, although the machine lost its journal
    id = latest.id if latest is not None and latest.status != "skipped" else free_id(RUN, jobs)
    # With several nodes, setup is over on all of them by now.
    first = tuple(after) if len(live.nodes) == 1 else ()
    request = JobRequest(
        spec.run, RUN, nodes=None, env=steps.env, cwd=WORKDIR if spec.workdir else None, after=first
    )
    await submit_parts(live, live.nodes, id, live.run_id, request)
    return id
