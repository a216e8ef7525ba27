"""What a cluster's head has to do and did: its jobs and cells, and the end of their output."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.machines.cells.history import kept_text, list_cells
from nbprov.machines.jobs.format import state_words
from nbprov.machines.jobs.jobs import find_job, list_jobs
from nbprov.machines.jobs.logs import read_log, tail_of
from nbprov.model.clock import Instant
from nbprov.model.text.plain import printable
from nbprov.provisioning.live_cluster import LiveCluster

JOB, CELL = "job", "cell"
MOST_ITEMS = 12
"""So many are listed, the latest ones; `%nbprov jobs` and `%nbprov cells` list all."""
SHOWN_LINES = 200


@dataclass(frozen=True, slots=True)
class WorkItem:
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


async def list_work(live: LiveCluster) -> list[WorkItem]:
    """Return the latest jobs and cells of a cluster, newest first."""
    found = [
        (job.created, WorkItem(JOB, job.id, state_words(job), job.started, job.ended))
        for job in await list_jobs(live)
    ]
    found += [
        (cell.created, WorkItem(CELL, cell.id, cell.status or cell.state, cell.started, cell.ended))
        for cell in await list_cells(live)
    ]
    found.sort(key=lambda one: one[0] or 0.0, reverse=True)
    return [item for _, item in found[:MOST_ITEMS]]


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
