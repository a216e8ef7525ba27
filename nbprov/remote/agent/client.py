"""The agent's client: jobs, shells and cells whose output outlives the connection."""

from __future__ import annotations

import asyncio
import binascii
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.agent import PROTOCOL
from nbprov.remote.errors import SshError
from nbprov.remote.ssh.connection import Connection

from .archive import agent_archive
from .channel import AgentAbsent, Followed, Link, LinkLost
from .framing import MOST_TASKS, AgentError, foul, understood
from .install import command, install, launch
from .messages import (
    AgentConfig,
    AgentStatus,
    Environment,
    GuardConfig,
    GuardState,
    Output,
    PeerState,
    TaskInfo,
    environment_fields,
    guard_states,
    peer_states,
)

REQUEST_SECONDS: Seconds = 30.0
"""How long the agent may take to answer: it answers from memory, so this is a matter of the line."""
RECONNECT_SECONDS: Seconds = 600.0
"""How long a lost machine is looked for before a follower is told: a router's restart, a train's tunnel, a laptop that wakes up."""
PING_SECONDS: Seconds = 20.0
"""Between two signs of life; the agent drops a client that was silent for 180 s."""
FIRST_PAUSE: Seconds = 0.05
LAST_PAUSE: Seconds = 5.0
SHUTDOWN_SECONDS: Seconds = 15.0
"""How long an old agent may take to go when a new one replaces it."""

END_ONLY = 10**9
"""Follow a task from here on to learn of its end alone."""

Reconnect = Callable[[], Awaitable[Connection]]


class _Subscription:
    """A place on a link where the output of one task arrives."""

    def __init__(self, link: Link) -> None:
        self.link, self.name = link, uuid.uuid4().hex[:12]
        self.followed = link.follows[self.name] = Followed()
        if not link.is_up:
            self.followed.close()  # it broke just now, and has told those who follow

    def end(self, *, is_over: bool = False) -> None:
        """Want no more of it; where it is over, the agent knows that."""
        self.link.follows.pop(self.name, None)
        if is_over:
            return
        with suppress(LinkLost):
            self.link.tell(op="unfollow", follow=self.name)


def _no_answer(deadline: Seconds) -> AgentError:
    return AgentError(
        f"the agent on the machine did not answer within {deadline:g} s",
        hint="the line may be down; try again",
        code="agent.timeout",
    )


class Following:
    """The output of one task from a number on, across lost connections: nothing missing, nothing twice.

    Iterate once. Leaving the loop early, or losing this object, does not touch the task.

    Attributes
    ----------
    id
        The task's id, for another `job_output` later.
    number
        Of the last output seen.
    end
        The last output, once it came: its content tells `status`, `exit_code`, `execution_count`.
    born
        Of a cell that was started: a text that changes with every kernel, empty where the kernel is yet to be started; None if unknown.
    kernel_ended
        Why the kernel's predecessor ended, where the agent says so in the cell itself.
    """

    def __init__(self, client: AgentClient, id: str, since: int = 0) -> None:
        self.id, self.number = id, since
        self.end: Output | None = None
        self.born: str | None = None
        self.kernel_ended = ""
        self._begun: _Subscription | None = None
        self._client = client

    async def __aiter__(self) -> AsyncIterator[Output]:
        begun, self._begun = self._begun, None
        async for output in self._client._follow(self.id, self.number, begun):
            self.number = output.number
            if output.kind == "end":
                self.end = output
            yield output

    async def wait(self) -> TaskInfo:
        """Wait until the task has ended and say how."""
        async for _ in self:
            pass
        return await self._client.task(self.id)


