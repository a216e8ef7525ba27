"""`%nbprov sync`: synchronize a local folder with one on a machine.

What will be transferred is printed before the transfer begins.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api import session
from nbprov.machines.local_paths import local_path
from nbprov.model.errors import Interrupted, UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.panels.output_line import print_now
from nbprov.notebook.panels.progress_line import ProgressLine
from nbprov.notebook.terminal import say

if TYPE_CHECKING:
    from nbprov.remote.sync.plan import SyncPlan
    from nbprov.remote.sync.sync import SyncResult

TICK = 0.05
"""Seconds between two checks for progress or an interrupt."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov sync`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument(
        "path",
        metavar="PATH[:REMOTE]",
        help="the local folder, and the remote one: absolute or relative to the home there"
        " (default: the same name in the home)",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--push", action="store_true", help="make the remote folder like the local one"
    )
    way.add_argument(
        "--pull",
        action="store_true",
        help="make the local folder like the remote one"
        " (default: both ways, leaving conflicts alone)",
    )
    parser.add_argument("--dry", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--delete",
        action="store_true",
        help="delete what the source does not have; both ways: what was deleted on one side",
    )
    parser.add_argument(
        "--keep-names",
        action="store_true",
        help="also bring new files whose ending is not one of data, and the permission to execute",
    )
    parser.add_argument(
        "--node", type=int, default=0, metavar="N", help="which node (default: 0, the head)"
    )


def split_path(text: str) -> tuple[str, str]:
    """Return the local and the remote folder.

    Raises
    ------
    UsageError
        If either is empty.

    Examples
    --------
    >>> split_path("runs"), split_path("runs:~/out"), split_path("C:/runs:/data")
    (('runs', ''), ('runs', '~/out'), ('C:/runs', '/data'))
    """
    # Except on Windows, x:/y means the folder x and a remote path, unless another colon follows.
    drive = _DRIVE.match(text) if os.name == "nt" or text.count(":") > 1 else None
    start = drive.end() if drive else 0
    here, colon, there = text[start:].partition(":")
    here = text[:start] + here
    if not here or (colon and not there):
        raise UsageError(
            f"%nbprov sync takes PATH or PATH:REMOTE, not {text!r}",
            hint="%nbprov sync dev results:~/out --pull",
        )
    return here, there


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Print what will be transferred, transfer it, and print the result.

    Raises
    ------
    SyncError
        If a folder is missing, a disk is full, or some files could not be transferred.
    UnusablePath
        If the local folder can be no path of this computer.
    Interrupted
        On Ctrl-C; the files that have arrived are complete.
    """
    from nbprov.machines.files.folder_sync import ended, remote_folder, summary, sync_folder
    from nbprov.remote.sync.options import SyncOptions
    from nbprov.remote.sync.plan import Direction

    here, there = split_path(arguments.path)
    there = remote_folder(here, there)
    direction = (
        Direction.PUSH if arguments.push else Direction.PULL if arguments.pull else Direction.BOTH
    )
    wanted = SyncOptions(
        local_path(here, Path.cwd(), "sync"),
        there,
        direction,
        arguments.delete,
        arguments.dry,
        keep_names=arguments.keep_names,
    )
    display = _SyncDisplay(
        lambda plan: summary(plan, here, there, arguments.name, dry=arguments.dry),
        f"{direction.value} {here}",
    )
    home = session().engine.home
    future = session().start_remote(
        arguments.name,
        lambda live: sync_folder(
            live, wanted, home, node=arguments.node, on_plan=display.plans.put, progress=display.at
        ),
        say=print_now,
    )
    try:
        while not future.done():
            display.show(TICK)
        display.show(0)
        done: SyncResult = future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise Interrupted(
            "interrupted; every file is complete, and the same command resumes the transfer:"
            f" %nbprov sync {arguments.name} …"
        ) from None
    display.finish()
    if not arguments.dry:
        say(f"  {ended(done)}")


class _SyncDisplay:
    """Prints the plan and the progress of a transfer that runs on the engine's thread."""

    def __init__(self, words: Any, doing: str) -> None:
        self.plans: queue.SimpleQueue[SyncPlan] = queue.SimpleQueue()
        self._words, self._doing = words, doing
        self._progress: ProgressLine | None = None
        self._total = self._sent = 0

    def at(self, sent: int) -> None:
        """Take the number of bytes that were sent; called on the engine's thread."""
        self._sent = sent

    def show(self, wait: float) -> None:
        """Print the summary once it is there, and update the line of progress."""
        try:
            plan = self.plans.get(timeout=wait) if wait else self.plans.get_nowait()
        except queue.Empty:
            self._step()
            return
        for line in self._words(plan):
            print_now(line)
        self._total = plan.bytes
        self._progress = ProgressLine(self._doing, self._total)

    def _step(self) -> None:
        if self._progress is not None:
            self._progress.at(min(self._sent, self._total))

    def finish(self) -> None:
        """Show the transfer as complete, because what was not sent did not need to be."""
        if self._sent:
            self._sent = self._total
            self._step()
