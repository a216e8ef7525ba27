"""Jobs on a cluster: list and find them, wait for their end, cancel them.

`submit.py` submits them.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.model.clock import Instant
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.text.plain import one_line
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import TaskInfo

STEPS = ("python", "setup")
"""Jobs that make a machine ready, which submitted jobs wait for."""

RESERVED = (*STEPS, "run", "agent")
"""Names of the spec's own jobs, and of the agent."""

LIVE = ("queued", "running")
WORST_FIRST = ("failed", "lost", "cancelled", "skipped", "ok")
"""A job of several nodes ended like the worst of its parts."""

MOST_NAME = 40
MOST_REASON = 160
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class JobError(NbprovError):
    """A job cannot be submitted as requested, or cannot be reached."""

    code = "job"


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a cluster: `setup` or `run` of its spec, or a submitted one.

    Attributes
    ----------
    state
        `queued`, `running`, or how it ended: `ok`, `failed`, `cancelled`, `skipped` (a job before
        it did not succeed), `lost` (its machine or its agent stopped before it was over).
    exit_code
        The exit code if it ran to an end; negative if a signal ended it.
    created, started, ended
        Seconds since the epoch, by the machine's clock.
    gpus
        What it asks for: `all`, a number, a fraction of one; None for `setup`.
    devices
        The numbers of its GPUs on the head.
    nodes
        The number of nodes that have a part of it.
    position
        Its place in the head's queue; 1 is next.
    parts
        State and exit code on each node that answered, head first.
    reason
        Why an agent ended it, or a part of it, on its own; empty otherwise.
    kept
        Whether it comes from the archive here, without asking its machine.
    """

    id: str
    name: str
    state: str
    exit_code: int | None = None
    created: Instant = 0.0
    started: Instant | None = None
    ended: Instant | None = None
    gpus: str | float | None = None
    devices: tuple[int, ...] = ()
    nodes: int = 1
    position: int | None = None
    parts: tuple[tuple[str, int | None], ...] = ()
    reason: str = ""
    kept: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, task: TaskInfo) -> Job | None:
        """Read what an agent says about a task; None if it is no job.

        A machine may say anything, so every field is checked.
        """
        if not isinstance(task.id, str) or not _ID.fullmatch(task.id):
            return None
        state = str(task.status or task.state)
        exit_code = task.exit_code if isinstance(task.exit_code, int) else None
        return cls(
            id=task.id,
            name=_plain(task.name),
            state=state if state in LIVE + WORST_FIRST else "failed",
            exit_code=exit_code,
            created=_instant(task.created) or 0.0,
            started=_instant(task.started),
            ended=_instant(task.ended),
            gpus=task.gpus if task.gpus == "all" or isinstance(task.gpus, int | float) else None,
            devices=tuple(number for number in task.devices or () if isinstance(number, int))[:64],
            nodes=task.nodes if isinstance(task.nodes, int) and 0 < task.nodes < 10_000 else 1,
            position=task.position if isinstance(task.position, int) else None,
            parts=((state, exit_code),),
            reason=one_line(task.reason[:MOST_REASON]),
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state not in LIVE

    @property
    def ok(self) -> bool:
        """Whether it succeeded on every node."""
        return self.state == "ok"


def _plain(text: object) -> str:
    return one_line(str(text)[:MOST_NAME]) or "job"


def _instant(value: object) -> Instant | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


async def _jobs_of(node: Node) -> Sequence[TaskInfo]:
    """Return a node's jobs; none if its machine was lost."""
    return () if node.missing else await agent_of(node).jobs()


async def list_jobs(live: LiveCluster) -> list[Job]:
    """Return the jobs of the head, oldest first, joined with their parts on other nodes.

    If a node does not answer, its part of a job that succeeded elsewhere counts as running, since
    its end is not known.
    """
    asked = await asyncio.gather(*(_jobs_of(node) for node in live.nodes), return_exceptions=True)
    if isinstance(asked[0], BaseException):
        raise asked[0]
    # Only one job for each id and node is accepted, whatever a machine says.
    told = [
        {}
        if isinstance(tasks, BaseException)
        else {j.id: j for t in tasks if (j := Job.of(t)) is not None}
        for tasks in asked
    ]

    def whole(head: Job) -> Job:
        parts = [head]
        for tasks, jobs in zip(asked[1 : head.nodes], told[1:], strict=False):
            if head.id in jobs:
                parts.append(jobs[head.id])
            elif isinstance(tasks, BaseException) and head.ok:
                parts.append(replace(head, state="running", exit_code=None, ended=None))
        return joined(parts)

    return [whole(head) for head in told[0].values()]


def joined(parts: Sequence[Job]) -> Job:
    """Join the parts of a job, head first: it is as far as the last and as bad as the worst."""
    head = parts[0]
    if len(parts) == 1:
        return head
    states = [part.state for part in parts]
    codes = [part.exit_code for part in parts]
    if any(state in LIVE for state in states):
        state, ended = ("queued" if all(s == "queued" for s in states) else "running"), None
    else:
        state = next(s for s in WORST_FIRST if s in states)
        ended = max((part.ended for part in parts if part.ended is not None), default=None)
    # The part that failed first explains the failure of the others.
    blamed = [code for code, s in zip(codes, states, strict=True) if code and s == state] or [
        code for code in codes if code
    ]
    return replace(
        head,
        state=state,
        exit_code=None if state in LIVE else blamed[0] if blamed else head.exit_code,
        ended=ended,
        nodes=max(head.nodes, len(parts)),
        parts=tuple(zip(states, codes, strict=True)),
        reason=next((part.reason for part in parts if part.reason), ""),
    )


