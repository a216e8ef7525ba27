"""Jobs: what a cluster's handle has of them, and the handle of one job."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from nbprov.api.errors import readably
from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted
from nbprov.runtime.waiting import Waitable, wait_for

if TYPE_CHECKING:
    from nbprov.api.cluster import Cluster
    from nbprov.machines.jobs.jobs import Job
    from nbprov.provisioning.ledger.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import Environment

WORKDIR = "sky_workdir"
"""The folder of a job where its cluster's spec has a `workdir`: that of the spec's own `run`."""


class JobHandle(Waitable["Job"]):
    """A job that was submitted: `wait()` or `await` it for its end. The job goes on whether anybody waits or not.

    Attributes
    ----------
    id
        Its id, by which any notebook finds it: `train-1`.
    cluster
        Name of its cluster.
    first
        It as it was when it had been submitted, with its place in the queue.

    Examples
    --------
    >>> job = nbprov.cluster("dev").submit("python train.py", gpus=1, name="train")  # doctest: +SKIP
    >>> job.wait().exit_code  # doctest: +SKIP
    0
    """

    def __init__(self, handle: Cluster, job: Job, future: concurrent.futures.Future[Job]) -> None:
        super().__init__(future)
        self.id, self.cluster = job.id, handle.name
        self.first = job
        self._handle = handle

    def wait(self, timeout: Seconds | None = None) -> Job:
        """Block until it has ended, on all its nodes; how it ended, with its exit code. Raises nothing where it failed.

        Raises
        ------
        Interrupted
            On Ctrl-C; the job goes on.
        TimeoutError
            After `timeout` seconds; the job goes on.
        """
        try:
            return super().wait(timeout)
        except KeyboardInterrupt:
            raise Interrupted(
                f"{self.id} goes on on {self.cluster}; %nbprov jobs {self.cluster} shows it"
            ) from None

    def view(self) -> Job:
        """It as it is now."""
        return self._handle.job(self.id)

    def logs(self, *, last: int | None = None, node: int = 0) -> str:
        """Its output so far, or the last lines of it."""
        return self._handle.logs(self.id, last=last, node=node)

    def cancel(self) -> None:
        """Ask it to end, then make it."""
        self._handle.cancel_job(self.id)

    def __repr__(self) -> str:
        if not self.done:
            return f"<JobHandle {self.id} on {self.cluster}: under way>"
        state = (
            "not seen to end"
            if self._future.cancelled() or self._future.exception() is not None
            else self._future.result().state
        )
        return f"<JobHandle {self.id} on {self.cluster}: {state}>"


class Working:
    """What a cluster's handle has of jobs."""

    def submit(  # type: ignore[misc]
        self: Cluster,
        script: str,
        *,
        gpus: float | None = None,
        name: str = "job",
        nodes: int | Literal["all"] = 1,
        env: Environment | None = None,
        after: Sequence[str] | str = (),
        cwd: str | None = None,
    ) -> JobHandle:
        """Queue a shell script as a job of the machine, independent of this notebook; returns at once with its id.

        Jobs begin in the order of submission, each once the GPUs it asks for are free.

        Parameters
        ----------
        gpus
            On each node. By default all of them, so that jobs run one after the other (on a machine without GPUs, too); 0 for none and no
            waiting; below 1 a share of one.
        name
            What it is called: `train` becomes `train-1`, `train-2`, ….
        nodes
            How many nodes have a part of it, the head first; `"all"` of them. Ranks and addresses are in its environment, as in `run:`.
        env
            Its variables; values may be `nbprov.model.spec.Secret`.
        after
            Jobs (id or name) that must succeed first; else it is skipped.
        cwd
            Its folder there, absolute or below the home; by default that of the spec's `workdir`, else the home.

        Raises
        ------
        JobError
            If it could never run: `job.too-many-gpus`, `job.nodes`, `job.name`, ….
        NotFound
            If it comes after a job that there is not.
        """
        from nbprov.machines.jobs.submit import JobRequest, submit_job

        row, session = self._row(), self._session
        env = dict(env or {})
        if cwd is None and session.spec_of(row.run_id).workdir:
            cwd = WORKDIR
        names = (after,) if isinstance(after, str) else tuple(after)
        wanted = JobRequest(script, name, gpus, None if nodes == "all" else nodes, env, cwd, names)
        wanted.check()
        session.add_job_secrets(env)
        known = [job["job_id"] for job in session.engine.ledger.jobs.of_run(row.run_id)]

        async def queued(live: LiveCluster) -> Job:
            job = await submit_job(live, wanted, known)
            session.engine.ledger.jobs.set(live.run_id, job.id, job.name, "", job.state)
            session.keeper.soon()
            return job

        job = self._call(queued)
        return JobHandle(self, job, session.engine.thread.call(readably(session.end_of(row, job))))

    def jobs(self: Cluster) -> list[Job]:  # type: ignore[misc]
        """Its jobs, oldest first: setup, run and those submitted; from what is kept here once its machines have stopped or ended."""
        return self._session.jobs_of(self._job_row())

    def logs(self: Cluster, job: str = "run", *, last: int | None = None, node: int = 0) -> str:  # type: ignore[misc]
        """Output of a job so far, secrets that this session knows blotted out, without any escape sequences but colours.

        Parameters
        ----------
        job
            Its id, or a name, which means the newest of that name.
        last
            Only so many lines of it.
        node
            Which node's part.
        """
        return self._session.log_of(self._job_row(), job, lines=last, node=node).text

    def wait_job(self: Cluster, job: str = "run", timeout: Seconds | None = None) -> int:  # type: ignore[misc]
        """Block until a job ends; returns its exit code, -1 where it never ran. An interrupt ends the wait, not the job."""
        row = self._job_row()
        found = self.job(job)
        if not found.is_over:
            future = self._session.engine.thread.call(readably(self._session.end_of(row, found)))
            try:
                found = wait_for(future, timeout)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"{found.id} goes on on {self.name}; %nbprov jobs {self.name} shows it"
                ) from None
            finally:
                future.cancel()
        return -1 if found.exit_code is None else found.exit_code

    def cancel_job(self: Cluster, job: str = "run") -> None:  # type: ignore[misc]
        """Ask a job to end, waiting or running, on all its nodes: SIGTERM to its processes, SIGKILL after 5 s."""
        self.cancel_jobs([job])

    def cancel_jobs(self: Cluster, jobs: Sequence[str] | None = None) -> list[str]:  # type: ignore[misc]
        """Ask jobs to end; by default all that wait or run. Ids of those that had not ended."""
        from nbprov.machines.jobs.jobs import cancel_jobs

        self._row()
        asked = self._session.attached(self.name, lambda live: cancel_jobs(live, jobs))
        self._session.engine.thread.soon(self._session.keeper.soon)
        return [job.id for job in asked]

    def job(self: Cluster, name: str) -> Job:  # type: ignore[misc]
        """One of its jobs, by its id or by a name, which means the newest of that name.

        Raises
        ------
        NotFound
            If there is none, naming those there are.
        """
        from nbprov.machines.jobs.jobs import named, no_job

        jobs = self.jobs()
        found = named(jobs, name)
        if found is None:
            raise no_job(self.name, name, jobs)
        return found

    def _job_row(self: Cluster) -> ClusterRow:  # type: ignore[misc]
        """The ledger's row of this very cluster, ended or not."""
        row = self._session.engine.ledger.clusters.named(self.name)
        return (
            row
            if row is not None and row.cluster_id == self.cluster_id
            else self._session.row_of(self.cluster_id)
        )
