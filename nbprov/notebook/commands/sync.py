"""`%nbprov sync`: a folder here and one on a machine, brought into step; what will move is said before it does."""

from __future__ import annotations

import argparse
import os
import queue
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.panels.displays import say
from nbprov.notebook.panels.progress_line import Progress

if TYPE_CHECKING:
    from nbprov.remote.sync.plan import SyncPlan
    from nbprov.remote.sync.sync import Synced

TICK = 0.05
"""Seconds between two looks for what is to be shown, or an interrupt."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def arguments(parser: MagicParser) -> None:
    """The line of `%nbprov sync`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument(
        "path",
        metavar="PATH[:REMOTE]",
        help="the folder here, and there: absolute or below its home (default: of the same name below its home)",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--push", action="store_true", help="make the folder there like the one here")
    way.add_argument(
        "--pull",
        action="store_true",
        help="make the folder here like the one there (default: both ways, conflicts left alone)",
    )
    parser.add_argument("--dry", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--delete",
        action="store_true",
        help="delete what the source does not have; both ways: what one side has lost",
    )
    parser.add_argument(
        "--node", type=int, default=0, metavar="N", help="which node (default: 0, the head)"
    )


def split_path(text: str) -> tuple[str, str]:
    """The folder here and the one there.

    Raises
    ------
    UsageError
        If either is empty.

    Examples
    --------
    >>> split_path("runs"), split_path("runs:~/out"), split_path("C:/runs:/data")
    (('runs', ''), ('runs', '~/out'), ('C:/runs', '/data'))
    """
    # Elsewhere than on Windows x:/y is the folder x and a place there, unless another colon follows.
    drive = _DRIVE.match(text) if os.name == "nt" or text.count(":") > 1 else None
    start = drive.end() if drive else 0
    here, colon, there = text[start:].partition(":")
    here = text[:start] + here
    if not here or (colon and not there):
        raise UsageError(
            f"%nbprov sync wants PATH or PATH:REMOTE, not {text!r}",
            hint="%nbprov sync dev results:~/out --pull",
        )
    return here, there


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Say what will move, move it, say what was moved.

    Raises
    ------
    SyncError
        If a folder is missing, a disk full, or some files could not be moved.
    Interrupted
        On Ctrl-C; whole files have arrived.
    """
    from nbprov.machines.files.folder_sync import ended, remote_folder, summary, sync_folder
    from nbprov.remote.sync.plan import Direction
    from nbprov.remote.sync.sync import Wanted

    here, there = split_path(arguments.path)
    there = remote_folder(here, there)
    direction = (
        Direction.PUSH if arguments.push else Direction.PULL if arguments.pull else Direction.BOTH
    )
    wanted = Wanted(
        Path(here).expanduser().absolute(), there, direction, arguments.delete, arguments.dry
    )
    showing = _Showing(
        lambda plan: summary(plan, here, there, arguments.name, dry=arguments.dry),
        f"{direction.value} {here}",
    )
    home = session().engine.home
    future = session().start_remote(
        arguments.name,
        lambda live: sync_folder(
            live, wanted, home, node=arguments.node, on_plan=showing.plans.put, progress=showing.at
        ),
        say=say,
    )
    try:
        while not future.done():
            showing.show(TICK)
        showing.show(0)
        done: Synced = future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise Interrupted(
            f"interrupted; every file is whole, and the same line goes on from here: %nbprov sync {arguments.name} …"
        ) from None
    showing.finish()
    if not arguments.dry:
        print(f"  {ended(done)}")


class _Showing:
    """Brings what the engine's thread tells to the cell."""

    def __init__(self, words: Any, doing: str) -> None:
        self.plans: queue.SimpleQueue[SyncPlan] = queue.SimpleQueue()
        self._words, self._doing = words, doing
        self._progress: Progress | None = None
        self._total = self._sent = 0

    def at(self, sent: int) -> None:
        """So many bytes have gone. From the engine's thread."""
        self._sent = sent

    def show(self, wait: float) -> None:
        """Print the summary when it is there, and renew the line of progress."""
        try:
            plan = self.plans.get(timeout=wait) if wait else self.plans.get_nowait()
        except queue.Empty:
            self._step()
            return
        for line in self._words(plan):
            say(line)
        self._total = plan.bytes
        self._progress = Progress(self._doing, self._total)

    def _step(self) -> None:
        if self._progress is not None:
            self._progress.at(min(self._sent, self._total))

    def finish(self) -> None:
        """Leave the line as it is at the end; what was not sent did not need to be."""
        if self._sent:
            self._sent = self._total
            self._step()
