"""Jobs on a cluster: setup, run, and their logs."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Instant
from nbprov.model.errors import NotFound
from nbprov.provisioning.live import LiveCluster
from nbprov.remote.agent.values import TaskInfo

from .cells import agent_of


@dataclass(frozen=True, slots=True)
class Job:
    """A job on the head.

    Attributes
    ----------
    state
        `queued`, `running`, or how it ended: `ok`, `failed`, `cancelled`, `skipped`, `lost`.
    """

    id: str
    kind: str
    state: str
    exit_code: int | None
    started: Instant | None
    ended: Instant | None

    @classmethod
    def of(cls, task: TaskInfo) -> Job:
        """Read what the agent says of a task."""
        return cls(task.id, task.name, task.status or task.state, task.exit_code, task.started, task.ended)


async def list_jobs(live: LiveCluster) -> list[Job]:
    """The jobs of the head, oldest first."""
    return [Job.of(task) for task in await agent_of(live.head).jobs()]


async def find_job(live: LiveCluster, name: str) -> Job:
    """The newest job of a kind (`setup` is run again after a failure), else the job with that id.

    Raises
    ------
    NotFound
        If there is none, naming those there are.
    """
    jobs = await list_jobs(live)
    found = next((j for j in reversed(jobs) if j.kind == name), None) or next((j for j in jobs if j.id == name), None)
    if found is None:
        raise NotFound(
            f"{live.name} has no job {name!r}", hint=f"its jobs: {', '.join(j.id for j in jobs) or 'none'}", code="job.not-found"
        )
    return found


async def job_log(live: LiveCluster, name: str, *, last: int | None = None) -> str:
    """The output of a job so far."""
    job = await find_job(live, name)
    agent = agent_of(live.head)
    known = (await agent.task(job.id)).last
    lines: list[str] = []
    if known:
        async for output in agent.job_output(job.id):
            if output.kind in ("stdout", "stderr", "note"):
                lines.append(output.text if output.text.endswith("\n") else output.text + "\n")
            if output.number >= known:
                break
    return "".join(lines if last is None else lines[-last:])


async def wait_job(live: LiveCluster, name: str) -> int:
    """Wait for a job's end; its exit code, -1 where it never ran."""
    job = await find_job(live, name)
    task = await agent_of(live.head).job_output(job.id).wait()
    return -1 if task.exit_code is None else task.exit_code


async def cancel_job(live: LiveCluster, name: str) -> None:
    """Ask a job to end, then make it."""
    job = await find_job(live, name)
    await agent_of(live.head).cancel_job(job.id)
