"""Jobs: what a cluster's handle and a session have of them, while the machines run and after their end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from nbprov.model.causes import CloudError
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError, NotFound
from nbprov.runtime.waiting import Waitable, wait_for

from .errors import readable, readably
from .reaching import Reaching

if TYPE_CHECKING:
    from nbprov.machines.job_keeper import JobKeeper
    from nbprov.machines.job_logs import Log
    from nbprov.machines.jobs import Job
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger.ledger import ClusterRow
    from nbprov.provisioning.live import LiveCluster
    from nbprov.remote.agent.values import Environment

    from .cluster import Cluster

T = TypeVar("T")

log = logging.getLogger("nbprov.api")

ALL_SECONDS: Seconds = 10.0
"""How long a list of the jobs of all clusters waits for a machine: one that does not answer is told from what is kept here."""

WORKDIR = "sky_workdir"
"""The folder of a job where its cluster's spec has a `workdir`: that of the spec's own `run`."""

_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


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
            raise Interrupted(f"{self.id} goes on on {self.cluster}; %nbprov jobs {self.cluster} shows it") from None

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
        state = "not seen to end" if self._future.cancelled() or self._future.exception() is not None else self._future.result().state
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
        from nbprov.machines.jobs import JobRequest, submit_job

        row, session = self._row(), self._session
        env = dict(env or {})
        if cwd is None and session.spec_of(row.run_id).workdir:
            cwd = WORKDIR
        names = (after,) if isinstance(after, str) else tuple(after)
        wanted = JobRequest(script, name, gpus, None if nodes == "all" else nodes, env, cwd, names)
        wanted.check()
        session.add_job_secrets(env)
        known = [job["job_id"] for job in session.engine.ledger.jobs(row.run_id)]

        async def queued(live: LiveCluster) -> Job:
            job = await submit_job(live, wanted, known)
            session.engine.ledger.set_job(live.run_id, job.id, job.name, "", job.state)
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
                raise Interrupted(f"{found.id} goes on on {self.name}; %nbprov jobs {self.name} shows it") from None
            finally:
                future.cancel()
        return -1 if found.exit_code is None else found.exit_code

    def cancel_job(self: Cluster, job: str = "run") -> None:  # type: ignore[misc]
        """Ask a job to end, waiting or running, on all its nodes: SIGTERM to its processes, SIGKILL after 5 s."""
        self.cancel_jobs([job])

    def cancel_jobs(self: Cluster, jobs: Sequence[str] | None = None) -> list[str]:  # type: ignore[misc]
        """Ask jobs to end; by default all that wait or run. Ids of those that had not ended."""
        from nbprov.machines.jobs import cancel_jobs

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
        from nbprov.machines.jobs import named, no_job

        jobs = self.jobs()
        found = named(jobs, name)
        if found is None:
            raise no_job(self.name, name, jobs)
        return found

    def _job_row(self: Cluster) -> ClusterRow:  # type: ignore[misc]
        """The ledger's row of this very cluster, ended or not."""
        row = self._session.engine.ledger.cluster(self.name)
        return row if row is not None and row.cluster_id == self.cluster_id else self._session.row_of(self.cluster_id)


