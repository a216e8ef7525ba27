"""Bringing an engine up, and finding one that runs: the same call, as often as one likes."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.resources import files

from nbprov.machines.cells import agent_of
from nbprov.machines.tunnels import Service
from nbprov.machines.variables import node_environment
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.spec import Engine
from nbprov.provisioning.live import LiveCluster, Node, all_of
from nbprov.remote.agent.values import Environment, TaskInfo

from . import dask, ray
from .certificates import certificate
from .probing import PATH, interpreter
from .roles import Role, private_address
from .values import FOLDER, UP_MARK, EngineFailed, Facts, Running, state_of

START_SECONDS: Seconds = 300.0
"""From the start of a process to its being up: the first import of some hundred megabytes from a cold network disk takes a minute."""
CANCEL_SECONDS: Seconds = 20.0
"""How long an earlier process may take to end; the agent kills it after 5 s."""
MOST_STATE = 100_000
"""Characters of what a keeper writes: ports and versions are some hundred."""
LAST_LINES = 12
"""Of a process that did not start, that are shown."""

Report = Callable[[str], None]
_locks: dict[str, asyncio.Lock] = {}


async def ensure_engine(live: LiveCluster, engine: Engine, env: Environment, report: Report) -> Running:
    """Start what of the engine does not run yet, and say where it listens. What runs is left alone.

    Parameters
    ----------
    env
        Variables of the workers, as `run` has them.
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
        starter = _Starter(live, engine, env, report)
        return await (starter.dask() if engine.kind == "dask" else starter.ray())


def services(kind: str) -> dict[str, Service]:
    """What listens on the ports of an engine, for its tunnels.

    Examples
    --------
    >>> services("dask")["dashboard"].what
    'the Dask dashboard'
    """
    if kind == "dask":
        return {"scheduler": Service("the Dask scheduler", "tls"), "dashboard": Service("the Dask dashboard")}
    return {"client": Service("Ray's client server", "ray")}


