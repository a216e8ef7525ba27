"""Jobs: what a session has of them, while the machines run and after their end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.api.errors import readable, readably
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError, NotFound
from nbprov.model.failures import CloudError
from nbprov.runtime.waiting import wait_for

from .tunnels import Reaching

if TYPE_CHECKING:
    from nbprov.machines.jobs.jobs import Job
    from nbprov.machines.jobs.logs import Log
    from nbprov.machines.jobs.monitor import JobKeeper
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

T = TypeVar("T")

log = logging.getLogger("nbprov.api")

ALL_SECONDS: Seconds = 10.0
"""How long a list of the jobs of all clusters waits for a machine: one that does not answer is told from what is kept here."""

_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


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
                from nbprov.machines.jobs.monitor import JobKeeper

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
            ledger.clusters.named(name)
            or ledger.clusters.of_run(name)
            or next((r for r in ledger.clusters.latest(limit=10_000) if r.cluster_id == name), None)
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
        from nbprov.machines.jobs.jobs import list_jobs

        store = self.keeper.store
        if row.state not in _UP:
            return store.jobs(row.run_id, is_over=True)
        told = self.attached(row.name, list_jobs)
        return self._with_kept(row, told)

    def _with_kept(self, row: ClusterRow, told: list[Job]) -> list[Job]:
        ids = {job.id for job in told}
        return [
            *(
                job
                for job in self.keeper.store.jobs(row.run_id)
                if job.id not in ids and job.is_over
            ),
            *told,
        ]

    def all_jobs(self) -> list[tuple[str, list[Job], str]]:
        """Of each live cluster its name, its jobs, and why they are those kept here where its machine did not answer."""
        from nbprov.machines.jobs.jobs import list_jobs

        rows = self.engine.ledger.clusters.latest(live_only=True)

        async def one(row: ClusterRow) -> tuple[str, list[Job], str]:
            kept = self.keeper.store.jobs(row.run_id, is_over=row.state not in _UP)
            if row.state not in _UP:
                return row.name, kept, f"{row.name} is {row.state.value}"
            try:
                async with asyncio.timeout(ALL_SECONDS):
                    return (
                        row.name,
                        self._with_kept(row, await list_jobs(await self.engine.attach(row.name))),
                        "",
                    )
            except Exception as error:
                told = readable(error)
                words = (
                    told.message
                    if isinstance(told, NbprovError)
                    else f"no answer within {ALL_SECONDS:g} s"
                )
                return row.name, kept, f"{row.name}: {words}"

        async def everywhere() -> list[tuple[str, list[Job], str]]:
            return list(await asyncio.gather(*map(one, rows)))

        return wait_for(self.engine.thread.call(everywhere()))

    def log_of(
        self,
        row: ClusterRow,
        job: str,
        *,
        lines: int | None = None,
        node: int = 0,
        size: int | None = None,
    ) -> Log:
        """The log of a job, or the end of it, from the machine or from what is kept here.

        Raises
        ------
        NotFound
            If there is no such job, or nothing of it is kept.
        """
        from nbprov.machines.jobs.jobs import list_jobs, named, no_job
        from nbprov.machines.jobs.logs import LOG_BYTES, Log, read_log, tail_of

        store, size = self.keeper.store, size or LOG_BYTES

        async def read(live: LiveCluster) -> Log | None:
            found = named(await list_jobs(live), job)
            return (
                None
                if found is None
                else await read_log(live, found, node=node, lines=lines, size=size)
            )

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

    async def followed(
        self, live: LiveCluster, job: str, *, node: int, lines: int
    ) -> AsyncIterator[str]:
        """The end of a job's log and what comes, piece by piece, to its end; on the engine's thread."""
        from nbprov.machines.jobs.jobs import find_job
        from nbprov.machines.jobs.logs import follow_log
        from nbprov.machines.masking import masked

        async for text in masked(
            follow_log(live, await find_job(live, job), node=node, lines=lines), self.hidden
        ):
            yield text

    def start_attached(
        self, name: str, work: Callable[[LiveCluster], Coroutine[Any, Any, T]]
    ) -> concurrent.futures.Future[T]:
        """Begin something with a live cluster; unlike cells, it does not wait for the end of its setup."""

        async def act() -> T:
            return await work(await self.engine.attach(name))

        return self.engine.thread.call(readably(act()))

    def attached(
        self,
        name: str,
        work: Callable[[LiveCluster], Coroutine[Any, Any, T]],
        timeout: Seconds | None = None,
    ) -> T:
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
        from nbprov.machines.jobs.jobs import job_end, named

        try:
            ended = await job_end(await self.engine.attach(row.name), job)
        except (NbprovError, CloudError):
            current = self.engine.ledger.clusters.of_run(row.run_id)
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
