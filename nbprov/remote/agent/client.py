"""The agent's client: jobs, shells and cells whose output outlives the connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import MachineLoad
from nbprov.remote.ssh.connection import Connection

from .boxes import BoxClient
from .config import AgentConfig, GuardConfig
from .framing import AgentError, parsed
from .gang import GangClient
from .kernels import KernelClient
from .messages import (
    AgentStatus,
    Environment,
    GuardState,
    TaskInfo,
    environment_fields,
    guard_states,
    machine_load,
)
from .output_stream import OutputStream
from .tasks import all_tasks, find_task
from .transport import REQUEST_SECONDS, AgentTransport, Reconnect


class AgentClient:
    """A client made by `AgentClient.start`. All methods belong to the loop it was made on.

    Attributes
    ----------
    transport
        Asks the agent, over a new connection where the last one broke.
    boxes
        In which variables travel.
    kernels
        Completion, inspection, interrupt and restart.
    found_unset
        Whether the agent, a new one or one that had lost them, had no guards when they were set.

    Examples
    --------
    ::

        client = await AgentClient.start(connection, AgentConfig(guards=guards))
        async for output in await client.cell("x = 41; x + 1"):
            print(output.kind, output.content)
        job = await client.run_job("python train.py", name="run", env={"TOKEN": Secret("…")})
        async for output in client.job_output(job.id):
            print(output.text, end="")
    """

    def __init__(self, transport: AgentTransport) -> None:
        self.transport = transport
        self.boxes = BoxClient(transport)
        self.kernels = KernelClient(transport)
        self.gang = GangClient(transport)
        self.found_unset = False
        self._guarded: dict[str, Any] | None = None

    @classmethod
    async def start(
        cls, connection: Connection, config: AgentConfig, *, reconnect: Reconnect | None = None
    ) -> AgentClient:
        """Install the agent if needed, start it if it does not run, and wait for its greeting.

        The client takes over the connection.

        Parameters
        ----------
        reconnect
            Makes a new connection when this one is lost, for machines whose address changes; by
            default the same address is tried.

        Raises
        ------
        SshError
            The connection broke, or the time ran out.
        RemoteError
            The machine cannot run the agent, or one that this release cannot use is at work there.
        """
        transport = AgentTransport(connection, config, reconnect)
        client = cls(transport)
        try:
            async with asyncio.timeout(config.start_seconds):
                await transport.start()
                if config.guards is not None:
                    await client.set_guards(config.guards)
        except TimeoutError:
            await client.close()
            raise AgentError(
                f"the agent on the machine did not answer within {config.start_seconds:g} s",
                code="agent.start-timeout",
            ) from None
        except BaseException:
            await client.close()
            raise
        transport.start_pings()
        return client

    @property
    def connection(self) -> Connection:
        """The ssh connection in use."""
        return self.transport.connection

    @property
    def is_linked(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return self.transport.is_up

    @property
    def previous_end(self) -> dict[str, Any] | None:
        """Which guard stopped this machine the last time, if it was started again since."""
        found = self.transport.hello.get("previous_end")
        return found if isinstance(found, dict) else None

    @property
    def lacks_guards(self) -> bool:
        """Whether the agent greeted without guards, and this client has set none since."""
        hello = self.transport.hello
        return bool(hello.get("unset")) and hello is not self._guarded

    @property
    def lost_jobs(self) -> tuple[str, ...]:
        """Ids of the jobs that the last stop of this machine or its agent cut off."""
        found = self.transport.hello.get("lost")
        if not isinstance(found, list):
            return ()
        return tuple(str(one)[:64] for one in found if str(one).isprintable())

    async def status(self) -> AgentStatus:
        """Return what the agent says of itself and its machine."""
        return parsed(AgentStatus.of, await self.transport.ask("status"))

    async def load(self, now: Instant) -> MachineLoad:
        """Return what the machine did within the last minute. That keeps no machine awake.

        Parameters
        ----------
        now
            The time here, by which the samples are dated.
        """
        return parsed(lambda data: machine_load(data, now), await self.transport.ask("load"))

    async def set_guards(self, guards: GuardConfig) -> tuple[GuardState, ...]:
        """Replace the guards.

        Age and running time go on. The idle clock and the budget's count start anew only where
        their rule changed.
        """
        hello = self.transport.hello  # another agent may be started before the answer
        answer = await self.transport.ask("guards", config=guards.to_json())
        self._guarded, self.found_unset = hello, bool(answer.get("was_unset"))
        return parsed(guard_states, answer.get("guards"))

    async def release(self) -> bool:
        """Say that the outputs have been fetched.

        A machine that waits for that ends at once; False where none waits.
        """
        return bool((await self.transport.ask("taken")).get("released"))

    def events(self, since: int = 0) -> OutputStream:
        """Return the agent's own events, which do not end by themselves.

        They are: started, guards_lost, guards, warning, guard (one is due), hook, poweroff.
        """
        return OutputStream(self.transport, "agent", since)

    async def run_job(
        self,
        script: str,
        *,
        name: str = "job",
        env: Environment | None = None,
        cwd: str | None = None,
        after: Sequence[str] = (),
        id: str | None = None,
        service: bool = False,
        rest: float = 0.0,
    ) -> TaskInfo:
        """Start a bash script as a job, which runs on whether anybody listens or not.

        Parameters
        ----------
        env
            Its variables, secrets among them. They go to its process alone and are stored nowhere.
        cwd
            Its folder, by default the home.
        after
            Ids of jobs that must succeed first, else this one is skipped. So `run` follows `setup`
            without this computer.
        id
            A name chosen by the caller (letters, digits, `-`, `_`). If a job with this id exists
            already, it is returned and not run again.
        service
            It waits for work, as a scheduler does. It does not by itself count as activity for the
            idle guard; its CPU and GPU use does.
        rest
            How many cores a service uses while it waits, which do not count either.
        """
        more = {"service": True, "rest": rest} if service else {}
        answer = await self.transport.ask(
            "start",
            task=id or uuid.uuid4().hex,
            kind="job",
            code=script,
            **environment_fields(env),
            name=name,
            cwd=cwd,
            after=list(after),
            **more,
        )
        return parsed(TaskInfo.of, answer.get("task"))

    async def submit_job(
        self,
        script: str,
        id: str,
        nonce: str,
        *,
        name: str = "job",
        env: Environment | None = None,
        cwd: str | None = None,
        after: Sequence[str] = (),
        gpus: float | None = None,
        gpus_told: int = 0,
        nodes: int = 1,
        held: bool = False,
    ) -> TaskInfo:
        """Queue a bash script as a job that begins once the GPUs it asks for are free.

        Jobs begin in the order of their submission.

        Parameters
        ----------
        nonce
            Tells a repeated request from another one: with another nonce, an id that is taken is
            refused (`agent.taken`).
        gpus
            All by default (on a machine without GPUs: the machine to itself); 0 for none, and no
            waiting; below 1 a share of one.
        gpus_told
            How many GPUs the machine was bought with, for agents that cannot see for themselves.
        nodes
            How many nodes have a part of this job.
        held
            Keep its place, and begin only after `release_job`; it is given up after a minute.
        """
        answer = await self.transport.ask(
            "submit",
            task=id,
            nonce=nonce,
            code=script,
            **environment_fields(env),
            name=name,
            cwd=cwd,
            after=list(after),
            gpus="all" if gpus is None else gpus,
            gpus_told=gpus_told,
            nodes=nodes,
            held=held,
        )
        return parsed(TaskInfo.of, answer.get("task"))

    async def release_job(self, id: str) -> TaskInfo:
        """Let a job that was submitted held begin when it is its turn."""
        return parsed(TaskInfo.of, (await self.transport.ask("release", task=id)).get("task"))

    async def jobs(self) -> tuple[TaskInfo, ...]:
        """Return all jobs that the agent remembers, oldest first."""
        return tuple(task for task in await self.tasks() if task.kind == "job")

    async def tasks(self) -> tuple[TaskInfo, ...]:
        """Return all jobs, shells and cells that the agent remembers, oldest first."""
        return await all_tasks(self.transport)

    async def task(self, id: str) -> TaskInfo:
        """Return one job, shell or cell.

        Raises
        ------
        AgentError
            `agent.no-task`, if the agent does not know it (any more).
        """
        return await find_task(self.transport, id)

    def job_output(self, id: str, since: int = 0) -> OutputStream:
        """Return the output of a job, a shell or a cell after number `since`, to its end."""
        return OutputStream(self.transport, id, since)

    async def cancel_job(
        self, id: str, *, nonce: str | None = None, deadline: Seconds = REQUEST_SECONDS
    ) -> TaskInfo:
        """Ask a job, a shell or a cell to end; its end comes as output.

        A process group gets SIGTERM, and SIGKILL after 5 s; a cell is interrupted.

        Parameters
        ----------
        nonce
            End only the job of that submission, and no other one with its id.
        """
        more = {} if nonce is None else {"nonce": nonce}
        answer = await self.transport.ask("cancel", deadline=deadline, task=id, **more)
        return parsed(TaskInfo.of, answer.get("task"))

    async def shell(
        self,
        command: str,
        *,
        env: Environment | None = None,
        cwd: str | None = None,
        name: str = "shell",
        silent: bool = False,
        id: str | None = None,
        deadline: Seconds = REQUEST_SECONDS,
        follow: bool = False,
        verbatim: bool = False,
    ) -> OutputStream:
        """Run a bash script as a cell does: its output streams, its exit code comes at the end.

        Parameters
        ----------
        silent
            It is one of nbprov's own, of which the agent keeps the last few alone.
        verbatim
            Do not mask its stdout: nbprov reads it, and a secret with the value `python` would
            spoil it.
        """
        more: dict[str, Any] = {"name": name, "cwd": cwd, "silent": silent, "verbatim": verbatim}
        return await OutputStream.start(
            self.transport, "shell", command, id, env, deadline=deadline, follow=follow, **more
        )

    async def cell(
        self,
        code: str,
        kernel: str = "main",
        *,
        env: Environment | None = None,
        cwd: str | None = None,
        silent: bool = False,
        id: str | None = None,
        deadline: Seconds = REQUEST_SECONDS,
        follow: bool = False,
        verbatim: bool = False,
    ) -> OutputStream:
        """Run Python code in a kernel on the machine.

        The kernel is started with the first cell and keeps its variables. Where the machine's
        Python has no ipykernel, the first cell installs it and says so in its output.

        Parameters
        ----------
        env
            Set in the kernel before the code runs, where not set so already.
        cwd
            The folder the kernel is started in, by default the home.
        silent
            Leave the kernel's history and execution count alone. It is one of nbprov's own cells,
            of which the agent keeps the last few alone.
        deadline
            Seconds in which the agent must have accepted it; the connection may be made anew
            meanwhile.
        follow
            Its output is sent from the start, a round trip earlier; the caller must iterate over
            the result.
        verbatim
            It prints data, in which short secrets are not looked for.
        """
        more: dict[str, Any] = {"name": kernel, "kernel": kernel, "cwd": cwd}
        more |= {"silent": silent, "verbatim": verbatim}
        return await OutputStream.start(
            self.transport, "cell", code, id, env, deadline=deadline, follow=follow, **more
        )

    async def close(self) -> None:
        """Close the connection. What runs on the machine goes on under its guards."""
        await self.transport.close()
