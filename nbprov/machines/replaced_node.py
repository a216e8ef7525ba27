"""Setting up one machine that takes the place of a lost one: files, Python, setup and engine, as on the others; these are left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.live import LiveCluster, Node
from nbprov.remote.agent.values import Environment
from nbprov.spec import fill_paths

from .bringup import SETUP, WORKDIR
from .engines.starting import ensure_engine
from .python_environment import PYTHON, check_same, read_made, start_python
from .python_files import PythonSource
from .python_there import read_there
from .steps import Steps


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
    python: PythonSource | None,
) -> None:
    """Do on one node what a bring-up does on all; `run` is not started, for it began once. Parameters are as of `bring_up`.

    Raises
    ------
    SetupFailed, PythonDiffers, EngineFailed, FetchError, SyncError, CopyError, RepositoryError
        The first thing that did not work.
    """

    def told(text: str, line: str = "", /) -> None:
        report(text)

    spec = fill_paths(spec, {name: value for name, value in env.items() if isinstance(value, str)})
    steps, number = Steps(live, env, ledger, told), live.nodes.index(node)
    if spec.workdir or spec.file_mounts:
        from .placing import place_files

        await place_files(live, spec, Path(folder), home, report, report, only=number)
    async with steps.awake():
        if python is not None:
            if python.there:
                python = await read_there(live, python, WORKDIR)
            await _python(steps, node, python)
        if spec.setup:
            await _setup(steps, node, spec)
    if spec.engine is not None:
        await ensure_engine(live, spec.engine, env, report)


async def _python(steps: Steps, node: Node, source: PythonSource) -> None:
    """The environment that the head has, to the last release."""
    head = await read_made(steps.live.head)
    code, tail = await steps.follow(node, PYTHON, await start_python(steps, node, source, lock=head.lock, python=head.python))
    if code != 0:
        raise steps.failed(node, PYTHON, code, tail)
    check_same([head, await read_made(node)])


async def _setup(steps: Steps, node: Node, spec: Spec) -> None:
    cwd = WORKDIR if spec.workdir else None
    # One that an earlier kernel started there is followed.
    id = await steps.start(node, SETUP, spec.setup, cwd=cwd, reuse=lambda job: not job.is_over or job.status == "ok")
    code, tail = await steps.follow(node, SETUP, id)
    if code != 0:
        raise steps.failed(node, SETUP, code, tail)