class AgentClient:
    """A client made by `AgentClient.start`. All methods belong to the loop it was made on.

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

    def __init__(
        self, connection: Connection, config: AgentConfig, reconnect: Reconnect | None
    ) -> None:
        self.connection, self.config = connection, config
        self._reconnect = reconnect if reconnect is not None else self._reopen
        self._link: Link | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._pings: asyncio.Task[None] | None = None
        self.on_ending: set[Callable[[], None]] = set()
        """Called when the agent says that its guards end the machine now; nobody is called while the line is down."""

    @classmethod
    async def start(
        cls, connection: Connection, config: AgentConfig, *, reconnect: Reconnect | None = None
    ) -> AgentClient:
        """Install the agent if its file differs, start it if it does not run, and wait for its hello. The client takes over the connection.

        Parameters
        ----------
        reconnect
            Makes a new connection when this one is lost, for machines whose address changes; by default the same address is tried.

        Raises
        ------
        SshError
            The connection broke, or the time ran out.
        RemoteError
            The machine cannot run the agent, or one of another release is in use there that this one does not understand.
        """
        client = cls(connection, config, reconnect)
        try:
            async with asyncio.timeout(config.start_seconds):
                await install(connection, config)
                await launch(connection, config)
                await client._renew(await client._linked())
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
        client._pings = asyncio.create_task(client._ping())
        return client

    async def _renew(self, link: Link) -> None:
        """Replace an agent of another release that runs there, unless variables or jobs would be lost."""
        if link.hello["hash"] == agent_archive().hash:
            return
        try:
            await link.ask("shutdown", if_idle=True)
        except AgentError:
            if link.hello["protocol"] != PROTOCOL:
                raise AgentError(
                    f"the agent on the machine ({link.hello['version']}) is of another release and in use",
                    hint="use the nbprov that started it, or end its jobs and kernels first",
                    code="agent.other-release",
                ) from None
            return
        await link.close()
        async with asyncio.timeout(SHUTDOWN_SECONDS):
            while True:
                await launch(self.connection, self.config)
                with suppress(LinkLost, AgentAbsent):
                    fresh = await Link.open(self.connection, command(self.config, "connect"))
                    if fresh.hello["hash"] == agent_archive().hash:
                        self._link = fresh
                        return
                    await fresh.close()
                await asyncio.sleep(FIRST_PAUSE)

    # -- the line

    async def _reopen(self) -> Connection:
        return await self.connection.reopen()

    async def _linked(self) -> Link:
        async with self._lock:
            if self._is_closed:
                raise AgentError("this connection to the machine is closed", code="agent.closed")
            if self._link is None or not self._link.is_up:
                if self._link is not None:
                    await self._link.close()
                self._link = await self._relink()
            return self._link

    async def _relink(self) -> Link:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + RECONNECT_SECONDS, FIRST_PAUSE
        while True:
            if self._is_closed:
                raise AgentError("this connection to the machine is closed", code="agent.closed")
            try:
                if not self.connection.is_open:
                    self.connection = await self._reconnect()
                link = await Link.open(self.connection, command(self.config, "connect"))
                link.on_event = self._hear
                return link
            except AgentAbsent:
                await install(self.connection, self.config)
                await launch(self.connection, self.config)
                trouble = "no agent runs there"
            except (SshError, LinkLost) as error:
                if isinstance(error, SshError) and not error.may_pass:
                    raise
                # It may look open and carry nothing, as after a laptop's sleep: only a new one is to be trusted.
                self.connection.abort()
                trouble = str(error)
            if loop.time() + pause > end:
                raise AgentError(
                    f"the machine could not be reached for {RECONNECT_SECONDS:g} s: {trouble}",
                    hint="%clusters shows whether it still runs; its jobs go on and their output is kept",
                    code="agent.lost",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.7, LAST_PAUSE)

    async def _ask(
        self, op: str, *, deadline: Seconds = REQUEST_SECONDS, **fields: Any
    ) -> dict[str, Any]:
        """Ask, and ask again over a new line if the old one broke: every operation may be repeated."""
        try:
            async with asyncio.timeout(deadline):
                while True:
                    link = await self._linked()
                    try:
                        return await link.ask(op, **fields)
                    except LinkLost:
                        continue
        except TimeoutError:
            raise _no_answer(deadline) from None

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            link = self._link
            if link is None or not link.is_up:
                continue
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await link.ask("ping")
            except (TimeoutError, LinkLost):
                # Followers wake up on this and make a new line.
                self.connection.abort()

    async def _follow(
        self, id: str, since: int, begun: _Subscription | None = None
    ) -> AsyncIterator[Output]:
        is_over = False
        while True:
            at = begun or _Subscription(await self._linked())
            link, name, followed = at.link, at.name, at.followed
            try:
                if begun is None:
                    await link.ask("follow", task=id, since=since, follow=name)
                begun = None
                while (frame := await followed.get()) is not None:
                    for entry in frame["entries"]:
                        if entry["n"] > since:
                            since = entry["n"]
                            yield Output.of(entry)
                    if frame.get("over"):
                        is_over = True
                        return
                if link.foul is not None:
                    raise link.foul
            except LinkLost:
                pass
            finally:
                at.end(is_over=is_over)

    def _hear(self, frame: dict[str, Any]) -> None:
        if frame["ev"] == "ending":
            for tell in tuple(self.on_ending):
                tell()

    async def _start(
        self, kind: str, code: str, id: str | None, env: Environment | None, **more: Any
    ) -> dict[str, Any]:
        return await self._ask(
            "start",
            task=id or uuid.uuid4().hex,
            kind=kind,
            code=code,
            **environment_fields(env),
            **more,
        )

    async def _start_followed(
        self,
        kind: str,
        code: str,
        id: str,
        env: Environment | None,
        *,
        deadline: Seconds,
        follow: bool,
        **more: Any,
    ) -> tuple[dict[str, Any], _Subscription | None]:
        """Start a task and follow it in one request, where that is wanted: a round trip less before its output comes."""
        if not follow:
            return await self._start(kind, code, id, env, deadline=deadline, **more), None
        at: _Subscription | None = None
        try:
            async with asyncio.timeout(deadline):
                while True:
                    at = _Subscription(await self._linked())
                    try:
                        answer = await at.link.ask(
                            "start",
                            task=id,
                            kind=kind,
                            code=code,
                            **environment_fields(env),
                            follow=at.name,
                            **more,
                        )
                        break
                    except LinkLost:
                        at.end()
        except TimeoutError:
            raise _no_answer(deadline) from None
        except BaseException:
            if at is not None:
                at.end()
            raise
        if answer.get("followed"):
            return answer, at
        at.end()  # it was started by an earlier request whose answer was lost
        return answer, None

    async def _begin(
        self, kind: str, code: str, id: str | None, env: Environment | None, **more: Any
    ) -> Following:
        answer, at = await self._start_followed(kind, code, id or uuid.uuid4().hex, env, **more)
        following = Following(self, understood(TaskInfo.of, answer.get("task")).id)
        following._begun = at
        following.born, following.kernel_ended = answer.get("born"), str(answer.get("ended") or "")
        return following

    # -- the machine

    @property
    def is_linked(self) -> bool:
        """Whether the line is up, as far as is known."""
        return self._link is not None and self._link.is_up

    @property
    def previous_end(self) -> dict[str, Any] | None:
        """Which guard ended this machine the last time, where it was stopped by one and started again."""
        found = self._link.hello.get("previous_end") if self._link is not None else None
        return found if isinstance(found, dict) else None

    @property
    def lost_jobs(self) -> tuple[str, ...]:
        """Ids of the jobs that were cut off when this machine, or its agent, stopped the last time."""
        found = self._link.hello.get("lost") if self._link is not None else None
        return (
            tuple(str(one)[:64] for one in found if str(one).isprintable())
            if isinstance(found, list)
            else ()
        )

    async def status(self) -> AgentStatus:
        """What the agent says of itself and its machine."""
        return understood(AgentStatus.of, await self._ask("status"))

    async def set_guards(self, guards: GuardConfig) -> tuple[GuardState, ...]:
        """Replace the guards. Age and running time go on; the idle clock and the budget's count start anew only where their rule changed."""
        answer = await self._ask("guards", config=guards.to_json())
        return understood(guard_states, answer.get("guards"))

    async def release(self) -> bool:
        """Say that the outputs are taken: a machine that waits for that ends at once. False where none waits."""
        return bool((await self._ask("taken")).get("released"))

    def events(self, since: int = 0) -> Following:
        """What the agent itself noted: started, guards, warning, guard (one is due), hook, poweroff. Does not end by itself."""
        return Following(self, "agent", since)

    async def join_gang(self, rank: int, nodes: Sequence[tuple[str, int]], secret: bytes) -> None:
        """Tell the agent who the machines of its cluster are, so that they tell each other when they were last active.

        Parameters
        ----------
        rank
            Which of `nodes` this machine is.
        nodes
            Address and UDP port of every machine's agent, head first.
        secret
            Of this cluster alone; the agents know each other by it.

        Raises
        ------
        AgentError
            `agent.gang`, where the machine cannot listen at its address.
        """
        await self._ask(
            "gang",
            config={"rank": rank, "nodes": [list(node) for node in nodes], "secret": secret.hex()},
        )

    async def gang(self) -> tuple[PeerState, ...]:
        """The other machines of the cluster, as far as this one has heard of them."""
        return understood(peer_states, (await self._ask("gang")).get("peers"))

    # -- jobs and shells

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
        """Start a bash script as a job of its own: it runs on whether anybody listens or not.

        Parameters
        ----------
        env
            Its variables, secrets among them; they go to its process alone and are kept nowhere.
        cwd
            Its folder, by default the home.
        after
            Ids of jobs that must succeed first; else this one is skipped. So `setup` and `run` need no laptop in between.
        id
            A name of the caller's making (letters, digits, `-`, `_`); a job with this id that exists already is returned, not run again.
        service
            It waits for work (a scheduler): it alone does not count as activity for the idle guard, its CPU and GPU use does.
        rest
            How many cores such a one uses while it waits: they are no activity either.
        """
        more = {"service": True, "rest": rest} if service else {}
        answer = await self._start(
            "job", script, id, env, name=name, cwd=cwd, after=list(after), **more
        )
        return understood(TaskInfo.of, answer.get("task"))

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
        """Queue a bash script as a job that begins once the GPUs it asks for are free, in the order of submission.

        Parameters
        ----------
        nonce
            Says that it is the same request again: with another one, an id that is taken is refused (`agent.taken`).
        gpus
            All by default (without GPUs: the machine to itself); 0 for none, and no waiting; below 1 a share of one.
        gpus_told
            How many GPUs the machine was got with, for where it cannot see for itself.
        nodes
            How many nodes have a part of this job.
        held
            Keep its place, and begin after `release_job` only; it is given up after a minute.
        """
        answer = await self._ask(
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
        return understood(TaskInfo.of, answer.get("task"))

    async def release_job(self, id: str) -> TaskInfo:
        """Let a job that was submitted held begin when it is its turn."""
        return understood(TaskInfo.of, (await self._ask("release", task=id)).get("task"))

    async def jobs(self) -> tuple[TaskInfo, ...]:
        """All jobs the agent remembers, oldest first."""
        return tuple(task for task in await self._tasks() if task.kind == "job")

    async def _tasks(self) -> list[TaskInfo]:
        answer = await self._ask("tasks")
        rows = understood(lambda rows: [TaskInfo.of(row) for row in rows], answer.get("tasks"))
        if len(rows) > MOST_TASKS:
            raise foul(f"{len(rows):,} tasks")
        return rows

    async def tasks(self) -> tuple[TaskInfo, ...]:
        """All jobs, shells and cells the agent remembers, oldest first."""
        return tuple(await self._tasks())

    async def task(self, id: str) -> TaskInfo:
        """One job, shell or cell.

        Raises
        ------
        AgentError
            `agent.no-task`, if the agent does not know it (any more).
        """
        for task in await self._tasks():
            if task.id == id:
                return task
        raise AgentError(f"the agent knows no task {id}", code="agent.no-task")

    def job_output(self, id: str, since: int = 0) -> Following:
        """The output of a job, a shell or a cell after number `since`: what is kept, then what comes, to its end."""
        return Following(self, id, since)

    async def cancel_job(
        self, id: str, *, nonce: str | None = None, deadline: Seconds = REQUEST_SECONDS
    ) -> TaskInfo:
        """Ask a job, a shell or a cell to end: SIGTERM to its process group, SIGKILL after 5 s; a cell is interrupted. Its end comes as output.

        With `nonce` only a job of that submission is ended, and no other that has its id.
        """
        more = {} if nonce is None else {"nonce": nonce}
        return understood(
            TaskInfo.of, (await self._ask("cancel", deadline=deadline, task=id, **more)).get("task")
        )

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
    ) -> Following:
        """Run a bash script as a cell does: its output streams, its exit code comes at the end.

        With `silent` it is one of nbprov's own, of which the agent keeps the last few alone. With `verbatim` its stdout is left as it is: what
        nbprov itself asks for and reads, and a secret called `python` would spoil.
        """
        own = {"silent": silent, "verbatim": verbatim}
        return await self._begin(
            "shell", command, id, env, deadline=deadline, follow=follow, name=name, cwd=cwd, **own
        )

    # -- cells

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
    ) -> Following:
        """Run Python code in a kernel on the machine; the kernel is started with the first cell and keeps its variables.

        Where the machine's Python has no ipykernel, the first cell installs it and says so in its output.

        Parameters
        ----------
        env
            Set in the kernel before the code runs, where not set so already.
        cwd
            The folder the kernel is started in, by default the home.
        silent
            Leave the kernel's history and execution count alone; it is one of nbprov's own, of which the agent keeps the last few alone.
        deadline
            Seconds in which the agent must have taken it; the line may be made anew meanwhile.
        follow
            Its output is sent from the start, a round trip earlier; whoever asks for that must iterate over the result.
        verbatim
            It prints data, in which short secrets are not looked for.
        """
        own = {"silent": silent, "verbatim": verbatim}
        return await self._begin(
            "cell",
            code,
            id,
            env,
            deadline=deadline,
            follow=follow,
            name=kernel,
            kernel=kernel,
            cwd=cwd,
            **own,
        )

    # -- variables on their way

    async def put(self, box: str, offset: int, data: bytes | memoryview) -> tuple[int, str]:
        """Write a piece into a box on the machine; how much is in it now (less than `offset` where the piece was not taken), and its path there.

        Asked again over a new line it is there once all the same.

        Raises
        ------
        AgentError
            `agent.no-room`, `agent.boxes-full`.
        """
        text = binascii.b2a_base64(data, newline=False).decode("ascii")
        answer = await self._ask(
            "put", deadline=RECONNECT_SECONDS, box=box, offset=offset, data=text
        )
        return understood(lambda told: (int(told["size"]), str(told["path"])), answer)

    async def get(self, box: str, offset: int, size: int) -> bytes:
        """A piece of a box on the machine.

        Raises
        ------
        AgentError
            `agent.no-box`, if it is not there any more.
        """
        answer = await self._ask(
            "get", deadline=RECONNECT_SECONDS, box=box, offset=offset, size=size
        )
        data = understood(lambda told: binascii.a2b_base64(told["data"]), answer)
        if len(data) > size:
            raise foul("more than was asked for")
        return data

    async def drop(self, box: str) -> None:
        """Remove a box from the machine."""
        await self._ask("drop", deadline=RECONNECT_SECONDS, box=box)

    async def complete(
        self, code: str, cursor: int, kernel: str = "main", *, deadline: Seconds
    ) -> dict[str, Any]:
        """What an idle kernel offers at a cursor, as Jupyter's `complete_reply` has it; empty where it cannot tell now. Opens no connection."""
        return await self._ask_kernel("complete", deadline, code=code, cursor=cursor, kernel=kernel)

    async def inspect(
        self, code: str, cursor: int, detail: int = 0, kernel: str = "main", *, deadline: Seconds
    ) -> dict[str, Any]:
        """What an idle kernel knows of the name at a cursor, as Jupyter's `inspect_reply` has it, as text; else as `complete`."""
        return await self._ask_kernel(
            "inspect", deadline, code=code, cursor=cursor, detail=detail, kernel=kernel
        )

    async def _ask_kernel(self, question: str, deadline: Seconds, **about: Any) -> dict[str, Any]:
        link = self._link
        if link is None or not link.is_up:
            return {}
        try:
            async with asyncio.timeout(deadline):
                found = (await link.ask(question, **about)).get("found")
        except (TimeoutError, LinkLost, AgentError):
            return {}
        return found if isinstance(found, dict) and found.get("status") == "ok" else {}

    async def interrupt(self, kernel: str = "main") -> bool:
        """Interrupt the running cell of a kernel (KeyboardInterrupt); False if none ran."""
        return bool((await self._ask("interrupt", kernel=kernel)).get("interrupted"))

    async def restart_kernel(self, kernel: str = "main") -> None:
        """End a kernel and its variables; the next cell starts a new one."""
        await self._ask("restart", kernel=kernel)

    async def close(self) -> None:
        """Close the line and the connection. What runs on the machine goes on under its guards."""
        self._is_closed = True
        if self._pings is not None:
            self._pings.cancel()
        if self._link is not None:
            await self._link.close()
        await self.connection.close()
