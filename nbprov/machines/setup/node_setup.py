"""Set up one machine that takes the place of a lost one; the other nodes are left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbprov.machines.engines.startup import ensure_engine
from nbprov.machines.python.environment import copy_head_environment
from nbprov.model.sources import WORKDIR
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.agent.messages import Environment
from nbprov.spec import fill_paths

from .cluster_setup import SETUP
from .setup_jobs import SetupSteps


async def set_up_node(
    live: LiveCluster,
    node: Node,
    spec: Spec,
    env: Environment,
    folder: str,
    ledger: Ledger,
    report: Callable[[str], None],
    *,
    home: Path,
) -> None:
    """Do on one node what `bring_up` does on all, with the same parameters.

    `run` is not started, since it runs already.

    Raises
    ------
    SetupFailed, PythonDiffers, EngineFailed, DownloadError, SyncError, CopyError, RepositoryError
        For the first failure.
    """

    def told(text: str, line: str = "", /) -> None:
        report(text)

    spec = fill_paths(spec, {name: value for name, value in env.items() if isinstance(value, str)})
    steps, number = SetupSteps(live, env, ledger, told, report), live.nodes.index(node)
    if spec.workdir or spec.file_mounts:
        from nbprov.machines.files.staging import place_files

        await place_files(live, spec, Path(folder), home, report, report, only=number)
    async with steps.awake():
        if spec.python is not None:
            await copy_head_environment(steps, node)
        if spec.setup:
            await _setup(steps, node, spec)
    if spec.engine is not None:
        await ensure_engine(live, spec.engine, lambda: env, report)


async def _setup(steps: SetupSteps, node: Node, spec: Spec) -> None:
    cwd = WORKDIR if spec.workdir else None
    # A script that an earlier kernel started there is followed.
    id = await steps.start(
        node, SETUP, spec.setup, cwd=cwd, reuse=lambda job: not job.is_over or job.status == "ok"
    )
    code, tail = await steps.follow(node, SETUP, id)
    if code != 0:
        raise steps.failed(node, SETUP, code, tail)
