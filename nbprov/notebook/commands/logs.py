"""`%nbprov logs`: print, follow or save the output of a job."""

from __future__ import annotations

import argparse
import asyncio
import queue
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api import session
from nbprov.machines.local_paths import local_path
from nbprov.model.errors import Interrupted, UsageError
from nbprov.notebook.arguments import MagicParser, at_least_one
from nbprov.notebook.terminal import say

from .cells import write_text_file

if TYPE_CHECKING:
    from nbprov.api import Session
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

RUN = "run"
"""The name of the job that runs a spec's `run:`."""

TICK = 0.05
"""Seconds between two checks for an interrupt."""
PAUSE = 0.2
"""Seconds between two writes, which is as fast as anybody reads."""
LINES_PER_WRITE = 200
BYTES_PER_WRITE = 32 * 1024
"""The most that one write shows, so that a job that floods does not stop the browser."""
FOLLOWED_BYTES = 8 * 1024 * 1024
"""The most that one cell shows, because a larger notebook does not open again."""
LAST_LINES = 20
"""Lines from the end that are shown after that limit."""


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov logs`."""
    parser.add_argument("name", help="the cluster, or the id of a run that has ended")
    parser.add_argument(
        "job",
        nargs="?",
        default="",
        help="the id of a job, or a name for the newest job of that name: setup, train-1"
        " (default: run, else the newest)",
    )
    parser.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="show the output until the job ends; Ctrl-C stops following, not the job",
    )
    parser.add_argument(
        "--last",
        type=at_least_one,
        default=None,
        metavar="N",
        help="the last N lines (default: 1000)",
    )
    parser.add_argument(
        "--node",
        type=int,
        default=0,
        metavar="N",
        help="which node's output (default: 0, the head)",
    )
    parser.add_argument("--save", metavar="FILE", help="write all of it to a file instead")


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print, follow or save a log.

    Raises
    ------
    NotFound
        If there is no such cluster or job.
    Interrupted
        On Ctrl-C while following; the job goes on.
    """
    from nbprov.machines.jobs.logs import SHOWN_BYTES, SHOWN_LINES

    here = session()
    row = here.services.jobs.row_of(arguments.name)
    arguments.job = arguments.job or _usual_job(here, row)
    if arguments.save:
        if arguments.follow:
            raise UsageError(
                "--save and --follow cannot be combined",
                hint="leave one of them out",
            )
        _save(
            here.log_of(row, arguments.job, lines=arguments.last, node=arguments.node).text,
            local_path(arguments.save, Path(), "--save"),
        )
        return
    lines = arguments.last or SHOWN_LINES
    if arguments.follow and here.services.jobs.is_up(row):
        _follow(arguments, lines)
        return
    tail = here.log_of(row, arguments.job, lines=lines, node=arguments.node, size=SHOWN_BYTES)
    if tail.earlier and arguments.last is None:
        count = f"{tail.earlier:,}" if tail.is_counted else f"at least {tail.earlier:,}"
        say(
            f"… {count} earlier lines are not shown;"
            f" %nbprov logs {arguments.name} {arguments.job} --save FILE saves all of it"
        )
    print(tail.text, end="" if tail.text.endswith("\n") or not tail.text else "\n")
    if not here.services.jobs.is_up(row):
        state = "has ended" if row.ended is not None else f"is {row.state.value}"
        say(f"(from the local archive; {row.name} {state})")


def _usual_job(here: Session, row: ClusterRow) -> str:
    """Return the job to show where none is named: the spec's `run`, else the newest."""
    jobs = here.jobs_of(row)
    return RUN if not jobs or any(job.name == RUN for job in jobs) else jobs[-1].id


def _save(text: str, path: Path) -> None:
    write_text_file(path, text)
    lines = text.count("\n")
    say(f"{path}: {lines:,} line{'' if lines == 1 else 's'}, {len(text.encode()) / 1e6:.1f} MB")


def _follow(arguments: argparse.Namespace, lines: int) -> None:
    here = session()
    pieces: queue.SimpleQueue[str] = queue.SimpleQueue()
    printer = _LogPrinter(pieces, arguments)

    async def pump(live: LiveCluster) -> str:
        from nbprov.machines.jobs.format import end_words
        from nbprov.machines.jobs.jobs import find_job

        async for text in here.services.jobs.followed(
            live, arguments.job, node=arguments.node, lines=lines
        ):
            pieces.put(text)
            await asyncio.sleep(0)
        job = await find_job(live, arguments.job)
        return (
            f"({end_words(job)})" if job.is_over else f"({job.id} is still running on other nodes)"
        )

    future = here.services.remote.begin_attached(arguments.name, pump)
    try:
        while not future.done():
            printer.show(PAUSE)
        printer.show(0)
        printer.finish()
        say(future.result())
    except KeyboardInterrupt:
        future.cancel()
        printer.show(0)
        printer.finish()
        raise Interrupted(
            f"no longer following; the job on {arguments.name} keeps running"
        ) from None


class _LogPrinter:
    """Prints a log no faster than a browser draws it, and no more than a notebook can hold."""

    def __init__(self, pieces: queue.SimpleQueue[str], arguments: argparse.Namespace) -> None:
        self._pieces = pieces
        self._save_command = f"%nbprov logs {arguments.name} {arguments.job} --save FILE"
        self._shown = 0
        self._unshown: deque[str] = deque(maxlen=LAST_LINES)

    def show(self, seconds: float) -> None:
        """Print what is there, after a pause in which more may come."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(TICK, left))
        came = []
        with suppress(queue.Empty):
            while True:
                came.append(self._pieces.get_nowait())
        if not came:
            return
        from nbprov.machines.jobs.logs import SHOWN_BYTES, SHOWN_LINES, tail_of

        # The first write holds the end of the existing log, of which more is shown.
        limits = (LINES_PER_WRITE, BYTES_PER_WRITE) if self._shown else (SHOWN_LINES, SHOWN_BYTES)
        tail = tail_of("".join(came), *limits)
        if self._shown > FOLLOWED_BYTES:
            self._unshown.extend(tail.text.splitlines(keepends=True))
            return
        if tail.earlier:
            say(
                f"… {tail.earlier:,} lines came too fast to be shown;"
                f" {self._save_command} saves all of it"
            )
        print(tail.text, end="", flush=True)
        self._shown += len(tail.text)
        if self._shown > FOLLOWED_BYTES:
            say(
                f"\n… more than {FOLLOWED_BYTES >> 20} MB: only the end of the rest is shown;"
                f" {self._save_command} saves all of it"
            )

    def finish(self) -> None:
        """Print the end of what was not shown."""
        print("".join(self._unshown), end="", flush=True)
