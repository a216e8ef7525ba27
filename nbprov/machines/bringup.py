"""From machines that answer to a cluster that is set up: files, setup, run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from nbprov.model.errors import NbprovError
from nbprov.model.spec import Secret, Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live import LiveCluster, Node
from nbprov.remote.agent.values import Environment
from nbprov.spec import fill_paths

from .cells import agent_of
from .engines.starting import ensure_engine
from .variables import node_environment

WORKDIR = "sky_workdir"
"""Where `workdir` goes below the home; the name that pasted task files rely on."""

SETUP, RUN = "setup", "run"
LAST_LINES = 12
"""Of a failed setup that are shown."""

SHOWN_OF_A_LINE = 120

LEAST_SECRET = 4
"""Shorter values are not blotted out: a secret `1` would blot out half of every log."""

Report = Callable[[str], None]


def masker(env: Environment) -> Callable[[str], str]:
    """A function that blots the secrets of an environment out of a text.

    Examples
    --------
    >>> masker({"T": Secret("hf_abc")})("clone https://hf_abc@host")
    'clone https://***@host'
    """
    hidden = [value.reveal() for value in env.values() if isinstance(value, Secret) and len(value.reveal()) >= LEAST_SECRET]

    def hide(text: str) -> str:
        for value in sorted(hidden, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    return hide


class SetupFailed(NbprovError):
    """`setup` ended with a code other than 0. The cluster is kept, under its guards, for a look."""

    code = "setup.failed"


async def bring_up(live: LiveCluster, spec: Spec, env: Environment, folder: str, ledger: Ledger, report: Report) -> None:
    """Copy files, run setup on every node and start run. Returns once run is started.

    Parameters
    ----------
    env
        The spec's envs and secrets; they go to the processes over the open connection and nowhere else. What setup prints is
        shown with its secrets blotted out.
    folder
        What relative paths are relative to.
    report
        Told in a line what goes on.

    Raises
    ------
    SetupFailed
        With the last lines of the first node's setup that failed.
    """
    spec = fill_paths(spec, {name: value for name, value in env.items() if isinstance(value, str)})
    hide = masker(env)
    if spec.workdir or spec.file_mounts:
        report("copying files")
        await asyncio.gather(*(_copy(node, spec, Path(folder)) for node in live.nodes))
    cwd = WORKDIR if spec.workdir else None
    if spec.setup:
        report("setup is running")
        ledger.set_job(live.run_id, SETUP, SETUP, spec.setup, "running")
        begun = [await _start(live, node, SETUP, spec.setup, env, cwd) for node in live.nodes]
        if spec.run and len(live.nodes) == 1 and spec.engine is None:
            # Handed over together, so that run follows setup even if this kernel is gone by then.
            await _start(live, live.head, RUN, spec.run, env, cwd, after=[SETUP])
        tails = await asyncio.gather(*(_follow(node, job, hide, report) for node, job in zip(live.nodes, begun, strict=True)))
        failed = next(((node, code, tail) for node, (code, tail) in zip(live.nodes, tails, strict=True) if code != 0), None)
        ledger.set_job(live.run_id, SETUP, SETUP, spec.setup, "ended", failed[1] if failed else 0)
        if failed is not None:
            node, code, tail = failed
            where = f" on node {node.instance.node}" if len(live.nodes) > 1 else ""
            raise SetupFailed(
                f"{live.name}: setup ended with code {code}{where}" + "".join(f"\n    {line.rstrip()}" for line in tail),
                hint=f"the cluster is kept under its guards: look with %%on {live.name} --bash, end it with %nbprov down {live.name}",
            )
    if spec.engine is not None:
        await ensure_engine(live, spec.engine, env, report)
    if spec.run:
        report("starting run")
        for node in live.nodes:
            await _start(live, node, RUN, spec.run, env, cwd, after=[SETUP] if spec.setup else [])
        ledger.set_job(live.run_id, RUN, RUN, spec.run, "running")


async def _copy(node: Node, spec: Spec, folder: Path) -> None:
    assert node.connection is not None, "attach() opens every connection"
    if spec.workdir:
        await node.connection.copy_in(_here(folder, spec.workdir), WORKDIR)
    for mount in spec.file_mounts:
        await node.connection.copy_in(_here(folder, mount.source), _below_home(mount.target))


def _here(folder: Path, source: str) -> Path:
    return folder / Path(source).expanduser()


def _below_home(target: str) -> str:
    # ~/x and x are both below the home; /x stays what it is.
    return target[2:] if target.startswith("~/") else str(PurePosixPath(target))


async def _start(
    live: LiveCluster, node: Node, kind: str, script: str, env: Environment, cwd: str | None, after: list[str] | None = None
) -> str:
    variables = {**node_environment(live, node, setup=kind == SETUP), **env}
    task = await agent_of(node).run_job(script, name=kind, env=variables, cwd=cwd, after=after or [], id=kind)
    return task.id


async def _follow(node: Node, job: str, hide: Callable[[str], str], report: Report) -> tuple[int, list[str]]:
    agent = agent_of(node)
    following = agent.job_output(job)
    tail: deque[str] = deque(maxlen=LAST_LINES)
    async for output in following:
        if output.kind in ("stdout", "stderr"):
            text = hide(output.text)
            tail.append(text)
            report(f"setup: {text.strip()[:SHOWN_OF_A_LINE]}")
    task = await agent.task(job)
    return (-1 if task.exit_code is None else task.exit_code), list(tail)
