"""`%nbprov jobs`: list, submit, wait for and cancel jobs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbprov.api import session
from nbprov.machines.jobs.format import end_words, exit_words, gpu_words, state_words
from nbprov.model.clock import short_duration
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser, environment
from nbprov.notebook.magics.prices import is_assigned
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.rendering.tables import Column
from nbprov.notebook.terminal import say

if TYPE_CHECKING:
    from nbprov.machines.jobs.jobs import Job

ACTIONS = ("submit", "wait", "cancel")

_COLUMNS = (
    Column("id", unbroken=True),
    Column("state", flexible=True),
    Column("nodes", right=True),
    Column("GPUs", right=True),
    Column("exit", flexible=True),
    Column("time", right=True),
    Column("submitted", right=True),
)
MOST_ROWS = 1000
"""The most jobs in a table, the newest ones, so that a browser draws it without a pause."""
ARCHIVED = "from the local archive; the machine {}"


class JobResults(ResultTable):
    """A table of jobs; `x = %nbprov jobs dev` is a DataFrame of them."""

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per job, with times in UTC."""
        import pandas as pd

        names = (
            "id",
            "name",
            "state",
            "exit_code",
            "position",
            "gpus",
            "devices",
            "nodes",
            "created",
            "started",
            "ended",
            "reason",
            "kept",
        )
        frame = pd.DataFrame(
            [
                {"cluster": cluster} | {n: getattr(job, n) for n in names}
                for cluster, job in self.data
            ]
        )
        frame = frame.reindex(columns=["cluster", *names]).astype(
            {"exit_code": "Int64", "position": "Int64"}
        )
        for name in ("created", "started", "ended"):
            frame[name] = pd.to_datetime(frame[name], unit="s", utc=True)
        return frame


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov jobs`."""
    parser.takes_script = True
    parser.epilog = (
        "examples:\n"
        "  %%nbprov jobs dev submit --gpus 1 --name train      # the cell is the script\n"
        "  %nbprov jobs dev submit -- python train.py --lr 3e-4\n"
        "  %nbprov jobs dev\n"
        "  %nbprov logs dev train -f\n"
        "  %nbprov jobs dev cancel train-1"
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="the cluster, or the id of a run that has ended; without it, all live clusters",
    )
    parser.add_argument(
        "action",
        nargs="?",
        default="",
        metavar="ACTION",
        help="submit, wait or cancel; without it the jobs are listed",
    )
    parser.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        help="wait, cancel: ids of jobs; a name means the newest job of that name",
    )
    parser.add_argument("--all", action="store_true", help="cancel: all jobs that wait or run")
    _submit_arguments(parser)


def _submit_arguments(parser: MagicParser) -> None:
    parser.add_argument(
        "--gpus",
        type=_gpus,
        metavar="N",
        help="submit: GPUs on each node (default: all, so that jobs run one after the other);"
        " 0 starts at once without a GPU; 0.5 is half of one",
    )
    parser.add_argument(
        "--name", dest="job_name", metavar="NAME", help="submit: name of the job (default: job)"
    )
    parser.add_argument(
        "--nodes",
        metavar="all|N",
        help="submit: how many nodes it runs on (default: 1, the head)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="submit: an environment variable of the job; NAME alone takes the kernel's own value,"
        " as a secret",
    )
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="submit: start only after this job has succeeded",
    )
    parser.add_argument(
        "--cwd",
        metavar="FOLDER",
        help="submit: its working directory there (default: the spec's workdir, else the home)",
    )


def completions(previous: Sequence[str], option: str, clusters: list[str]) -> list[str]:
    """Return the completions of a line of `%nbprov jobs` or `%nbprov logs`.

    They come from the ledger; no machine is asked.
    """
    if option in ("nodes", "gpus"):
        return ["all"]
    words = [word for word in previous[1:] if not word.startswith("-")]
    if option and option != "after":
        return []
    if not words:
        return clusters
    if previous[0] == "jobs" and len(words) == 1 and not option:
        return list(ACTIONS)
    if previous[0] == "jobs" and not option and words[1] == "submit":
        return []
    return _known_jobs(words[0])


def _known_jobs(cluster: str) -> list[str]:
    api = sys.modules.get("nbprov.api")
    here = api.current() if api is not None else None
    row = here.engine.ledger.clusters.named(cluster) if here is not None else None
    jobs = (
        here.engine.ledger.jobs.of_run(row.run_id) if here is not None and row is not None else []
    )
    return list(dict.fromkeys([job["kind"] for job in jobs] + [job["job_id"] for job in jobs]))


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """List, submit, wait for or cancel jobs.

    Raises
    ------
    JobError
        If the submitted job could never run.
    NotFound
        If there is no such cluster or job.
    """
    has_script = cell is not None or arguments.script is not None
    if has_script and arguments.action != "submit":
        raise UsageError(
            "only submit takes a script",
            hint="write %%nbprov jobs NAME submit, and the script below it",
        )
    if arguments.action not in ("", *ACTIONS):
        raise UsageError(
            f"%nbprov jobs has no action {arguments.action!r}",
            hint=f"write %nbprov jobs {arguments.name} alone, or with submit, wait or cancel",
        )
    if arguments.action == "submit":
        return _submit(arguments, cell)
    if arguments.action == "cancel":
        return _cancel(arguments)
    if arguments.action == "wait":
        return _wait(arguments)
    table = _listed(arguments.name)
    if table is not None and is_assigned(shell):
        return table.to_frame()
    return table


def _nodes(text: str | None) -> Any:
    if text in (None, "all"):
        return text or 1
    if not text or not text.isdecimal():
        raise UsageError(f"--nodes takes all or a number, not {text!r}", hint="%nbprov jobs --help")
    return int(text)


def _gpus(text: str) -> float | None:
    try:
        return None if text == "all" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither all nor a number of GPUs") from None


def _submit(arguments: argparse.Namespace, cell: str | None) -> None:
    if cell is not None and arguments.script is not None:
        raise UsageError(
            "write the script in the cell or after --, not both", hint="%nbprov jobs --help"
        )
    if arguments.jobs:
        raise UsageError(
            f"%nbprov jobs NAME submit does not take {arguments.jobs[0]!r}",
            hint=f"write a command after --: %nbprov jobs {arguments.name} submit --"
            f" {' '.join(arguments.jobs)}",
        )
    script = cell if cell is not None else arguments.script
    if script is None:
        raise UsageError(
            "there is no script to run",
            hint=f"write it below %%nbprov jobs {arguments.name} submit, or after --",
        )
    handle = session().cluster(arguments.name)
    job = handle.submit(
        script,
        gpus=arguments.gpus,
        name=arguments.job_name or "job",
        nodes=_nodes(arguments.nodes),
        env=environment(arguments.env, "%nbprov jobs"),
        after=arguments.after,
        cwd=arguments.cwd,
    )
    position = job.first.position
    if job.first.state != "queued" or position is None:
        place = "starts now"
    elif position == 1:
        place = "is next in the queue"
    else:
        place = f"waits behind {position - 1} other{'' if position == 2 else 's'}"
    follow = f"%nbprov logs {arguments.name} {job.id} -f"
    say(f"{job.id}: {place} on {arguments.name}; {follow} shows its output as it comes")
    if job.remark:
        say(job.remark)


def _cancel(arguments: argparse.Namespace) -> None:
    if bool(arguments.jobs) == arguments.all:
        raise UsageError(
            "name the jobs to cancel",
            hint=f"%nbprov jobs {arguments.name} cancel ID, or --all for all jobs that wait or run",
        )
    asked = session().cluster(arguments.name).cancel_jobs(None if arguments.all else arguments.jobs)
    say(f"cancelling: {', '.join(asked)}" if asked else "no job was running or waiting")


def _wait(arguments: argparse.Namespace) -> None:
    if not arguments.jobs:
        raise UsageError("name the jobs to wait for", hint=f"%nbprov jobs {arguments.name} wait ID")
    handle = session().cluster(arguments.name)
    for name in arguments.jobs:
        handle.wait_job(name)
        say(end_words(handle.job(name)))


def _listed(name: str) -> JobResults | None:
    here = session()
    lines: list[str] = []
    if name:
        row = here.services.jobs.row_of(name)
        found = [(row.name, job) for job in here.jobs_of(row)]
        if found and not here.services.jobs.is_up(row):
            lines = [
                ARCHIVED.format("has ended" if row.ended is not None else f"is {row.state.value}")
            ]
        heading, none = f"jobs of {row.name}", f"{row.name} has no jobs"
    else:
        everywhere = here.all_jobs()
        found = [(cluster, job) for cluster, jobs, _ in everywhere for job in jobs]
        lines = [
            f"{words}; its jobs are from the local archive" for _, _, words in everywhere if words
        ]
        heading = f"jobs of {len(everywhere)} cluster{'' if len(everywhere) == 1 else 's'}"
        under_way = [view.name for view in here.clusters() if view.is_launch]
        none = "no cluster is live" if not (everywhere or under_way) else "no jobs"
        lines += [f"{launched} is no cluster yet" for launched in under_way]
    if not found:
        say("\n".join([none, *lines]))
        return None
    if len(found) > MOST_ROWS:
        lines = [f"{len(found) - MOST_ROWS:,} earlier jobs are not shown", *lines]
        found = found[-MOST_ROWS:]
    now = time.time()
    columns = _COLUMNS if name else (Column("cluster", flexible=True), *_COLUMNS)
    rows = [([] if name else [cluster]) + _cells(job, now) for cluster, job in found]
    return JobResults(heading, columns, rows, lines, found)


def _cells(job: Job, now: float) -> list[str]:
    took = "" if job.started is None else short_duration(max(0.0, (job.ended or now) - job.started))
    if job.started is not None and job.ended is None and job.is_over:
        took = ""  # its machine was lost, so nobody knows how long it ran
    return [
        job.id,
        state_words(job),
        str(job.nodes) if job.nodes > 1 else "",
        gpu_words(job),
        exit_words(job.exit_code, job.state),
        took,
        f"{short_duration(max(0.0, now - job.created))} ago" if job.created else "",
    ]