class _Starter:
    """One bringing up."""

    def __init__(self, live: LiveCluster, engine: Engine, env: Environment, report: Report) -> None:
        self.live, self.engine, self.env, self.report = live, engine, env, report
        self.facts: dict[int, Facts] = {}
        self.tasks: dict[int, tuple[TaskInfo, ...]] = {}

    async def dask(self) -> Running:
        """A scheduler, then the workers."""
        await self._look()
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
            self.report(f"starting {len(missing)} Dask worker{'s' if len(missing) > 1 else ''}")
        await all_of(*(self._up(role) for role in workers))
        count = len(self.live.present) * dask.workers_of(self.live, self.engine)
        return self._running(ports, facts, count)

    async def ray(self) -> Running:
        """A head, then the other nodes."""
        await self._look()
        head = ray.head(self.live, self.engine)
        is_new = self._of(head.node, head.name) is None
        if is_new:
            await self._prepare(self.live.present)
            # They belong to a head that is gone.
            await self._cancel("ray-node-")
            self.report("starting Ray's head")
        ports, facts = await self._up(head)
        others = ray.nodes(self.live, self.engine, ports["gcs"])
        missing = [role for role in others if self._of(role.node, role.name) is None]
        if missing:
            if not is_new:
                await self._prepare([role.node for role in missing])
            self.report(f"starting Ray on {len(missing)} more node{'s' if len(missing) > 1 else ''}")
        await all_of(*(self._up(role) for role in others))
        self.live.variables = ray.variables(self.live, ports["gcs"])
        return self._running(ports, facts, len(self.live.present))

    def _running(self, ports: dict[str, int], facts: Facts, workers: int) -> Running:
        """With a word where this kernel's own client would not do."""
        running, kind = Running(self.engine.kind, ports, facts, workers), dask if self.engine.kind == "dask" else ray
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

    def _of(self, node: Node, name: str) -> TaskInfo | None:
        """The live job of this name."""
        return next((task for task in reversed(self.tasks[node.instance.node]) if task.name == name and not task.is_over), None)

    async def _prepare(self, nodes: Iterable[Node]) -> None:
        """The interpreter, and the key, of machines where something is to be started."""
        keys = self.live.keys.folder
        is_dask = self.engine.kind == "dask"
        place = f"{FOLDER}/engine.pem" if is_dask else ray.PLACE_ON_NODE
        text = (certificate(keys) if is_dask else ray.token_file(keys)).read_text(encoding="ascii").strip() + "\n"

        async def one(node: Node) -> None:
            facts = self.facts[node.instance.node] = await interpreter(node, self.engine.kind, self.report)
            if not is_dask:
                ray.check_protected(self.live.name, facts)
            await self._write(node, place, text)

        await all_of(*(one(node) for node in {node.instance.node: node for node in nodes}.values()))

    async def _write(self, node: Node, place: str, text: str) -> None:
        """Put a small file in place, over the verified connection and through no command line."""
        path = f'"$HOME"{shlex.quote(place[1:])}'
        script = (
            f"umask 077; mkdir -p \"$(dirname {path})\" && cat >{path}.new <<'NBPROV_END' && mv -f {path}.new {path}\n{text}NBPROV_END\n"
        )
        task = await (await agent_of(node).shell(script, name="engine-file")).wait()
        if task.exit_code != 0:
            raise EngineFailed(f"{place} could not be written on node {node.instance.node}", hint="is its disk full?")

    async def _cancel(self, prefix: str) -> None:
        async def one(node: Node, task: TaskInfo) -> None:
            agent = agent_of(node)
            await agent.cancel_job(task.id)
            async with asyncio.timeout(CANCEL_SECONDS):
                await agent.job_output(task.id).wait()

        old = [(n, t) for n in self.live.present for t in self.tasks[n.instance.node] if t.name.startswith(prefix) and not t.is_over]
        await all_of(*(one(node, task) for node, task in old))
        if old:
            await self._look()

    async def _up(self, role: Role) -> tuple[dict[str, int], Facts]:
        """Start a process unless it runs, and wait until it is up; its ports, and its interpreter."""
        found = self._of(role.node, role.name)
        if found is None:
            found = await self._start(role)
        try:
            async with asyncio.timeout(START_SECONDS):
                text = await self._state(role.node, found.id) or await self._told(role, found.id)
        except TimeoutError:
            raise EngineFailed(
                f"{role.name} of {self.live.name} is not up after {START_SECONDS:g} s", hint=f"%nbprov logs {self.live.name} {found.id}"
            ) from None
        return state_of(text, list(role.ports))

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
            "ports": {name: ["0.0.0.0" if role.everywhere else at, first] for name, first in role.ports.items()},
            "at": at,
            "up": role.up,
            "says": role.says,
            "env": dict(role.env),
            "data": role.data,
            "files": dict(role.files),
            "facts": {"program": facts.program, "python": facts.python, "packages": dict(facts.packages)},
        }
        keeper = files(__package__).joinpath("keeper.py").read_text(encoding="utf-8")
        script = f"{PATH}\nexec {shlex.quote(facts.program)} - <<'NBPROV_END'\n{keeper}NBPROV_END\n"
        variables = {**node_environment(self.live, role.node), **self.env, "NBPROV_KEEPER": json.dumps(config)}
        task = await agent.run_job(script, name=role.name, env=variables, id=task_id, service=True, rest=role.rest)
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
            f'cat "$HOME"{FOLDER[1:]}/{shlex.quote(task_id)}.json 2>/dev/null || true', name="engine-state"
        )
        text = ""
        async for output in following:
            text += output.text if output.kind == "stdout" else ""
            if len(text) > MOST_STATE:
                raise EngineFailed("a machine says nothing sensible about its engine", code="engine.foul")
        return text.strip()

    async def _told(self, role: Role, task_id: str) -> str:
        """What the keeper says once the process is up."""
        tail: deque[str] = deque(maxlen=LAST_LINES)
        async for output in agent_of(role.node).job_output(task_id):
            if output.kind in ("stdout", "stderr"):
                for line in output.text.splitlines():
                    if line.startswith(UP_MARK):
                        return line[len(UP_MARK) :]
                    tail.append(line[:200])
        raise _ended(self.live, role.name, role.node, tail)


def _ended(live: LiveCluster, name: str, node: Node, tail: Sequence[str] | deque[str]) -> EngineFailed:
    last = "".join(f"\n    {printable(line)}" for line in tail)
    return EngineFailed(
        f"{name} on node {node.instance.node} of {live.name} has ended{last}",
        hint=f"%nbprov logs {live.name} {name} has all of it; %%provision again, or {live.name}.start_engine(), starts it once more",
    )


def printable(line: str) -> str:
    """A machine's words without what could harm a terminal."""
    return re.sub(r"[^\x20-\x7e\u00a0-\U0010ffff]", " ", line)
