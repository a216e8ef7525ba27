"""Bringing an engine up, and finding one that runs: the same call, as often as one likes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.resources import files

from nbprov.machines.agents import agent_of
from nbprov.machines.node_variables import node_environment
from nbprov.machines.tunnels.tunnels import Service
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster, Node, all_of
from nbprov.remote.agent.messages import Environment, TaskInfo

from . import dask, ray
from .certificates import certificate
from .engine_state import (
    FOLDER,
    PORTS_MARK,
    UP_MARK,
    EngineFailed,
    Facts,
    Running,
    ports_of,
    state_of,
)
from .installation import PATH, interpreter, is_elsewhere
from .process_specs import Role, private_address

START_SECONDS: Seconds = 300.0
"""From the start of a process to its being up: the first import of some hundred megabytes from a cold network disk takes a minute."""
MORE_SECONDS: Seconds = 15.0
"""Beyond that for each further node: one head takes them all in, and machines of the `local` cloud share one computer."""
SEE_SECONDS: Seconds = 10.0
"""How long a look for an engine of an earlier kernel may hold up a cell: two questions to a machine that is reached."""
CANCEL_SECONDS: Seconds = 20.0
"""How long an earlier process may take to end; the agent kills it after 5 s."""
MOST_STATE = 100_000
"""Characters of what a keeper writes: ports and versions are some hundred."""
LAST_LINES = 12
"""Of a process that did not start, that are shown."""

Report = Callable[[str], None]
Values = Callable[[], Environment]
_locks: dict[str, asyncio.Lock] = {}


async def ensure_engine(
    live: LiveCluster, engine: ComputeEngine, values: Values, report: Report
) -> Running:
    """Start what of the engine does not run yet, and say where it listens. What runs is left alone.

    Parameters
    ----------
    values
        Gives the variables of the workers, as `run` has them. Called where something is to be started: what it raises ends that.
    report
        Told in a line what goes on.

    Raises
    ------
    EngineFailed
        If a process did not come up, with its last lines.
    EngineMissing
        If the engine is not on a machine and could not be installed there.
    """
    async with _locks.setdefault(live.run_id, asyncio.Lock()):
        starter = _Starter(live, engine, values, report)
        return await (starter.dask() if engine.kind == "dask" else starter.ray())


async def variables_of(live: LiveCluster, engine: ComputeEngine) -> dict[str, str]:
    """What cells and jobs need to find the Ray that an earlier kernel started; nothing where none is up. Dask has it in a file on each node.

    Raises
    ------
    EngineFailed
        If a machine says nonsense of it.
    TimeoutError
        If it does not answer soon.
    """
    starter = _Starter(live, engine, dict, lambda text: None)
    head = ray.head(live, engine)
    async with asyncio.timeout(SEE_SECONDS):
        begun = next(
            (
                task
                for task in reversed(await agent_of(live.head).jobs())
                if task.name == head.name and not task.is_over
            ),
            None,
        )
        text = await starter._state(live.head, begun.id) if begun is not None else ""
    return ray.variables(live, state_of(text, list(head.ports))[0]["gcs"]) if text else {}


def services(kind: str) -> dict[str, Service]:
    """What listens on the ports of an engine, for its tunnels.

    Examples
    --------
    >>> services("dask")["dashboard"].what
    'the Dask dashboard'
    """
    if kind == "dask":
        return {
            "scheduler": Service("the Dask scheduler", "tls"),
            "dashboard": Service("the Dask dashboard"),
        }
    return {
        "client": Service("Ray's client server", "ray"),
        "dashboard": Service("Ray's dashboard"),
    }


class _Starter:
    """One bringing up."""

    def __init__(
        self, live: LiveCluster, engine: ComputeEngine, values: Values, report: Report
    ) -> None:
        self.live, self.engine, self.report = live, engine, report
        self.env: Environment = {}
        self._values = values
        self.facts: dict[int, Facts] = {}
        self.tasks: dict[int, tuple[TaskInfo, ...]] = {}

    async def dask(self) -> Running:
        """A scheduler, then the workers."""
        await self._look()
        await self._leave_old_environments(dask.JOBS)
        head = dask.scheduler(self.live)
        is_new = self._of(head.node, head.name) is None
        if is_new:
            await self._prepare(self.live.present)
            # They belong to a scheduler that is gone.
            await self._cancel("dask-worker-")
            self.report("starting the Dask scheduler")
        ports, facts = await self._up(head)
        workers = dask.workers(self.live, self.engine, ports["scheduler"])
        missing = [role for role in workers if self._of(role.node, role.name) is None]
        if missing:
            if not is_new:
                await self._prepare([role.node for role in missing])
            self.report(f"starting {_count(len(missing), 'Dask worker')}")
        await all_of(*(self._up(role) for role in workers))
        count = len(self.live.present) * dask.workers_of(self.live, self.engine)
        return self._running(ports, facts, count)

    async def ray(self) -> Running:
        """A head, and the other nodes beside it: they wait for it."""
        await self._look()
        await self._leave_old_environments(ray.JOBS)
        head = ray.head(self.live, self.engine)
        is_new = self._of(head.node, head.name) is None
        if is_new:
            await self._prepare(self.live.present)
            # They belong to a head that is gone.
            await self._cancel(ray.NODE)
            self.report(f"starting Ray on {_count(len(self.live.nodes), 'node')}")
            head = ray.head(self.live, self.engine, self.facts[head.node.instance.node])
        begun = self._of(head.node, head.name) or await self._start(head)
        others = ray.nodes(self.live, self.engine, (await self._chosen(head, begun.id))["gcs"])
        missing = [role for role in others if self._of(role.node, role.name) is None]
        if missing and not is_new:
            await self._prepare([role.node for role in missing])
            self.report(f"starting Ray on {_count(len(missing), 'more node')}")
        try:
            await all_of(self._up(head, begun), *(self._up(role) for role in others))
        except EngineFailed:
            with contextlib.suppress(NbprovError, TimeoutError):
                await self._cancel_waiting(head, begun)
            raise
        ports, facts = await self._up(head, begun)
        self.live.variables = ray.variables(self.live, ports["gcs"])
        running = self._running(ports, facts, len(self.live.present))
        if ray.has_dashboard(facts):
            token = ray.token_file(self.live.keys.folder)
            return replace(
                running,
                remarks=(
                    *running.remarks,
                    f"Ray's dashboard asks for a token: it is in {token}, on this computer",
                ),
            )
        return replace(
            running, ports={name: port for name, port in ports.items() if name != "dashboard"}
        )

    def _running(self, ports: dict[str, int], facts: Facts, workers: int) -> Running:
        """With a word where this kernel's own client would not do."""
        running, kind = (
            Running(self.engine.kind, ports, facts, workers),
            dask if self.engine.kind == "dask" else ray,
        )
        try:
            kind.check_installed(self.live.name)
            kind.check_versions(self.live.name, running)
        except NbprovError as error:
            return replace(running, remarks=(f"{error.message}; next: {error.hint}",))
        return running

    # ------------------------------------------------------------ steps

    async def _look(self) -> None:
        async def one(node: Node) -> None:
            self.tasks[node.instance.node] = await agent_of(node).jobs()

        await all_of(*(one(node) for node in self.live.present))

    async def _leave_old_environments(self, jobs: str) -> None:
        """End an engine of which a part runs in another environment than its node has by now: its workers are to have the packages of `python`."""

        older: list[Node] = []

        async def look(node: Node) -> None:
            begun = [
                task.id
                for task in self.tasks[node.instance.node]
                if task.name.startswith(jobs) and not task.is_over
            ]
            if begun and await is_elsewhere(node, begun):
                older.append(node)

        await all_of(*(look(node) for node in self.live.present))
        if older:
            self.report(f"{self.engine.kind} is started again: python is another one now")
            await self._cancel(jobs)

    def _of(self, node: Node, name: str) -> TaskInfo | None:
        """The live job of this name."""
        return next(
            (
                task
                for task in reversed(self.tasks[node.instance.node])
                if task.name == name and not task.is_over
            ),
            None,
        )

    async def _prepare(self, nodes: Iterable[Node]) -> None:
        """The values, the interpreter, and the key, of machines where something is to be started."""
        self.env = self._values()
        keys = self.live.keys.folder
        is_dask = self.engine.kind == "dask"
        place = f"{FOLDER}/engine.pem" if is_dask else ray.PLACE_ON_NODE
        text = (certificate(keys) if is_dask else ray.token_file(keys)).read_text(
            encoding="ascii"
        ).strip() + "\n"

        async def one(node: Node) -> None:
            facts = self.facts[node.instance.node] = await interpreter(
                node, self.engine.kind, self.report
            )
            if not is_dask:
                ray.check_protected(self.live.name, facts)
            await self._write(node, place, text)

        await all_of(*(one(node) for node in {node.instance.node: node for node in nodes}.values()))

    async def _write(self, node: Node, place: str, text: str) -> None:
        """Put a small file in place, over the verified connection and through no command line."""
        path = f'"$HOME"{shlex.quote(place[1:])}'
        script = f"umask 077; mkdir -p \"$(dirname {path})\" && cat >{path}.new <<'NBPROV_END' && mv -f {path}.new {path}\n{text}NBPROV_END\n"
        task = await (await agent_of(node).shell(script, name="engine-file")).wait()
        if task.exit_code != 0:
            raise EngineFailed(
                f"{place} could not be written on node {node.instance.node}",
                hint="is its disk full?",
            )

    async def _cancel(self, prefix: str) -> None:
        async def one(node: Node, task: TaskInfo) -> None:
            agent = agent_of(node)
            await agent.cancel_job(task.id)
            async with asyncio.timeout(CANCEL_SECONDS):
                await agent.job_output(task.id).wait()

        old = [
            (n, t)
            for n in self.live.present
            for t in self.tasks[n.instance.node]
            if t.name.startswith(prefix) and not t.is_over
        ]
        await all_of(*(one(node, task) for node, task in old))
        if old:
            await self._look()

    async def _cancel_waiting(self, head: Role, begun: TaskInfo) -> None:
        """End what waits for a head that did not come up; where it is up, the others are of use without the one that failed."""
        if not await self._state(head.node, begun.id):
            await self._look()
            await self._cancel(ray.NODE)

    async def _up(self, role: Role, begun: TaskInfo | None = None) -> tuple[dict[str, int], Facts]:
        """Start a process unless it runs, and wait until it is up; its ports, and its interpreter."""
        found = begun or self._of(role.node, role.name) or await self._start(role)
        tail: deque[str] = deque(maxlen=LAST_LINES)
        limit = START_SECONDS + MORE_SECONDS * (len(self.live.nodes) - 1)
        try:
            async with asyncio.timeout(limit):
                text = await self._state(role.node, found.id)
                if not text:
                    told = await self._told(role, found.id, UP_MARK, tail)
                    text = (
                        await self._state(role.node, found.id) or told
                    )  # of what is told, a secret `python` was blotted out
        except TimeoutError:
            raise EngineFailed(
                f"{role.name} on node {role.node.instance.node} of {self.live.name} is not up after {limit:g} s{_lines(tail)}",
                hint=f"{self._logs(role)}; it goes on, and {self.live.name}.start_engine() waits for it again",
                code="engine.timeout",
            ) from None
        return state_of(text, list(role.ports))

    async def _chosen(self, role: Role, task_id: str) -> dict[str, int]:
        """The ports of a process that may not be up yet."""
        text = await self._state(role.node, task_id)
        if text:
            return state_of(text, list(role.ports))[0]
        try:
            async with asyncio.timeout(START_SECONDS):
                return ports_of(
                    await self._told(role, task_id, PORTS_MARK, deque(maxlen=LAST_LINES)),
                    list(role.ports),
                )
        except TimeoutError:
            raise EngineFailed(
                f"{role.name} of {self.live.name} has not begun after {START_SECONDS:g} s",
                hint=self._logs(role),
                code="engine.timeout",
            ) from None

    def _logs(self, role: Role) -> str:
        """Where more is to be read."""
        also = f"; {role.logs} on node {role.node.instance.node} has its own" if role.logs else ""
        return f"%nbprov logs {self.live.name} {role.name} has all of it{also}"

    async def _start(self, role: Role) -> TaskInfo:
        agent, number = agent_of(role.node), role.node.instance.node
        earlier = sum(1 for task in self.tasks[number] if task.name == role.name)
        # Two kernels that come at once name it the same, and the agent starts it once.
        task_id = f"{role.name}-r{earlier + 1}" if earlier else role.name
        facts, at = self.facts[number], private_address(self.live, role.node)
        config = {
            "id": f"{self.live.run_id}/{role.name}",
            "state": f"{FOLDER}/{task_id}.json",
            "command": [facts.program, *role.command],
            "ports": {
                name: ["0.0.0.0" if role.everywhere else at, first]
                for name, first in role.ports.items()
            },
            "at": at,
            "up": role.up,
            "says": role.says,
            "env": dict(role.env),
            "data": role.data,
            "files": dict(role.files),
            "paths": list(role.paths),
            "facts": {
                "program": facts.program,
                "python": facts.python,
                "packages": dict(facts.packages),
            },
        }
        keeper = files(__package__).joinpath("keeper.py").read_text(encoding="utf-8")
        script = f"{PATH}\nexec {shlex.quote(facts.program)} - <<'NBPROV_END'\n{keeper}NBPROV_END\n"
        variables = {
            **node_environment(self.live, role.node),
            **self.env,
            "NBPROV_KEEPER": json.dumps(config),
        }
        task = await agent.run_job(
            script, name=role.name, env=variables, id=task_id, service=True, rest=role.rest
        )
        if not task.service:
            await agent.cancel_job(task.id)
            raise EngineFailed(
                f"the agent on node {number} is of an older release, and would keep the machine on the bill for the engine's sake",
                hint="end its jobs and kernels, and run the cell again",
                code="engine.old-agent",
            )
        return task

    async def _state(self, node: Node, task_id: str) -> str:
        """What the keeper wrote, or nothing while the process is not up."""
        following = await agent_of(node).shell(
            f'cat "$HOME"{FOLDER[1:]}/{shlex.quote(task_id)}.json 2>/dev/null || true',
            name="engine-state",
            verbatim=True,
        )
        text = ""
        async for output in following:
            text += output.text if output.kind == "stdout" else ""
            if len(text) > MOST_STATE:
                raise EngineFailed(
                    "a machine says nothing sensible about its engine", code="engine.foul"
                )
        return text.strip()

    async def _told(self, role: Role, task_id: str, mark: str, tail: deque[str]) -> str:
        """What the keeper says after a mark; the last of what else was said is put into `tail`."""
        async for output in agent_of(role.node).job_output(task_id):
            if output.kind in ("stdout", "stderr"):
                for line in output.text.splitlines():
                    if line.startswith(mark):
                        return line[len(mark) :]
                    if not line.startswith(PORTS_MARK):
                        tail.append(line[:200])
        raise EngineFailed(
            f"{role.name} on node {role.node.instance.node} of {self.live.name} has ended{_lines(tail)}",
            hint=f"{self._logs(role)}; %%provision again, or {self.live.name}.start_engine(), starts it once more",
        )


def _lines(tail: Iterable[str]) -> str:
    return "".join(f"\n    {printable(line)}" for line in tail)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def printable(line: str) -> str:
    """A machine's words without what could harm a terminal."""
    return re.sub(r"[^\x20-\x7e\u00a0-\U0010ffff]", " ", line)
