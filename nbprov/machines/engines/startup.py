"""Start a compute engine on a cluster, or find the one that already runs.

Both happen in the same call, which may be repeated as often as wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from nbprov.machines.tunnels.tunnel import PrivateService
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of, all_of
from nbprov.remote.agent.messages import TaskInfo

from . import dask, ray
from .engine_state import EngineFailed, Interpreter, RunningEngine, state_of
from .installation import is_elsewhere
from .process_specs import ProcessSpec
from .processes import EngineProcesses, Report, Values, read_state

FIND_SECONDS: Seconds = 10.0
"""How long the search for an engine of an earlier kernel may delay a cell.

It asks a connected machine two questions.
"""

_locks: dict[str, asyncio.Lock] = {}


async def ensure_engine(
    live: LiveCluster, engine: ComputeEngine, values: Values, report: Report
) -> RunningEngine:
    """Start the parts of the engine that do not run yet, and return where it listens.

    Parameters
    ----------
    values
        Returns the environment variables of the workers, which are those of `run`. It is called
        only when a process has to be started; what it raises ends the call.
    report
        Receives a line for each step.

    Raises
    ------
    EngineFailed
        If a process did not start; the message holds its last lines.
    EngineMissing
        If a machine has no engine and it could not be installed there.
    """
    async with _locks.setdefault(live.run_id, asyncio.Lock()):
        start = _EngineStart(live, engine, EngineProcesses(live, engine, values, report), report)
        return await (start.dask() if engine.kind == "dask" else start.ray())


async def variables_of(live: LiveCluster, engine: ComputeEngine) -> dict[str, str]:
    """Return the variables by which cells and jobs find the Ray that an earlier kernel started.

    The result is empty where no Ray runs. Dask needs none: each node has a file with its address.

    Raises
    ------
    EngineFailed
        If the machine's answer is malformed.
    TimeoutError
        If the machine does not answer soon.
    """
    head = ray.head(live, engine)
    async with asyncio.timeout(FIND_SECONDS):
        begun = next(
            (
                task
                for task in reversed(await agent_of(live.head).jobs())
                if task.name == head.name and not task.is_over
            ),
            None,
        )
        text = await read_state(live.head, begun.id) if begun is not None else ""
    return ray.variables(live, state_of(text, list(head.ports))[0]["gcs"]) if text else {}


def services(kind: str) -> dict[str, PrivateService]:
    """Return what listens on the ports of an engine, for its tunnels.

    Examples
    --------
    >>> services("dask")["dashboard"].what
    'the Dask dashboard'
    """
    if kind == "dask":
        return {
            "scheduler": PrivateService("the Dask scheduler", "tls"),
            "dashboard": PrivateService("the Dask dashboard"),
        }
    return {
        "client": PrivateService("Ray's client server", "ray"),
        "dashboard": PrivateService("Ray's dashboard"),
    }


class _EngineStart:
    """One start of Dask or Ray on a cluster."""

    def __init__(
        self, live: LiveCluster, engine: ComputeEngine, processes: EngineProcesses, report: Report
    ) -> None:
        self._live, self._engine = live, engine
        self._processes, self._report = processes, report

    async def dask(self) -> RunningEngine:
        """Start the scheduler, then the workers."""
        processes, live = self._processes, self._live
        await processes.refresh()
        await self._end_outdated(dask.JOBS)
        head = dask.scheduler(live)
        is_new = processes.find(head.node, head.name) is None
        if is_new:
            await processes.prepare(live.present)
            # Workers that still run belong to a scheduler that is gone.
            await processes.cancel("dask-worker-")
            self._report("starting the Dask scheduler")
        ports, interpreter = await processes.wait_up(head)
        workers = dask.workers(live, self._engine, ports["scheduler"])
        missing = [spec for spec in workers if processes.find(spec.node, spec.name) is None]
        if missing:
            if not is_new:
                await processes.prepare([spec.node for spec in missing])
            self._report(f"starting {_count(len(missing), 'Dask worker')}")
        await all_of(*(processes.wait_up(spec) for spec in workers))
        count = len(live.present) * dask.workers_of(live, self._engine)
        return self._running(ports, interpreter, count)

    async def ray(self) -> RunningEngine:
        """Start the head and, at the same time, the other nodes, which wait for the head."""
        processes, live = self._processes, self._live
        await processes.refresh()
        await self._end_outdated(ray.JOBS)
        head = ray.head(live, self._engine)
        is_new = processes.find(head.node, head.name) is None
        if is_new:
            await processes.prepare(live.present)
            # Nodes that still run belong to a head that is gone.
            await processes.cancel(ray.NODE)
            self._report(f"starting Ray on {_count(len(live.nodes), 'node')}")
            head = ray.head(live, self._engine, processes.interpreter_of(head.node))
        begun = processes.find(head.node, head.name) or await processes.start(head)
        gcs = (await processes.chosen_ports(head, begun.id))["gcs"]
        others = ray.nodes(live, self._engine, gcs)
        missing = [spec for spec in others if processes.find(spec.node, spec.name) is None]
        if missing and not is_new:
            await processes.prepare([spec.node for spec in missing])
            self._report(f"starting Ray on {_count(len(missing), 'more node')}")
        try:
            await all_of(
                processes.wait_up(head, begun), *(processes.wait_up(spec) for spec in others)
            )
        except EngineFailed:
            with contextlib.suppress(NbprovError, TimeoutError):
                await self._cancel_waiting(head, begun)
            raise
        ports, interpreter = await processes.wait_up(head, begun)
        live.variables = ray.variables(live, ports["gcs"])
        running = self._running(ports, interpreter, len(live.present))
        if ray.has_dashboard(interpreter):
            token = ray.token_file(live.keys.folder)
            remark = f"Ray's dashboard asks for a token: it is in {token}, on this computer"
            return replace(running, remarks=(*running.remarks, remark))
        return replace(
            running, ports={name: port for name, port in ports.items() if name != "dashboard"}
        )

    def _running(
        self, ports: dict[str, int], interpreter: Interpreter, workers: int
    ) -> RunningEngine:
        """Describe the engine, with a remark if this kernel's own client does not match it."""
        running = RunningEngine(self._engine.kind, ports, interpreter, workers)
        kind = dask if self._engine.kind == "dask" else ray
        try:
            kind.check_installed(self._live.name)
            kind.check_versions(self._live.name, running)
        except NbprovError as error:
            return replace(running, remarks=(f"{error.message}; next: {error.hint}",))
        return running

    async def _end_outdated(self, jobs: str) -> None:
        """End the engine if any part of it runs in an environment that `python` has replaced.

        The workers must have the packages of the current environment.
        """
        older: list[Node] = []

        async def check(node: Node) -> None:
            begun = self._processes.live_ids(node, jobs)
            if begun and await is_elsewhere(node, begun):
                older.append(node)

        await all_of(*(check(node) for node in self._live.present))
        if older:
            self._report(f"{self._engine.kind} is restarted, since the Python environment changed")
            await self._processes.cancel(jobs)

    async def _cancel_waiting(self, head: ProcessSpec, begun: TaskInfo) -> None:
        """End the nodes that wait for a head that did not start.

        Where the head is up they stay, since they work without the node that failed.
        """
        if not await read_state(head.node, begun.id):
            await self._processes.refresh()
            await self._processes.cancel(ray.NODE)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"