class JobDesk(Reaching):
    """What a session has of jobs."""

    def __init__(self, home: Path | None, *, demo: bool) -> None:
        self._desk = threading.Lock()
        self._keeper: tuple[Engine, JobKeeper] | None = None
        self._hidden: set[str] = set()
        super().__init__(home, demo=demo)

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        engine = super().engine
        self._keeper_of(engine)
        return engine

    def _keeper_of(self, engine: Engine) -> JobKeeper:
        with self._desk:
            if self._keeper is None or self._keeper[0] is not engine:
                from nbprov.machines.job_keeper import JobKeeper

                self._keeper = (engine, JobKeeper(engine, self.hide_secrets))
                engine.thread.soon(self._keeper[1].begin)
            return self._keeper[1]

    @property
    def keeper(self) -> JobKeeper:
        """What keeps the logs of jobs, for what runs on the engine's thread."""
        return self._keeper_of(self.engine)

    def hidden(self) -> tuple[str, ...]:
        """The secrets that jobs were given, for blotting them out."""
        return tuple(self._hidden)

    def hide_secrets(self, text: str) -> str:
        """The text with the secrets that this session was given blotted out."""
        from nbprov.machines.masking import Masker

        return Masker(self.hidden())(text)

    def add_job_secrets(self, env: Mapping[str, Any]) -> None:
        """Blot out the secrets of a job's variables from now on."""
        from nbprov.machines.masking import masker

        self._hidden = self._hidden | {*masker(env).values}

    # ------------------------------------------------------------ looking

    def row_of(self, name: str) -> ClusterRow:
        """The cluster that a name or the id of a run means, ended or not: the live one of that name, else the last.

        Raises
        ------
        NotFound
            If there never was one.
        """
        ledger = self.engine.ledger
        row = (
            ledger.cluster(name)
            or ledger.cluster_of_run(name)
            or next((r for r in ledger.clusters(limit=10_000) if r.cluster_id == name), None)
        )
        if row is None:
            self.engine.cluster(name)  # says what there is, and what is under way
            raise NotFound(f"there was never a cluster called {name!r}", code="cluster.not-found")
        return row

    @staticmethod
    def is_up(row: ClusterRow) -> bool:
        """Whether its machines can be asked for jobs, as far as is known."""
        return row.state in _UP

    def jobs(self, name: str) -> list[Job]:
        """The jobs of a cluster, by its name or the id of its run, oldest first; of one that has ended, those that are kept here."""
        return self.jobs_of(self.row_of(name))

    def logs(self, name: str, job: str = "run", *, last: int | None = None, node: int = 0) -> str:
        """The output of a job of a cluster, by its name or the id of its run, ended or not. See `Cluster.logs`."""
        return self.log_of(self.row_of(name), job, lines=last, node=node).text

    def jobs_of(self, row: ClusterRow) -> list[Job]:
        """The jobs of a cluster: of its machines where they run, and what is kept of those that they forgot."""
        from nbprov.machines.jobs import list_jobs

        store = self.keeper.store
        if row.state not in _UP:
            return store.jobs(row.run_id, is_over=True)
        told = self.attached(row.name, list_jobs)
        return self._with_kept(row, told)

    def _with_kept(self, row: ClusterRow, told: list[Job]) -> list[Job]:
        ids = {job.id for job in told}
        return [*(job for job in self.keeper.store.jobs(row.run_id) if job.id not in ids and job.is_over), *told]

    def all_jobs(self) -> list[tuple[str, list[Job], str]]:
        """Of each live cluster its name, its jobs, and why they are those kept here where its machine did not answer."""
        from nbprov.machines.jobs import list_jobs

        rows = self.engine.ledger.clusters(live_only=True)

        async def one(row: ClusterRow) -> tuple[str, list[Job], str]:
            kept = self.keeper.store.jobs(row.run_id, is_over=row.state not in _UP)
            if row.state not in _UP:
                return row.name, kept, f"{row.name} is {row.state.value}"
            try:
                async with asyncio.timeout(ALL_SECONDS):
                    return row.name, self._with_kept(row, await list_jobs(await self.engine.attach(row.name))), ""
            except Exception as error:
                told = readable(error)
                words = told.message if isinstance(told, NbprovError) else f"no answer within {ALL_SECONDS:g} s"
                return row.name, kept, f"{row.name}: {words}"

        async def everywhere() -> list[tuple[str, list[Job], str]]:
            return list(await asyncio.gather(*map(one, rows)))

        return wait_for(self.engine.thread.call(everywhere()))

    def log_of(self, row: ClusterRow, job: str, *, lines: int | None = None, node: int = 0, size: int | None = None) -> Log:
        """The log of a job, or the end of it, from the machine or from what is kept here.

        Raises
        ------
        NotFound
            If there is no such job, or nothing of it is kept.
        """
        from nbprov.machines.job_logs import LOG_BYTES, Log, read_log, tail_of
        from nbprov.machines.jobs import list_jobs, named, no_job

        store, size = self.keeper.store, size or LOG_BYTES

        async def read(live: LiveCluster) -> Log | None:
            found = named(await list_jobs(live), job)
            return None if found is None else await read_log(live, found, node=node, lines=lines, size=size)

        told = self.attached(row.name, read) if row.state in _UP else None
        if told is None:
            kept = store.jobs(row.run_id)
            found = named(kept, job)
            text = store.log(row.run_id, found.id, node) if found is not None else None
            if text is None:
                jobs = self.jobs_of(row) if found is None else kept
                raise no_job(row.name, job if found is None else f"{found.id} on node {node}", jobs)
            told = tail_of(text, lines, size)
        return Log(self.hide_secrets(told.text), told.earlier, told.is_counted)

    async def followed(self, live: LiveCluster, job: str, *, node: int, lines: int) -> AsyncIterator[str]:
        """The end of a job's log and what comes, piece by piece, to its end; on the engine's thread."""
        from nbprov.machines.job_logs import follow_log
        from nbprov.machines.jobs import find_job
        from nbprov.machines.masking import masked

        async for text in masked(follow_log(live, await find_job(live, job), node=node, lines=lines), self.hidden):
            yield text

    def start_attached(self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Begin something with a live cluster; unlike cells, it does not wait for the end of its setup."""

        async def act() -> T:
            return await work(await self.engine.attach(name))

        return self.engine.thread.call(readably(act()))

    def attached(self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]], timeout: Seconds | None = None) -> T:
        """As `start_attached`, and block for the result.

        Raises
        ------
        CloudTrouble
            If the machine cannot be reached.
        """

        future = self.start_attached(name, work)
        try:
            return wait_for(future, timeout)
        except KeyboardInterrupt:
            future.cancel()
            raise Interrupted(f"interrupted on {name}; its jobs go on") from None

    # ------------------------------------------------------------ to the end

    async def end_of(self, row: ClusterRow, job: Job) -> Job:
        """Wait for the end of a job; `lost` where its machine ended first."""
        from nbprov.machines.jobs import job_end, named

        try:
            ended = await job_end(await self.engine.attach(row.name), job)
        except (NbprovError, CloudError):
            current = self.engine.ledger.cluster_of_run(row.run_id)
            if current is None or current.state in _UP:
                raise
            # Its machine was stopped or ended; what became of it is kept.
            kept = named(self.keeper.store.jobs(row.run_id, is_over=True), job.id)
            return kept or replace(job, state="lost", position=None)
        self.keeper.soon()
        return ended

    async def with_logs_kept(self, row: ClusterRow, work: Coroutine[Any, Any, None]) -> None:
        """What stops or ends a cluster, after the logs of its jobs were kept; that takes `LAST_SECONDS` at most.

        Who asked for it wrote that down: should this kernel die here, the next one goes on.
        """
        lifecycle = self.engine.lifecycle
        try:
            async with lifecycle.leased(row):
                try:
                    await self.keeper.before_the_end(row)
                except Exception:
                    log.exception("logs of jobs before the end of %s", row.name)
                await work
        finally:
            work.close()
            lifecycle.asked.discard(row.cluster_id)
