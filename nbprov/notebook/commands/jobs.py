"""`%nbprov jobs`: what runs and waits on the machines, and how to give them more."""

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
from nbprov.notebook.rendering.result_table import Sheet
from nbprov.notebook.rendering.tables import Column

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
"""Of a table of jobs, the newest: what a browser draws without a pause."""
KEPT = "kept here; the machine {}"


class JobSheet(Sheet):
    """A table of jobs: `x = %nbprov jobs dev` is a DataFrame of them."""

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row a job; instants are UTC."""
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
    """The line of `%nbprov jobs`."""
    parser.takes_script = True
    parser.epilog = (
        "examples:\n  %%nbprov jobs dev submit --gpus 1 --name train      # the cell is the script\n"
        "  %nbprov jobs dev submit -- python train.py --lr 3e-4\n  %nbprov jobs dev\n  %nbprov logs dev train -f\n  %nbprov jobs dev cancel train-1"
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="the cluster, or the id of a run that has ended; without one, all that are live",
    )
    parser.add_argument(
        "action",
        nargs="?",
        default="",
        metavar="ACTION",
        help="submit, wait or cancel; without one the jobs are listed",
    )
    parser.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        help="wait, cancel: ids, or names for the newest of that name",
    )
    parser.add_argument("--all", action="store_true", help="cancel: all that wait or run")
    parser.add_argument(
        "--gpus",
        type=_gpus,
        metavar="N",
        help="submit: on each node; default all of them, so that jobs run one after the other; 0: none, at once; 0.5: half of one",
    )
    parser.add_argument(
        "--name", dest="job_name", metavar="NAME", help="submit: what it is called (default: job)"
    )
    parser.add_argument(
        "--nodes",
        metavar="all|N",
        help="submit: how many nodes have a part of it (default: 1, the head)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="submit: a variable of the job; NAME alone takes the kernel's own value, as a secret",
    )
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="submit: only if this one has succeeded",
    )
    parser.add_argument(
        "--cwd",
        metavar="FOLDER",
        help="submit: its folder there (default: that of the spec's workdir, else the home)",
    )


def completions(previous: Sequence[str], option: str, clusters: list[str]) -> list[str]:
    """What fits after these words of a line of `%nbprov jobs` or `%nbprov logs`. Asks no machine."""
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
    """List, submit, wait or cancel.

    Raises
    ------
    JobError
        If what is submitted could never run.
    NotFound
        If there is no such cluster or job.
    """
    has_script = cell is not None or arguments.script is not None
    if has_script and arguments.action != "submit":
        raise UsageError(
            "a script is for submit", hint="%%nbprov jobs NAME submit, and the script below it"
        )
    if arguments.action not in ("", *ACTIONS):
        raise UsageError(
            f"what is {arguments.action!r}?",
            hint=f"%nbprov jobs {arguments.name}, and then nothing, submit, wait or cancel",
        )
    if arguments.action == "submit":
        return _submit(arguments, cell)
    if arguments.action == "cancel":
        return _cancel(arguments)
    if arguments.action == "wait":
        return _wait(arguments)
    sheet = _listed(arguments.name)
    if sheet is not None and is_assigned(shell):
        return sheet.to_frame()
    return sheet


def _nodes(text: str | None) -> Any:
    if text in (None, "all"):
        return text or 1
    if not text or not text.isdecimal():
        raise UsageError(f"--nodes wants all or a number, not {text!r}", hint="%nbprov jobs --help")
    return int(text)


def _gpus(text: str) -> float | None:
    try:
        return None if text == "all" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither all nor a number of GPUs") from None


def _submit(arguments: argparse.Namespace, cell: str | None) -> None:
    if cell is not None and arguments.script is not None:
        raise UsageError(
            "the script is in the cell or after --, not in both", hint="%nbprov jobs --help"
        )
    if arguments.jobs:
        raise UsageError(
            f"what is {arguments.jobs[0]!r}?",
            hint=f"%nbprov jobs {arguments.name} submit -- {' '.join(arguments.jobs)}",
        )
    script = cell if cell is not None else arguments.script
    if script is None:
        raise UsageError(
            "what is to run?",
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
    place = (
        "begins now"
        if job.first.state != "queued" or position is None
        else "is next"
        if position == 1
        else f"waits, {position - 1} before it"
    )
    print(
        f"{job.id}: {place} on {arguments.name}; %nbprov logs {arguments.name} {job.id} -f shows its output as it comes"
    )


def _cancel(arguments: argparse.Namespace) -> None:
    if bool(arguments.jobs) == arguments.all:
        raise UsageError(
            "which job?",
            hint=f"%nbprov jobs {arguments.name} cancel ID, or --all for all that wait or run",
        )
    asked = session().cluster(arguments.name).cancel_jobs(None if arguments.all else arguments.jobs)
    print(f"asked to end: {', '.join(asked)}" if asked else "nothing was running or waiting")


def _wait(arguments: argparse.Namespace) -> None:
    if not arguments.jobs:
        raise UsageError("which job?", hint=f"%nbprov jobs {arguments.name} wait ID")
    handle = session().cluster(arguments.name)
    for name in arguments.jobs:
        handle.wait_job(name)
        print(end_words(handle.job(name)))


def _listed(name: str) -> JobSheet | None:
    here = session()
    lines: list[str] = []
    if name:
        row = here.row_of(name)
        found = [(row.name, job) for job in here.jobs_of(row)]
        if found and not here.is_up(row):
            lines = [KEPT.format("has ended" if row.ended is not None else f"is {row.state.value}")]
        heading, none = f"jobs of {row.name}", f"{row.name} has no jobs"
    else:
        everywhere = here.all_jobs()
        found = [(cluster, job) for cluster, jobs, _ in everywhere for job in jobs]
        lines = [f"{words}; its jobs as kept here" for _, _, words in everywhere if words]
        heading = f"jobs of {len(everywhere)} cluster{'' if len(everywhere) == 1 else 's'}"
        none = "no cluster is live" if not everywhere else "no jobs"
    if not found:
        print("\n".join([none, *lines]))
        return None
    if len(found) > MOST_ROWS:
        lines = [f"{len(found) - MOST_ROWS:,} earlier ones are not shown", *lines]
        found = found[-MOST_ROWS:]
    now = time.time()
    columns = _COLUMNS if name else (Column("cluster", flexible=True), *_COLUMNS)
    rows = [([] if name else [cluster]) + _cells(job, now) for cluster, job in found]
    return JobSheet(heading, columns, rows, lines, found)


def _cells(job: Job, now: float) -> list[str]:
    took = "" if job.started is None else short_duration(max(0.0, (job.ended or now) - job.started))
    if job.started is not None and job.ended is None and job.is_over:
        took = ""  # lost: nobody knows how far it came
    return [
        job.id,
        state_words(job),
        str(job.nodes) if job.nodes > 1 else "",
        gpu_words(job),
        exit_words(job.exit_code, job.state),
        took,
        f"{short_duration(max(0.0, now - job.created))} ago" if job.created else "",
    ]