def named(jobs: Sequence[Job], name: str) -> Job | None:
    """Return a job by its id, else the newest one of that name.

    Of the spec's own jobs, which may run again, the newest is always meant.
    """
    newest = next((j for j in reversed(jobs) if j.name == name), None)
    return (
        newest
        if newest is not None and name in RESERVED
        else next((j for j in jobs if j.id == name), newest)
    )


def state_of_row(state: str, exit_code: int | None) -> str:
    """Return the state of a job whose machine is gone, by what the ledger was told of it last.

    Examples
    --------
    >>> state_of_row("running", None), state_of_row("ended", 3), state_of_row("skipped", None)
    ('lost', 'failed', 'skipped')
    """
    if state in LIVE:
        return "lost"
    return state if state in WORST_FIRST else "failed" if exit_code else "ok"


def no_log(cluster: str, job: str, node: int) -> NotFound:
    """Return the error for a job of a machine that is gone whose log is not kept here."""
    where = f" on node {node}" if node else ""
    return NotFound(
        f"the log of {job}{where} is not kept here, and {cluster} cannot be asked for it now",
        hint=f"%clusters --all says why; %nbprov jobs {cluster} shows how it ended",
        code="job.no-log",
    )


def no_job(cluster: str, name: str, jobs: Iterable[Job]) -> NotFound:
    """Return the error for an unknown job, which lists the known ones."""
    return NotFound(
        f"{cluster} has no job {name!r}",
        hint=f"its jobs: {', '.join(j.id for j in jobs) or 'none'}",
        code="job.not-found",
    )


async def find_job(live: LiveCluster, name: str) -> Job:
    """Find a job by the rules of `named`.

    Raises
    ------
    NotFound
        If there is none; the message lists the known ones.
    """
    jobs = await list_jobs(live)
    found = named(jobs, name)
    if found is None:
        raise no_job(live.name, name, jobs)
    return found


async def job_end(live: LiveCluster, job: Job) -> Job:
    """Wait until every part of a job has ended, and return the job."""
    ended = await asyncio.gather(
        *(_part_end(node, job.id) for node in live.nodes[: job.nodes] if not node.missing)
    )
    parts = [part for task in ended if task is not None and (part := Job.of(task)) is not None]
    return joined(parts) if parts else job


async def _part_end(node: Node, id: str) -> TaskInfo | None:
    try:
        from nbprov.remote.agent.output_stream import END_ONLY

        return await agent_of(node).job_output(id, END_ONLY).wait()
    except AgentError as error:
        if error.code != "agent.no-task" or not node.instance.node:
            raise
        return None  # the machine of this part was replaced


async def cancel_jobs(live: LiveCluster, names: Sequence[str] | None) -> list[Job]:
    """Ask jobs to end on all their nodes, then force them; return those that were asked.

    None means all jobs that wait or run, except `setup`.

    Raises
    ------
    NotFound
        If there is no such job; then none is cancelled.
    JobError
        `job.cancel`, if a node did not answer; the other nodes were asked.
    """
    jobs = await list_jobs(live)
    chosen = []
    for name in (
        names
        if names is not None
        else [job.id for job in jobs if not job.is_over and job.name not in STEPS]
    ):
        job = named(jobs, name)
        if job is None:
            raise no_job(live.name, name, jobs)
        chosen.append(job)
    going = [job for job in dict.fromkeys(chosen) if not job.is_over]

    async def on_node(rank: int, node: Node) -> None:
        # The newest first: a waiting job must not start because a running one is ended.
        for job in reversed(going):
            if rank < max(job.nodes, len(job.parts)):
                await _cancel_part(node, job)

    done = await asyncio.gather(
        *(on_node(rank, node) for rank, node in enumerate(live.nodes)), return_exceptions=True
    )
    failed = {rank: error for rank, error in enumerate(done) if isinstance(error, BaseException)}
    for error in failed.values():
        if not isinstance(error, NbprovError):
            raise error
        names = ", ".join(str(live.nodes[rank].instance.node) for rank in failed)
        raise JobError(
            f"{live.name}: node {names} was not reached: {error.message}",
            hint="parts of jobs of several nodes end there once it hears of the other nodes;"
            " cancel the rest again",
            code="job.cancel",
        ) from error
    return going


async def all_done(asked: Iterable[Any]) -> None:
    """Wait for all, then raise the first error.

    Cancelling the others halfway would leave open whether they were done.
    """
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer


async def cancel_parts(live: LiveCluster, job: Job) -> None:
    """Ask each node to end its part of a job."""
    await all_done(
        _cancel_part(node, job)
        for node in live.nodes[: max(job.nodes, len(job.parts))]
        if not node.missing
    )


async def _cancel_part(node: Node, job: Job) -> None:
    try:
        await agent_of(node).cancel_job(job.id)
    except AgentError as error:
        if error.code != "agent.no-task":
            raise
