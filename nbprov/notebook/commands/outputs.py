"""`%nbprov outputs`, and the progress that `down` and `stop` show while they fetch outputs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from nbprov.api import Operation, session
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.panels.output_line import OutputLine, print_now
from nbprov.notebook.panels.progress_line import PAUSE, SHOWN_FROM

if TYPE_CHECKING:
    from nbprov.machines.files.outputs import OutputPull

TICK = 0.05
"""Seconds between two checks for progress or an interrupt."""


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov outputs`."""
    parser.add_argument("name", help="the cluster")
    parser.add_argument(
        "--keep-names",
        action="store_true",
        help="also give files their own names whose ending is not one of data",
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Fetch the outputs of a cluster now; the machine keeps running.

    Raises
    ------
    OutputsNotPulled
        If some could not be fetched.
    Interrupted
        On Ctrl-C; the outputs are still fetched in the background.
    """
    here, name = session(), arguments.name
    row = here.engine.cluster(name)
    before = here.services.outputs.view(row.cluster_id)
    future = here.services.outputs.begin_pull(row, keep_names=arguments.keep_names)
    showing = OutputsProgress(name, lambda: here.services.outputs.view(row.cluster_id), before)
    try:
        while not future.done():
            showing.show()
            time.sleep(TICK)
        showing.finish()
        taking: OutputPull = future.result()
    except KeyboardInterrupt:
        raise Interrupted(
            f"the outputs of {name} are still being fetched in the background;"
            " %clusters shows the progress"
        ) from None
    print_now(f"{name}: outputs fetched, {taking.words()}")


class OutputsProgress:
    """Shows how a cluster's outputs are fetched: a line for each one, and a line of progress.

    Parameters
    ----------
    view
        Returns the current state of the transfer.
    before
        The state of an earlier transfer, which is not shown again.
    """

    def __init__(
        self, name: str, view: Callable[[], OutputPull | None], before: OutputPull | None
    ) -> None:
        self._name, self._view, self._before = name, view, before
        self._lines = self._sent = 0
        self._progress: OutputLine | None = None
        self._next = 0.0

    def show(self, *, last: bool = False) -> None:
        """Print what is new, and update the line of progress."""
        now = self._view()
        if now is None or (now is self._before and not self._lines and now.is_over):
            return
        for line in now.lines[self._lines :]:
            print_now(line if line.startswith(" ") else f"{self._name}: {line}")
        self._lines = len(now.lines)
        if now.sent == self._sent or not now.total or (not last and time.monotonic() < self._next):
            return
        self._next, self._sent = time.monotonic() + PAUSE, now.sent
        done, total = min(now.sent, now.total) / 1e6, now.total / 1e6
        text = f"outputs of {self._name}: {done:,.0f} of {total:,.0f} MB"
        if self._progress is not None:
            self._progress.replace(text)
        elif now.total > SHOWN_FROM:
            self._progress = OutputLine(text)

    def finish(self) -> None:
        """Show the final state."""
        self.show(last=True)


def begin_with_outputs(
    names: list[str], begin: Callable[[str], Operation]
) -> list[tuple[str, Operation, OutputsProgress]]:
    """Begin an operation on each cluster, paired with the progress of its outputs."""
    here, begun = session(), []
    for name in names:
        row = here.engine.ledger.clusters.named(name)
        key = row.cluster_id if row is not None else ""
        before = here.services.outputs.view(key)
        try:
            done = begin(name)
        except NbprovError as error:
            if len(names) == 1:
                raise
            # The other clusters are billed meanwhile, so one wrong name does not stop them.
            failed: Future[None] = Future()
            failed.set_exception(error)
            done = Operation(failed, name)
        progress = OutputsProgress(name, partial(here.services.outputs.view, key), before)
        begun.append((name, done, progress))
    return begun


def wait_showing(done: Operation, displays: list[OutputsProgress]) -> None:
    """Wait for an operation, and show how the outputs are fetched meanwhile.

    Raises what the operation raises.
    """
    try:
        while not done.done:
            for display in displays:
                display.show()
            time.sleep(TICK)
        for display in displays:
            display.show()
    except KeyboardInterrupt:
        raise Interrupted(
            f"{done.what} goes on in the background; %clusters shows the progress"
        ) from None
    done.wait()
