"""The processes of a compute engine as jobs of the agents: start them, find them, wait for them."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import deque
from collections.abc import Callable, Iterable

from nbprov.machines.node_variables import node_environment
from nbprov.model.clock import Seconds
from nbprov.model.spec import ComputeEngine
from nbprov.model.text.plain import one_line
from nbprov.on_machine.loader import source
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of, all_of
from nbprov.remote.agent.messages import Environment, TaskInfo

from . import ray
from .certificates import certificate
from .engine_state import (
    FOLDER,
    PORTS_MARK,
    UP_MARK,
    EngineFailed,
    Interpreter,
    ports_of,
    state_of,
)
from .installation import PATH, ensure_installed
from .process_specs import ProcessSpec, private_address

START_SECONDS: Seconds = 300.0
"""How long a process may take to be up after its start.

The first import of some hundred megabytes from a cold network disk takes a minute.
"""
MORE_SECONDS: Seconds = 15.0
"""Added to `START_SECONDS` for each further node.

One head admits them all, and machines of the `local` cloud share one computer.
"""
CANCEL_SECONDS: Seconds = 20.0
"""How long an earlier process may take to end; the agent kills it after 5 s."""
MOST_STATE = 100_000
"""Characters of a supervisor's state file; an honest one has some hundred."""
LAST_LINES = 12
"""Lines that are shown of a process that did not start."""

Report = Callable[[str], None]
Values = Callable[[], Environment]


