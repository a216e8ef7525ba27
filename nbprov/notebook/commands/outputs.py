"""`%nbprov outputs`, and what `down` and `stop` show of the outputs that are pulled first."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from nbprov.api import Done, session
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.panels.displays import Line, say
from nbprov.notebook.panels.progress_line import PAUSE, SHOWN_FROM

if TYPE_CHECKING:
    from nbprov.machines.files.outputs import Taking

TICK = 0.05
"""Seconds between two looks for what is to be shown, or an interrupt."""


def arguments(parser: MagicParser) -> None:
    """The line of `%nbprov outputs`."""
    parser.add_argument("name", help="the cluster")


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Pull the outputs of a cluster now; the machine goes on.

    Raises
    ------
    OutputsNotPulled
        If some could not be brought.
    Interrupted
        On Ctrl-C; the pull goes on.
    """
    from nbprov.api.giving import begin_pull

    here, name = session(), arguments.name
    row = here.engine.cluster(name)
    before = here.takings.view(row.cluster_id)
    future = begin_pull(here, row)
    showing = Showing(name, lambda: here.takings.view(row.cluster_id), before)
    try:
        while not future.done():
            showing.show()
            time.sleep(TICK)
        showing.finish()
        taking: Taking = future.result()
    except KeyboardInterrupt:
        raise Interrupted(
            f"the pull of the outputs of {name} goes on in the background; %clusters shows how far it is"
        ) from None
    say(f"{name}: outputs pulled, {taking.words()}")


class Showing:
    """Shows the pull of a cluster's outputs as it goes on: a line each output, and a line of progress that is renewed.

    Parameters
    ----------
    view
        The pull as it is now.
    before
        An earlier one, which is not shown again.
    """

    def __init__(self, name: str, view: Callable[[], Taking | None], before: Taking | None) -> None:
        self._name, self._view, self._before = name, view, before
        self._lines = self._sent = 0
        self._progress: Line | None = None
        self._next = 0.0

    def show(self, *, last: bool = False) -> None:
        """Print what is new."""
        now = self._view()
        if now is None or (now is self._before and not self._lines and now.is_over):
            return
        for line in now.lines[self._lines :]:
            say(line if line.startswith(" ") else f"{self._name}: {line}")
        self._lines = len(now.lines)
        if now.sent == self._sent or not now.total or (not last and time.monotonic() < self._next):
            return
        self._next, self._sent = time.monotonic() + PAUSE, now.sent
        text = f"outputs of {self._name}: {min(now.sent, now.total) / 1e6:,.0f} of {now.total / 1e6:,.0f} MB"
        if self._progress is not None:
            self._progress.renew(text)
        elif now.total > SHOWN_FROM:
            self._progress = Line(text)

    def finish(self) -> None:
        """Show the last of it."""
        self.show(last=True)


def followed(names: list[str], begin: Callable[[str], Done]) -> list[tuple[str, Done, Showing]]:
    """Begin something with each cluster, and what shows the pulls that come before it."""
    here, begun = session(), []
    for name in names:
        row = here.engine.ledger.clusters.named(name)
        key = row.cluster_id if row is not None else ""
        before = here.takings.view(key)
        try:
            done = begin(name)
        except NbprovError as error:
            if len(names) == 1:
                raise
            # The others are on the bill all the same: one wrong name keeps none of them from being asked.
            failed: Future[None] = Future()
            failed.set_exception(error)
            done = Done(failed, name)
        begun.append((name, done, Showing(name, lambda key=key: here.takings.view(key), before)))  # type: ignore[misc]
    return begun


def wait_showing(done: Done, showings: list[Showing]) -> None:
    """Wait for an end, and show the pulls meanwhile. Raises as `Done.wait`."""
    try:
        while not done.done:
            for showing in showings:
                showing.show()
            time.sleep(TICK)
        for showing in showings:
            showing.show()
    except KeyboardInterrupt:
        raise Interrupted(
            f"{done.what} goes on in the background; %clusters shows how far it is"
        ) from None
    done.wait()


__all__ = ["Showing", "arguments", "followed", "run", "wait_showing"]
