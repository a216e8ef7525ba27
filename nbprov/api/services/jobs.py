"""Jobs of clusters, while their machines run and after their end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from nbprov.api.context import Context
from nbprov.api.errors import readable_error, with_readable_errors
from nbprov.api.name_list import name_list
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError, NotFound
from nbprov.model.failures import CloudError
from nbprov.model.sources import WORKDIR

from .job_archive import JobArchiveService
from .job_handle import JobHandle
from .remote import RemoteService

if TYPE_CHECKING:
    from nbprov.machines.jobs.jobs import Job
    from nbprov.machines.jobs.logs import Log
    from nbprov.machines.jobs.submit import JobRequest
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")

ALL_SECONDS: Seconds = 10.0
"""How long a list of the jobs of all clusters waits for one machine. The list shows the jobs kept
here where a machine does not answer in time."""

_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class JobService:
    """Submits, lists, follows and cancels jobs."""

    def __init__(self, context: Context, archive: JobArchiveService, remote: RemoteService) -> None:
        self._context, self._archive, self._remote = context, archive, remote

    @property
    def _engine(self) -> Engine:
        return self._context.engine

    # ------------------------------------------------------------ clusters

    def row_of(self, name: str) -> ClusterRow:
        """The cluster that a name or an id means, ended or not: the live one, else the last.

        Raises
        ------
        NotFound
            If there never was one.
        """
        ledger = self._engine.ledger
        row = (
            ledger.clusters.named(name)
            or ledger.clusters.of_run(name)
            or next((r for r in ledger.clusters.latest(limit=10_000) if r.cluster_id == name), None)
        )
        if row is None:
            self._engine.cluster(name)  # its error says what there is, and what is under way
            raise NotFound(f"there was never a cluster called {name!r}", code="cluster.not-found")
        return row

    def current(self, row: ClusterRow) -> ClusterRow:
        """The row of a cluster as it is now."""
        return self._engine.ledger.clusters.by_id(row.cluster_id) or row

    @staticmethod
    def is_up(row: ClusterRow) -> bool:
        """Whether its machines can be asked for jobs, as far as is known."""
        return row.state in _UP

    # ------------------------------------------------------------ verbs of a cluster

    def submit(
        self,
        row: ClusterRow,
        /,
        script: str,
        *,
        gpus: float | None = None,
        name: str = "job",
        nodes: int | Literal["all"] = 1,
        env: Environment | None = None,
        after: Sequence[str] | str = (),
        cwd: str | None = None,
    ) -> Steps[JobHandle]:
        """Queue `script`, a shell script, as a job of the machine. Returns at once.

        Jobs begin in the order of submission, each once the GPUs it asks for are free.

        Parameters
        ----------
        gpus
            How many it needs on each node. By default all, so that jobs run one after the other
            (also without GPUs); 0 for none and no waiting; below 1 a share of one.
        name
            What it is called: `train` becomes `train-1`, `train-2`, ….
        nodes
            How many nodes run it, the head first. Ranks and addresses are in its environment.
        env
            Its variables; values may be a `Secret`.
        after
            Jobs (id or name) that must succeed first; otherwise it is skipped.
        cwd
            Its folder there; by default the spec's `workdir`, else the home.

        Raises
        ------
        JobError
            If it could never run: `job.too-many-gpus`, `job.nodes`, `job.name`, ….
        NotFound
            If a job that it comes after does not exist.
        """
        from nbprov.machines.jobs.submit import JobRequest

        env = dict(env or {})
        if cwd is None and self._context.spec_of(row.run_id).workdir:
            cwd = WORKDIR
        names = name_list(after, "after")
        wanted = JobRequest(script, name, gpus, None if nodes == "all" else nodes, env, cwd, names)
        wanted.check()
        self._context.add_secrets(env)
        known = [job["job_id"] for job in self._engine.ledger.jobs.of_run(row.run_id)]

        job, remark = yield from self._remote.call(
            row.name, lambda live: self._queued(live, wanted, known)
        )
        ended = self._engine.thread.call(with_readable_errors(self._end_of(row, job)))
        return JobHandle(self, row, job, ended, remark)

    async def _queued(
        self, live: LiveCluster, wanted: JobRequest, known: list[str]
    ) -> tuple[Job, str]:
        """Queue a job and write that down; the job, and what to know beside it."""
        from nbprov.machines.jobs.submit import submit_job

        job, ledger = await submit_job(live, wanted, known), self._engine.ledger
        # It is queued whatever the ledger can take: an error would have it submitted twice.
        trouble = ledger.trouble_with(
            partial(ledger.jobs.set, live.run_id, job.id, job.name, "", job.state)
        )
        self._archive.keeper.submitted(live.run_id, job.id)
        words = f"{job.id} is queued on {live.name} and not written down yet: {trouble}"
        return job, trouble and f"{words}; it is once that can be written"

    def jobs(self, row: ClusterRow, /) -> Steps[list[Job]]:
        """Its jobs, oldest first: setup, run and those submitted.

        Once its machines have stopped or ended, the jobs that are kept on this computer.
        """
        from nbprov.machines.jobs.jobs import list_jobs

        if row.state not in _UP:
            return self._known_here(row)
        told = yield from self._remote.call_attached(row.name, list_jobs)
        return self._with_kept(row, told)

    def _known_here(self, row: ClusterRow) -> list[Job]:
        """Return the jobs of machines that are gone: those that are kept, and what was lost.

        Of a machine that was taken away without a word nothing is kept of jobs that were queued.
        """
        from nbprov.machines.jobs.archive import with_told

        kept = self._archive.store.jobs(row.run_id, is_over=True)
        return with_told(kept, self._engine.ledger.jobs.of_run(row.run_id))

    def _with_kept(self, row: ClusterRow, told: list[Job]) -> list[Job]:
        ids = {job.id for job in told}
        kept = self._archive.store.jobs(row.run_id)
        return [*(job for job in kept if job.id not in ids and job.is_over), *told]

    def job(self, row: ClusterRow, /, name: str) -> Steps[Job]:
        """One of its jobs, by its id or by a name, which means the newest of that name.

        Parameters
        ----------
        name
            The id or the name.

        Raises
        ------
        NotFound
            If there is none, naming those there are.
        """
        from nbprov.machines.jobs.jobs import named, no_job

        jobs = yield from self.jobs(row)
        found = named(jobs, name)
        if found is None:
            raise no_job(row.name, name, jobs)
        return found

    def logs(
        self, row: ClusterRow, /, job: str = "run", *, last: int | None = None, node: int = 0
    ) -> Steps[str]:
        """Output of a job so far, with the secrets that this session knows masked.

        Colours are the only escape sequences in it.

        Parameters
        ----------
        job
            Its id, or a name, which means the newest of that name.
        last
            Only so many lines of its end.
        node
            Which node's part.
        """
        return (yield from self.log_of(row, job, lines=last, node=node)).text

    def wait_job(
        self, row: ClusterRow, /, job: str = "run", timeout: Seconds | None = None
    ) -> Steps[int]:
        """Block until a job ends; returns its exit code, -1 where it never ran.

        An interrupt ends the wait, not the job.

        Parameters
        ----------
        job
            Its id, or a name, which means the newest of that name.
        timeout
            Seconds after which it is waited for no more.
        """
        found = yield from self.job(row, job)
        if not found.is_over:
            future = self._engine.thread.call(with_readable_errors(self._end_of(row, found)))
            try:
                found = yield from result(future, timeout)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"{found.id} goes on on {row.name}; %nbprov jobs {row.name} shows it"
                ) from None
            finally:
                future.cancel()
        return -1 if found.exit_code is None else found.exit_code

    def cancel_job(self, row: ClusterRow, /, job: str = "run") -> Steps[None]:
        """Ask a job to end, waiting or running, on all its nodes.

        Its processes get SIGTERM, and SIGKILL after 5 s.

        Parameters
        ----------
        job
            Its id, or a name, which means the newest of that name.
        """
        yield from self.cancel_jobs(row, [job])

    def cancel_jobs(
        self, row: ClusterRow, /, jobs: Sequence[str] | str | None = None
    ) -> Steps[list[str]]:
        """Ask jobs to end, by default all that wait or run.

        Parameters
        ----------
        jobs
            Their ids or names.

        Returns
        -------
        list of str
            Ids of those that had not ended.
        """
        from nbprov.machines.jobs.jobs import cancel_jobs

        wanted = None if jobs is None else name_list(jobs, "jobs")
        asked = yield from self._remote.call_attached(
            row.name, lambda live: cancel_jobs(live, wanted)
        )
        self._engine.thread.soon(self._archive.keeper.soon)
        return [job.id for job in asked]

    # ------------------------------------------------------------ for displays

    def all_jobs(self) -> Steps[list[tuple[str, list[Job], str]]]:
        """Of each live cluster its name, its jobs, and why only the kept jobs are known."""
        rows = self._engine.ledger.clusters.latest(live_only=True)

        async def everywhere() -> list[tuple[str, list[Job], str]]:
            return list(await asyncio.gather(*map(self._jobs_in_time, rows)))

        return (yield from result(self._engine.thread.call(everywhere())))

    async def _jobs_in_time(self, row: ClusterRow) -> tuple[str, list[Job], str]:
        from nbprov.machines.jobs.jobs import list_jobs

        if row.state not in _UP:
            return row.name, self._known_here(row), f"{row.name} is {row.state.value}"
        kept = self._archive.store.jobs(row.run_id)
        try:
            async with asyncio.timeout(ALL_SECONDS):
                told = await list_jobs(await self._engine.attach(row.name))
        except Exception as error:
            why = readable_error(error)
            words = (
                why.message
                if isinstance(why, NbprovError)
                else f"no answer within {ALL_SECONDS:g} s"
            )
            return row.name, kept, f"{row.name}: {words}"
        return row.name, self._with_kept(row, told), ""

    def log_of(
        self,
        row: ClusterRow,
        job: str,
        *,
        lines: int | None = None,
        node: int = 0,
        size: int | None = None,
    ) -> Steps[Log]:
        """The log of a job, or the end of it, from the machine or from what is kept here.

        Raises
        ------
        NotFound
            If there is no such job, or nothing of it is kept.
        """
        from nbprov.machines.jobs.jobs import list_jobs, named, no_job, no_log
        from nbprov.machines.jobs.logs import LOG_BYTES, Log, read_log, tail_of

        store, size = self._archive.store, size or LOG_BYTES

        async def read(live: LiveCluster) -> Log | None:
            found = named(await list_jobs(live), job)
            if found is None:
                return None
            return await read_log(live, found, node=node, lines=lines, size=size)

        told = None
        if row.state in _UP:
            told = yield from self._remote.call_attached(row.name, read)
        if told is None:
            kept = store.jobs(row.run_id)
            found = named(kept, job)
            text = store.log(row.run_id, found.id, node) if found is not None else None
            if text is None:
                jobs = yield from self.jobs(row)
                known = found or named(jobs, job)
                if known is None:
                    raise no_job(row.name, job, jobs)
                raise no_log(row.name, known.id, node)
            told = tail_of(text, lines, size)
        return Log(self._context.mask(told.text), told.earlier, told.is_counted)

    async def followed(
        self, live: LiveCluster, job: str, *, node: int, lines: int
    ) -> AsyncIterator[str]:
        """The end of a job's log and what comes after it, piece by piece; on the engine thread."""
        from nbprov.machines.jobs.jobs import find_job
        from nbprov.machines.jobs.logs import follow_log
        from nbprov.machines.output_masking import masked

        pieces = follow_log(live, await find_job(live, job), node=node, lines=lines)
        async for text in masked(pieces, self._context.secrets):
            yield text

    async def _end_of(self, row: ClusterRow, job: Job) -> Job:
        """Wait for the end of a job; its state is `lost` where its machine ended first."""
        from nbprov.machines.jobs.jobs import job_end, named

        try:
            ended = await job_end(await self._engine.attach(row.name), job)
        except (NbprovError, CloudError):
            current = self._engine.ledger.clusters.of_run(row.run_id)
            if current is None or current.state in _UP:
                raise
            # Its machine was stopped or ended; what became of it is kept here.
            kept = named(self._archive.store.jobs(row.run_id, is_over=True), job.id)
            return kept or replace(job, state="lost", position=None)
        self._archive.keeper.soon()
        return ended
