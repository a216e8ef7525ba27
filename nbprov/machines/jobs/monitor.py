"""Watch the jobs of connected clusters: archive the logs of ended ones, and end broken gangs.

A gang is broken when one node's part of a job failed while the others still run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import LedgerError
from nbprov.model.events import EventKind
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.live_cluster import LiveCluster, agent_of
from nbprov.runtime.fault_log import log_fault
from nbprov.runtime.worker_pool import WorkerPool

from .archive import JobArchive
from .jobs import LIVE, Job, cancel_parts, list_jobs
from .logs import LOG_BYTES, read_log

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

T = TypeVar("T")

log = logging.getLogger("nbprov.machines")

LOOK_EVERY: Seconds = 5.0
"""Interval of the checks of connected clusters; each is one question over an open connection."""
LOOK_SECONDS: Seconds = 120.0
"""How long one check of a cluster may take: 32 MB of a log over a slow line."""
LAST_SECONDS: Seconds = 20.0
"""How long a stop or an end waits for logs in total.

The machine costs money meanwhile, and logs usually arrive within a second or two.
"""
ATTACH_SECONDS: Seconds = 8.0
"""The part of that for opening a connection; a silent machine has to be ended all the same."""
LOST_EVERY: Seconds = 60.0
"""Interval while the connection is down and nobody else uses it.

Each check tries to reach the machine, and is made only for jobs that were not seen to end.
"""
MOST_JOBS = 20_000
"""Jobs of one run that the ledger records."""
TOLD_AT_ONCE = 250
"""Jobs recorded in one check; writing them blocks the engine for about a second."""
MOST_KEPT = 100_000
"""Jobs whose logs one kernel archives."""
LOGS_AT_ONCE = 4
"""Logs of one job in memory at a time; each may have 32 MB, and a gang may have 64 of them."""
TRIES = 3
"""Attempts to read a node's log before a job is archived without it."""
KEEP_EVERY: Seconds = 30.0
"""Between two times that the end of a running job's log is archived."""
PARTLY_LINES = 2000
PARTLY_BYTES = 256 * 1024
"""So much of it: enough to see how far it came, and little beside what it costs to read it all."""
PRUNE_EVERY: Seconds = 600.0
PRUNE_BYTES = 256 * 1024**2
"""Old logs are looked for after this time, or once so much was kept: each of them is looked at."""
MOST_NAMED = 3
"""Jobs that a line names."""
NO_TIME = "there was no time for it"
GANG_GRACE: Seconds = 20.0
"""How long the other nodes of a job may run after one failed.

Their agents end them in half the time if they hear of each other, so this serves the others.
"""

Hide = Callable[[str], str]


