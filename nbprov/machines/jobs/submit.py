"""Submit a job: a part of it on each of its nodes, or on none."""

from __future__ import annotations

import asyncio
import math
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.machines.node_variables import node_environment
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.text.variable_values import why_unfit
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of, check_there
from nbprov.remote.agent.framing import AgentError
from nbprov.remote.agent.messages import Environment, TaskInfo, plain_environment

from .jobs import MOST_NAME, RESERVED, Job, JobError, all_done, list_jobs, named, no_job

SUBMIT_SECONDS: Seconds = 60.0
"""How long a job for several nodes waits for the submission of another one.

An agent holds the place of a broken submission for as long.
"""
SUBMIT_PAUSE: Seconds = 0.2

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{MOST_NAME - 1}}}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = re.compile(r"(.+)-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to be submitted.

    Attributes
    ----------
    script
        The text for bash; it is sent over the open connection and written to no file.
    gpus
        GPUs on each node: all by default (without GPUs: the whole machine), 0 for none and no
        waiting, below 1 for a fraction of one.
    nodes
        The number of nodes, starting at the head; None for all.
    env
        Its variables, including secrets; they reach its processes and nothing else.
    cwd
        Its folder; by default the home.
    after
        Jobs (by id or name) that must succeed first; otherwise it is skipped.
    """

    script: str
    name: str = "job"
    gpus: float | None = None
    nodes: int | None = 1
    env: Environment = field(default_factory=dict)
    cwd: str | None = None
    after: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what is wrong without asking a machine.

        Raises
        ------
        JobError
            With the code `job.empty`, `job.name`, `job.gpus`, `job.nodes`, `job.env` or
            `job.after`.
        """
        if not self.script.strip():
            raise JobError(
                "the job's script is empty",
                hint="write it below the line, or after --",
                code="job.empty",
            )
        if not _NAME.fullmatch(self.name) or self.name in RESERVED:
            raise JobError(
                f"{self.name!r} cannot be a job's name",
                hint="use letters, digits, - and _, a letter first,"
                f" at most {MOST_NAME}; setup, run and agent are taken",
                code="job.name",
            )
        if self.gpus is not None and not (
            0 <= self.gpus < 1 or (self.gpus < 10_000 and self.gpus == int(self.gpus))
        ):
            raise JobError(
                f"a job cannot ask for {self.gpus:g} GPUs",
                hint="a whole number, a share of one below 1 (0.5), or 0 for none",
                code="job.gpus",
            )
        if self.nodes is not None and self.nodes < 1:
            raise JobError(
                f"a job cannot have {self.nodes} nodes",
                hint="--nodes all, or a number from 1 on",
                code="job.nodes",
            )
        wrong = [name for name in self.env if not _VARIABLE.fullmatch(name)]
        if wrong:
            raise JobError(
                f"{wrong[0]!r} cannot be the name of a variable", hint="NAME=VALUE", code="job.env"
            )
        for name, value in plain_environment(self.env).items():
            why = why_unfit(name, value)
            if why:
                hint = "put it into a file on the machine, and name the file instead"
                raise JobError(f"the value of {name} {why}", hint=hint, code="job.env")
        if self.after and self.nodes != 1:
            raise JobError(
                "a job of several nodes cannot come after a job by name",
                hint="jobs begin in the order of submission anyway; leave --after out, or --nodes",
                code="job.after",
            )


async def submit_job(live: LiveCluster, wanted: JobRequest, known: Iterable[str] = ()) -> Job:
    """Queue a job on its nodes; returns once every node has its part.

    Parameters
    ----------
    known
        Ids that must not be used again.

    Raises
    ------
    JobError
        `job.too-many-gpus`, `job.nodes`, … if it could never run.
    NotFound
        If it is to come after an unknown job.
    """
    wanted.check()
    count = len(live.nodes) if wanted.nodes is None else wanted.nodes
    if count > len(live.nodes):
        has = f"{len(live.nodes)} node{'' if len(live.nodes) == 1 else 's'}"
        raise JobError(
            f"{live.name} has {has}, the job asks for {count}",
            hint=f"--nodes {len(live.nodes)}",
            code="job.nodes",
        )
    for node in live.nodes[:count]:
        check_there(node)
    jobs = await list_jobs(live)
    for name in wanted.after:
        if named(jobs, name) is None:
            raise no_job(live.name, name, jobs)
    wanted = replace(
        wanted,
        after=tuple(job.id for name in wanted.after if (job := named(jobs, name)) is not None),
    )
    number = 1 + max(
        (int(n) for n in _numbers(wanted.name, {*known, *(job.id for job in jobs)})), default=0
    )
    nonce = uuid.uuid4().hex
    while True:
        try:
            return await submit_parts(
                live, live.nodes[:count], f"{wanted.name}-{number}", nonce, wanted
            )
        except AgentError as error:
            if error.code != "agent.taken":
                raise _refused(live, error) from error
            number += 1  # another notebook took this id


def _numbers(name: str, ids: Iterable[str]) -> Iterable[str]:
    for id in ids:
        found = _NUMBERED.fullmatch(id)
        if found is not None and found[1] == name:
            yield found[2]


def _refused(live: LiveCluster, error: AgentError) -> NbprovError:
    code = error.code.removeprefix("agent.")
    hints = {
        "too-many-gpus": "ask for fewer with --gpus; --gpus 0 is a job without any",
        "held": "try again in a minute",
        "queue-full": "cancel some: %nbprov jobs NAME cancel ID",
        "ending": "%clusters shows what becomes of it",
    }
    if code not in hints:
        return error
    return JobError(f"{live.name}: {error.message}", hint=hints[code], code=f"job.{code}")


async def submit_parts(
    live: LiveCluster, nodes: Sequence[Node], id: str, nonce: str, wanted: JobRequest
) -> Job:
    """Give each of these nodes its part of a job; no part starts before all nodes have theirs.

    The first node's queue decides the order. It holds the place of one job at a time until that
    job is on all nodes, so that all nodes have the same jobs in the same order and no two jobs
    wait for each other. The agents give up a submission that breaks off halfway.

    Raises
    ------
    AgentError
        The answer of the first node that refused; then no node keeps its part.
    """
    # Ranks and addresses are those among the nodes that have a part.
    team = replace(live, nodes=list(nodes))

    async def place(node: Node) -> TaskInfo:
        return await agent_of(node).submit_job(
            wanted.script,
            id,
            nonce,
            name=wanted.name,
            env={**_variables(team, node, wanted.gpus), **wanted.env},
            cwd=wanted.cwd,
            after=wanted.after,
            gpus=wanted.gpus,
            gpus_told=math.ceil(live.candidate.offer.accelerator_count - 1e-9),
            nodes=len(nodes),
            held=len(nodes) > 1,
        )

    head = await _placed_first(place, nodes[0])
    if len(nodes) > 1:
        try:
            await all_done(place(node) for node in nodes[1:])
            await all_done(agent_of(node).release_job(id) for node in nodes[1:])
            head = await agent_of(nodes[0]).release_job(id)
        except BaseException:
            await asyncio.gather(
                *(agent_of(node).cancel_job(id, nonce=nonce) for node in nodes),
                return_exceptions=True,
            )
            raise
    job = Job.of(head)
    assert job is not None, "the id is ours"
    return job


async def _placed_first(place: Any, node: Node) -> TaskInfo:
    loop = asyncio.get_running_loop()
    end = loop.time() + SUBMIT_SECONDS
    while True:
        try:
            placed: TaskInfo = await place(node)
        except AgentError as error:
            if error.code != "agent.held" or loop.time() > end:
                raise
            await asyncio.sleep(SUBMIT_PAUSE)
        else:
            return placed


def _variables(live: LiveCluster, node: Node, gpus: float | None) -> dict[str, str]:
    found = node_environment(live, node)
    if gpus is not None:
        found |= dict.fromkeys(
            (name for name in found if name.endswith("_NUM_GPUS_PER_NODE")), str(math.ceil(gpus))
        )
    return found
