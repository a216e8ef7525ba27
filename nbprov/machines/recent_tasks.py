"""The latest tasks of a cluster, which are jobs and cells, and the end of their output."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.machines.cells.history import kept_text, list_cells
from nbprov.machines.jobs.format import state_words
from nbprov.machines.jobs.jobs import find_job, list_jobs
from nbprov.machines.jobs.logs import read_log, tail_of
from nbprov.model.clock import Instant
from nbprov.model.text.plain import one_line, printable
from nbprov.provisioning.live_cluster import LiveCluster

JOB, CELL = "job", "cell"
MOST_TASKS = 12
"""So many are listed, the latest ones; `%nbprov jobs` and `%nbprov cells` list all."""
SHOWN_LINES = 200
MOST_WORDS = 200
"""Characters of a state: a machine may say anything."""


@dataclass(frozen=True, slots=True)
class RecentTask:
    """A job or a cell of a cluster.

    Attributes
    ----------
    kind
        `job` or `cell`.
    words
        Its state for people, such as `running` or `failed, exit code 3`.
    started, ended
        By the machine's clock; None where it has not begun, or goes on.
    """

    kind: str
    id: str
    words: str
    started: Instant | None
    ended: Instant | None


async def recent_tasks(live: LiveCluster) -> list[RecentTask]:
    """Return the latest jobs and cells of a cluster, newest first, its last set-up included."""
    from nbprov.machines.setup.cluster_setup import SETUP

    jobs = await list_jobs(live)
    found = [
        (
            job.created,
            RecentTask(JOB, job.id, _short(state_words(job)), job.started, job.ended),
        )
        for job in jobs
    ]
    found += [
        (
            cell.created,
            RecentTask(
                CELL,
                cell.id,
                _short(cell.status or cell.state),
                cell.started,
                cell.ended,
            ),
        )
        for cell in await list_cells(live)
    ]
    found.sort(key=lambda one: one[0] or 0.0, reverse=True)
    latest, earlier = found[:MOST_TASKS], found[MOST_TASKS:]
    # What a set-up printed is asked for long after it ran.
    setups = {job.id for job in jobs if job.name == SETUP}
    kept = [one for one in earlier if one[1].kind == JOB and one[1].id in setups][:1]
    return [task for _, task in (*latest, *kept)]


def _short(words: str) -> str:
    return one_line(words, MOST_WORDS)


async def end_of_output(live: LiveCluster, kind: str, id: str) -> str:
    """Return the last lines that a job or a cell printed, as plain text.

    Raises
    ------
    NotFound
        If there is no such job or cell.
    """
    if kind == JOB:
        text = (await read_log(live, await find_job(live, id), lines=SHOWN_LINES)).text
    else:
        text = tail_of((await kept_text(live, id))[0], SHOWN_LINES).text
    return printable(text).strip()