class JobMonitor:
    """The monitor of one engine; everything runs on the engine's thread.

    Parameters
    ----------
    hide
        Masks secrets in a text.
    """

    def __init__(self, engine: Engine, hide: Hide) -> None:
        self.engine, self.store = engine, JobArchive(engine.home)
        self._hide = hide
        # Apart, since a home with many old logs takes seconds or more to be looked through.
        self._files, self._pruning = WorkerPool("jobs", 1), WorkerPool("prune", 1)
        self._pruned, self._kept_bytes = -PRUNE_EVERY, 0
        self._seen: dict[str, set[str]] = {}
        self._unkept: dict[str, dict[str, str]] = {}
        self._kept: set[tuple[str, str, float]] = set()
        self._broken: dict[tuple[str, str], float] = {}
        self._told: dict[tuple[str, str], tuple[str, int | None]] = {}
        self._looking: dict[str, asyncio.Lock] = {}
        self._tries: dict[tuple[str, str], int] = {}
        self._looked: dict[str, float] = {}
        self._partly: dict[tuple[str, str], float] = {}
        self._heard: dict[str, LiveCluster] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to watch jobs."""
        self._task = asyncio.create_task(self._run())

    def soon(self) -> None:
        """Check now, since a job has ended."""
        self._wake.set()

    def submitted(self, run_id: str, job_id: str) -> None:
        """Check now, since a job was submitted. The ledger may not have its row yet."""
        self._seen.setdefault(run_id, set()).add(job_id)
        self.soon()

    async def _run(self) -> None:
        while True:
            self._prune()
            await asyncio.gather(*(self._try(live) for live in list(self.engine.live.values())))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._wake.wait()
            self._wake.clear()

    def _prune(self) -> None:
        now = self.engine.clock.elapsed()
        if now - self._pruned >= PRUNE_EVERY or self._kept_bytes >= PRUNE_BYTES:
            self._pruned, self._kept_bytes = now, 0
            self._pruning.submit(self.store.prune)

    async def _try(self, live: LiveCluster) -> None:
        try:
            if self._is_due(live):
                await self.look(live)
        except Exception as error:
            # Others report a machine that does not answer; its jobs are checked again.
            log.debug("jobs of %s: %r", live.name, error)

    def _is_due(self, live: LiveCluster) -> bool:
        agents = [agent_of(node) for node in live.present]
        if self._heard.get(live.run_id) is not live:
            self._heard[live.run_id] = live
            agents[0].transport.on_ending.add(partial(self._machine_ends, live))
        now = self.engine.clock.elapsed()
        unfinished = any(
            run_id == live.run_id and state in LIVE
            for (run_id, _), (state, _) in self._told.items()
        )
        if not all(agent.is_linked for agent in agents) and (
            not unfinished or now - self._looked.get(live.run_id, 0.0) < LOST_EVERY
        ):
            return False
        self._looked[live.run_id] = now
        return True

    def _machine_ends(self, live: LiveCluster) -> None:
        """Archive the logs of a machine that its guards are about to end."""
        if live.run_id not in self._ending or self._ending[live.run_id].done():
            self._ending[live.run_id] = asyncio.create_task(self._last_look(live))

    async def _last_look(self, live: LiveCluster) -> None:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.look(live, unfinished=True)
        except Exception as error:
            log.debug("%s: the last look at its jobs: %r", live.name, error)
        self._note(live.run_id, live.name)

    async def look(self, live: LiveCluster, *, unfinished: bool = False) -> None:
        """Archive what ended since the last check; with `unfinished`, all other jobs too."""
        async with (
            asyncio.timeout(LOOK_SECONDS),
            self._looking.setdefault(live.run_id, asyncio.Lock()),
        ):
            jobs = await list_jobs(live)
            ids = {job.id for job in jobs}
            self._broken = {
                key: since
                for key, since in self._broken.items()
                if key[0] != live.run_id or key[1] in ids
            }
            self._seen[live.run_id] = ids
            # What it cannot take now it is told at the next look; the logs are kept all the same.
            self.engine.ledger.record(partial(self._tell_ledger, live.run_id, jobs), None)
            if unfinished:
                self._unkept[live.run_id] = dict.fromkeys(ids, NO_TIME)
            for job in jobs:
                if job.is_over or unfinished:
                    await self._keep(live, job)
                else:
                    await self._end_broken_job(live, job)
                    await self._keep_so_far(live, job)

    def _tell_ledger(self, run_id: str, jobs: Sequence[Job]) -> None:
        if any((run_id, job.id) not in self._told for job in jobs):
            self._told |= {
                (run_id, row["job_id"]): (row["state"], row["exit_code"])
                for row in self.engine.ledger.jobs.of_run(run_id)
            }
        told = {id: how for (known, id), how in self._told.items() if known == run_id}
        changed = [
            job for job in jobs if job.id in told and told[job.id] != (job.state, job.exit_code)
        ]
        # A machine that invents jobs must not fill the ledger.
        new = [job for job in jobs if job.id not in told][: max(0, MOST_JOBS - len(told))]
        for job in [*changed, *new][:TOLD_AT_ONCE]:
            self.engine.ledger.jobs.set(run_id, job.id, job.name, "", job.state, job.exit_code)
            self._told[run_id, job.id] = job.state, job.exit_code

    async def _keep_so_far(self, live: LiveCluster, job: Job) -> None:
        """Archive the end of a log now and then: a machine may be taken away without a word."""
        key, now = (live.run_id, job.id), self.engine.clock.elapsed()
        if job.state == "running" and now - self._partly.get(key, -KEEP_EVERY) >= KEEP_EVERY:
            self._partly[key] = now
            await self._keep(live, job, lines=PARTLY_LINES, size=PARTLY_BYTES)

    async def _keep(
        self, live: LiveCluster, job: Job, *, lines: int | None = None, size: int = LOG_BYTES
    ) -> None:
        key, unkept = (live.run_id, job.id, job.created), self._unkept.setdefault(live.run_id, {})
        if key in self._kept or (
            job.is_over and await self._in_worker(lambda: self.store.has(live.run_id, job))
        ):
            self._kept.add(key)
            unkept.pop(job.id, None)
            return
        if len(self._kept) > MOST_KEPT:
            unkept[job.id] = f"the logs of more than {MOST_KEPT:,} jobs are kept already"
            return  # a machine that invents jobs must not fill the disk
        count, read = max(1, min(len(job.parts), len(live.nodes))), 0
        try:
            for first in range(0, count, LOGS_AT_ONCE):
                nodes = range(first, min(count, first + LOGS_AT_ONCE))
                logs = await asyncio.gather(
                    *(read_log(live, job, node=node, lines=lines, size=size) for node in nodes),
                    return_exceptions=True,
                )
                texts = {
                    n: self._hide(found.text)
                    for n, found in zip(nodes, logs, strict=True)
                    if not isinstance(found, BaseException)
                }
                read += len(texts)
                self._kept_bytes += sum(map(len, texts.values()))
                if len(texts) < len(logs):
                    lost = next(found for found in logs if isinstance(found, BaseException))
                    unkept[job.id] = short_words(lost)
                await self._in_worker(partial(self.store.keep_logs, live.run_id, job, texts))
            await self._in_worker(lambda: self.store.keep(live.run_id, live.name, job, {}))
        except OSError as error:
            unkept[job.id] = error.strerror or str(error)
            log_fault(log, error, "the log of job %s of %s could not be kept", job.id, live.name)
            return
        if read == count:
            unkept.pop(job.id, None)
        if not job.is_over:
            return
        tries = self._tries[key[:2]] = self._tries.get(key[:2], 0) + 1
        if read == count or tries >= TRIES:
            self._kept.add(key)

    async def _end_broken_job(self, live: LiveCluster, job: Job) -> None:
        """End a job whose part failed on one node, since the other parts would wait for ever."""
        if not any(state not in ("queued", "running", "ok") for state, _ in job.parts):
            return
        now = self.engine.clock.elapsed()
        since = self._broken.setdefault((live.run_id, job.id), now)
        if now - since >= GANG_GRACE:
            await cancel_parts(live, job)

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._files.submit(work))

    async def archive_before_end(self, row: ClusterRow) -> str:
        """Archive the logs of a cluster that is about to be stopped or ended.

        It takes at most `LAST_SECONDS`, and raises nothing unless it is cancelled. Returns which
        logs were not kept and why, in a line; the ledger has it too, if it can be written.
        """
        if row.state not in (ClusterState.RUNNING, ClusterState.UNKNOWN):
            return ""
        left = await self._in_worker(lambda: self._left(row.run_id))
        if left is not None and not left:
            return ""
        self._unkept[row.run_id] = dict.fromkeys(left or (), NO_TIME)
        why = f"{row.name} did not answer"
        try:
            async with asyncio.timeout(LAST_SECONDS):
                async with asyncio.timeout(ATTACH_SECONDS):
                    live = await self.engine.attach(row.name)
                    await agent_of(live.head).jobs()
                why = NO_TIME
                await self.look(live, unfinished=True)
        except Exception as error:
            why = why if isinstance(error, TimeoutError) else short_words(error)
            unkept = self._unkept.get(row.run_id, {})
            unkept.update({id: why for id, how in unkept.items() if how == NO_TIME})
        return self._note(row.run_id, row.name)

    def _note(self, run_id: str, name: str) -> str:
        """Say and write down which logs of a cluster were not kept before its end, if any."""
        unkept, ledger = self._unkept.pop(run_id, {}), self.engine.ledger
        words = unkept_words(unkept)
        if words:
            log.warning("%s: %s", name, words)
        add = partial(ledger.events.add, run_id, EventKind.LOGS_KEPT, left=len(unkept))
        if words or ledger.record(lambda: ledger.events.has(run_id, EventKind.LOGS_KEPT), False):
            ledger.record(lambda: add(text=words or "the logs of all its jobs are kept"), None)
        return words

    def _left(self, run_id: str) -> set[str] | None:
        """Return the known jobs whose ends are not archived; None where that is not known."""
        kept = {job.id for job in self.store.jobs(run_id) if job.is_over}
        try:
            told = {str(job["job_id"]) for job in self.engine.ledger.jobs.of_run(run_id)}
        except LedgerError:
            return None
        return (told | self._seen.get(run_id, set())) - kept


def unkept_words(unkept: Mapping[str, str]) -> str:
    """Return which logs were not kept and why, in a line; empty for none.

    Examples
    --------
    >>> unkept_words({"train-1": "No space left on device"})
    'the log of train-1 was not kept here: No space left on device'
    >>> unkept_words({f"job-{n}": "no answer" for n in range(5)})
    'the logs of job-0, job-1, job-2 and 2 more jobs were not kept here: no answer'
    """
    if not unkept:
        return ""
    ids = list(unkept)
    more = len(ids) - MOST_NAMED
    named = ", ".join(ids[:MOST_NAMED])
    if more > 0:
        named += f" and {more} more job{'' if more == 1 else 's'}"
    what = f"the log of {named} was" if len(ids) == 1 else f"the logs of {named} were"
    return f"{what} not kept here: {unkept[ids[0]]}"


def short_words(error: BaseException) -> str:
    """Return the first line of an error, or its kind where it says nothing."""
    return str(error).partition("\n")[0] or type(error).__name__
