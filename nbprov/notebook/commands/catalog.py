"""`%nbprov catalog`: show the state of the prices, refresh, compare or restore them."""

from __future__ import annotations

import argparse
import html
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbprov.api import session
from nbprov.catalog.refresh.status import Outcome
from nbprov.model.errors import UsageError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.panels import frontend
from nbprov.notebook.rendering.result_table import ResultTable
from nbprov.notebook.terminal import say

from .catalog_tables import differences_table, progress_lines, refresh_table, status_table

if TYPE_CHECKING:
    from nbprov.catalog import CloudInfo
    from nbprov.catalog.refresh import RefreshStep

ACTIONS = ("refresh", "diff", "accept", "restore", "path")


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov catalog`."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=ACTIONS,
        help="refresh, diff, accept (prices that moved by more than half), restore or path;"
        " without it, the state of the prices is shown",
    )
    parser.add_argument("clouds", nargs="*", metavar="CLOUD", help="only these clouds")
    parser.add_argument(
        "--source",
        choices=("auto", "hosted", "provider"),
        default="auto",
        help="refresh: from the provider itself (auto: where it can be asked), or the hosted v8"
        " files, which are not signed",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="refresh: also replace files that were edited by hand, and accept far fewer rows",
    )
    parser.add_argument(
        "--shipped",
        action="store_true",
        help="diff, restore: use the prices that came with this release",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=25,
        metavar="N",
        help="diff: the most rows to show (default: 25)",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> Any:
    """Do what the line asks for; a table is the cell's value."""
    return _ACTIONS[arguments.action](arguments)


def _status(arguments: argparse.Namespace) -> ResultTable:
    here = session()
    statuses = here.catalogue.status()
    catalog = here.catalog()
    held = set(catalog.clouds())

    def info(cloud: str) -> CloudInfo | None:
        return catalog.info(cloud) if cloud in held else None

    return status_table(statuses, info, time.time())


def _refresh(arguments: argparse.Namespace) -> ResultTable:
    progress = _RefreshDisplay()
    try:
        done = session().catalogue.refresh(
            arguments.clouds or None,
            source=arguments.source,
            force=arguments.force,
            watch=progress.watch,
            tick=progress.tick,
        )
    except BaseException:
        progress.end("ended early")
        raise
    progress.end(done.sentence())
    return refresh_table(done)


def _diff(arguments: argparse.Namespace) -> ResultTable:
    cloud = _at_most_one(arguments)
    against = "shipped" if arguments.shipped else "last"
    found = session().catalogue.diff(cloud, against=against)
    what = "against the shipped prices" if arguments.shipped else "by the last refresh"
    return differences_table(
        found, f"changes {f'of {cloud} ' if cloud else ''}{what}", max(0, arguments.rows)
    )


def _accept(arguments: argparse.Namespace) -> None:
    if not arguments.clouds:
        raise UsageError("accept needs the clouds by name", hint="%nbprov catalog accept gcp")
    for cloud in arguments.clouds:
        count = session().catalogue.accept(cloud)
        say(f"{cloud}: {count:,} moved prices accepted" if count else f"{cloud}: none moved")


def _restore(arguments: argparse.Namespace) -> None:
    done: dict[str, str] = {}
    for cloud in arguments.clouds or [""]:
        done |= session().catalogue.restore(cloud, to="shipped" if arguments.shipped else "last")
    for cloud, what in done.items():
        say(f"{cloud}: {what}")
    if not done:
        say("nothing to restore: no file was edited; name a cloud to restore its shipped prices")


def _path(arguments: argparse.Namespace) -> None:
    say(session().catalogue.path(_at_most_one(arguments)))


def _at_most_one(arguments: argparse.Namespace) -> str:
    if len(arguments.clouds) > 1:
        raise UsageError(
            f"%nbprov catalog {arguments.action} takes one cloud, or none for all",
            hint="run it once for each",
        )
    return arguments.clouds[0] if arguments.clouds else ""


_ACTIONS: dict[str | None, Callable[[argparse.Namespace], Any]] = {
    None: _status,
    "refresh": _refresh,
    "diff": _diff,
    "accept": _accept,
    "restore": _restore,
    "path": _path,
}


class _RefreshDisplay:
    """Shows a refresh: one output that is renewed, or a line per cloud where nobody watches."""

    def __init__(self) -> None:
        self._steps: dict[str, RefreshStep] = {}
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._is_live = frontend.current() is frontend.Frontend.WIDGETS
        self._is_over = False
        self._id = f"nbprov-{uuid.uuid4().hex}"
        if self._is_live:
            self._publish("fetching prices …", update=False)

    def watch(self, step: RefreshStep) -> None:
        """Take a step of the refresh. May be called from any thread."""
        with self._lock:
            self._steps[step.cloud] = step
        if self._is_live:
            session().engine.publisher.mark(self._id, self._send)

    def tick(self) -> None:
        """Print what is new; called in the cell's own thread while it waits."""
        if not self._is_live:
            for line in self._news():
                say(line, flush=True)

    def end(self, sentence: str) -> None:
        """Finish the display; the table or the error says the rest."""
        self.tick()
        if not self._is_live:
            return
        with self._lock:
            self._is_over = True
            self._publish(sentence, update=True)
        session().engine.publisher.forget(self._id)

    def _news(self) -> list[str]:
        with self._lock:
            over = {
                cloud: step
                for cloud, step in self._steps.items()
                if step.result is not None and cloud not in self._reported
            }
        self._reported |= over.keys()
        # That no cloud answers is reported once, at the end.
        return progress_lines(
            {
                c: s
                for c, s in over.items()
                if s.result is not None and s.result.outcome is not Outcome.OFFLINE
            }
        )

    def _send(self) -> None:
        # The lock keeps an update of the engine's thread from coming after the final one.
        with self._lock:
            if not self._is_over:
                self._publish("\n".join(progress_lines(self._steps)), update=True)

    def _publish(self, text: str, *, update: bool) -> None:
        shell = frontend.shell()
        if shell is None:
            return
        data = {
            "text/plain": text,
            "text/html": f'<pre style="margin:0;white-space:pre-wrap">{html.escape(text)}</pre>',
        }
        shell.display_pub.publish(
            data=data, metadata={}, transient={"display_id": self._id}, update=update
        )