class EngineProcesses:
    """The processes of one engine on the machines of one cluster.

    Parameters
    ----------
    values
        Returns the environment variables of the workers; called when one has to be started.
    report
        Receives a line for each step.
    """

    def __init__(
        self, live: LiveCluster, engine: ComputeEngine, values: Values, report: Report
    ) -> None:
        self._live, self._engine, self._report = live, engine, report
        self._values = values
        self._env: Environment = {}
        self._interpreters: dict[int, Interpreter] = {}
        self._tasks: dict[int, tuple[TaskInfo, ...]] = {}

    async def refresh(self) -> None:
        """Ask every node for its jobs."""

        async def ask(node: Node) -> None:
            self._tasks[node.instance.node] = await agent_of(node).jobs()

        await all_of(*(ask(node) for node in self._live.present))

    def find(self, node: Node, name: str) -> TaskInfo | None:
        """Return the job of this name that runs or waits on a node."""
        return next(
            (
                task
                for task in reversed(self._tasks[node.instance.node])
                if task.name == name and not task.is_over
            ),
            None,
        )

    def live_ids(self, node: Node, prefix: str) -> list[str]:
        """Return the ids of a node's unfinished jobs whose names start with `prefix`."""
        return [
            task.id
            for task in self._tasks[node.instance.node]
            if task.name.startswith(prefix) and not task.is_over
        ]

    def interpreter_of(self, node: Node) -> Interpreter:
        """Return the interpreter of a node that `prepare` has looked at."""
        return self._interpreters[node.instance.node]

    async def prepare(self, nodes: Iterable[Node]) -> None:
        """Read the variables, and give each node the engine and its key."""
        self._env = self._values()
        keys = self._live.keys.folder
        is_dask = self._engine.kind == "dask"
        place = f"{FOLDER}/engine.pem" if is_dask else ray.PLACE_ON_NODE
        source = certificate(keys) if is_dask else ray.token_file(keys)
        text = source.read_text(encoding="ascii").strip() + "\n"

        async def one(node: Node) -> None:
            found = await ensure_installed(node, self._engine.kind, self._report)
            self._interpreters[node.instance.node] = found
            if not is_dask:
                ray.check_protected(self._live.name, found)
            await _write(node, place, text)

        await all_of(*(one(node) for node in {node.instance.node: node for node in nodes}.values()))

    async def cancel(self, prefix: str) -> None:
        """End the jobs whose names start with `prefix`, on all nodes."""

        async def one(node: Node, id: str) -> None:
            agent = agent_of(node)
            await agent.cancel_job(id)
            async with asyncio.timeout(CANCEL_SECONDS):
                await agent.job_output(id).wait()

        old = [(node, id) for node in self._live.present for id in self.live_ids(node, prefix)]
        await all_of(*(one(node, id) for node, id in old))
        if old:
            await self.refresh()

    async def wait_up(
        self, spec: ProcessSpec, begun: TaskInfo | None = None
    ) -> tuple[dict[str, int], Interpreter]:
        """Start a process unless it runs, wait until it is up, return its ports and interpreter."""
        found = begun or self.find(spec.node, spec.name) or await self.start(spec)
        tail: deque[str] = deque(maxlen=LAST_LINES)
        limit = START_SECONDS + MORE_SECONDS * (len(self._live.nodes) - 1)
        try:
            async with asyncio.timeout(limit):
                text = await read_state(spec.node, found.id)
                if not text:
                    told = await self._line_after(spec, found.id, UP_MARK, tail)
                    # The file comes first: job output is masked, which may hide part of a path.
                    text = await read_state(spec.node, found.id) or told
        except TimeoutError:
            name = self._live.name
            raise EngineFailed(
                f"{spec.name} on node {spec.node.instance.node} of {name} is not up"
                f" after {limit:g} s{_lines(tail)}",
                hint=f"{self._log_hint(spec)}; it continues to start,"
                f" and {name}.start_engine() waits for it again",
                code="engine.timeout",
            ) from None
        return state_of(text, list(spec.ports))

    async def chosen_ports(self, spec: ProcessSpec, task_id: str) -> dict[str, int]:
        """Return the ports of a process, which may not be up yet."""
        text = await read_state(spec.node, task_id)
        if text:
            return state_of(text, list(spec.ports))[0]
        tail: deque[str] = deque(maxlen=LAST_LINES)
        try:
            async with asyncio.timeout(START_SECONDS):
                told = await self._line_after(spec, task_id, PORTS_MARK, tail)
                return ports_of(told, list(spec.ports))
        except TimeoutError:
            raise EngineFailed(
                f"{spec.name} of {self._live.name} has not begun after {START_SECONDS:g} s",
                hint=self._log_hint(spec),
                code="engine.timeout",
            ) from None

    async def start(self, spec: ProcessSpec) -> TaskInfo:
        """Start a process under its supervisor, as a service of the node's agent."""
        agent, number = agent_of(spec.node), spec.node.instance.node
        earlier = sum(1 for task in self._tasks[number] if task.name == spec.name)
        # Two kernels that start it at once choose the same id, and the agent starts it once.
        task_id = f"{spec.name}-r{earlier + 1}" if earlier else spec.name
        program = self._interpreters[number].program
        keeper = source("process_supervisor")
        script = f"{PATH}\nexec {shlex.quote(program)} - <<'NBPROV_END'\n{keeper}NBPROV_END\n"
        variables = {
            **node_environment(self._live, spec.node),
            **self._env,
            "NBPROV_KEEPER": json.dumps(self._supervisor_config(spec, task_id)),
        }
        return await agent.run_job(
            script, name=spec.name, env=variables, id=task_id, service=True, rest=spec.rest
        )

    def _supervisor_config(self, spec: ProcessSpec, task_id: str) -> dict[str, object]:
        found, at = self.interpreter_of(spec.node), private_address(self._live, spec.node)
        address = "0.0.0.0" if spec.everywhere else at
        return {
            "id": f"{self._live.run_id}/{spec.name}",
            "state": f"{FOLDER}/{task_id}.json",
            "command": [found.program, *spec.command],
            "ports": {name: [address, first] for name, first in spec.ports.items()},
            "at": at,
            "up": spec.up,
            "says": spec.says,
            "env": dict(spec.env),
            "data": spec.data,
            "files": dict(spec.files),
            "paths": list(spec.paths),
            "private": list(spec.private),
            "facts": {
                "program": found.program,
                "python": found.python,
                "packages": dict(found.packages),
            },
        }

    async def _line_after(
        self, spec: ProcessSpec, task_id: str, mark: str, tail: deque[str]
    ) -> str:
        """Return what the supervisor prints after a mark; the lines before it go into `tail`."""
        async for output in agent_of(spec.node).job_output(task_id):
            if output.kind in ("stdout", "stderr"):
                for line in output.text.splitlines():
                    if line.startswith(mark):
                        return line[len(mark) :]
                    if not line.startswith(PORTS_MARK):
                        tail.append(line[:200])
        name = self._live.name
        raise EngineFailed(
            f"{spec.name} on node {spec.node.instance.node} of {name} has ended{_lines(tail)}",
            hint=f"{self._log_hint(spec)}; run the %%provision cell again, or"
            f" {name}.start_engine(), to start it once more",
        )

    def _log_hint(self, spec: ProcessSpec) -> str:
        hint = f"%nbprov logs {self._live.name} {spec.name} shows its whole output"
        node = spec.node.instance.node
        return hint + (f"; its own logs are in {spec.logs} on node {node}" if spec.logs else "")


async def read_state(node: Node, task_id: str) -> str:
    """Return the text that a supervisor wrote once its process was up; empty before."""
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
                "the machine's description of its engine is malformed", code="engine.foul"
            )
    return text.strip()


async def _write(node: Node, place: str, text: str) -> None:
    """Write a small file over the verified connection, so that no command line shows it."""
    path = f'"$HOME"{shlex.quote(place[1:])}'
    script = (
        f"umask 077; mkdir -p \"$(dirname {path})\" && cat >{path}.new <<'NBPROV_END'"
        f" && mv -f {path}.new {path}\n{text}NBPROV_END\n"
    )
    task = await (await agent_of(node).shell(script, name="engine-file")).wait()
    if task.exit_code != 0:
        raise EngineFailed(
            f"{place} could not be written on node {node.instance.node}",
            hint="is its disk full?",
        )


def _lines(tail: Iterable[str]) -> str:
    return "".join(f"\n    {printable(line)}" for line in tail)


def printable(line: str) -> str:
    """Replace the characters of a machine's line that could harm a terminal."""
    return one_line(line)
