"""Show a run in its live panel, and wait for it."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Hashable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from nbprov.api import Cluster, Run, session
from nbprov.clouds import registry
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, RunState, RunView
from nbprov.model.errors import UsageError
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.displays import show
from nbprov.notebook.panels.live_display import LiveDisplay
from nbprov.notebook.panels.run_panel import Opening, RunPanel
from nbprov.notebook.rendering.tables import safe_text
from nbprov.notebook.terminal import say
from nbprov.runtime.waiting import SLICE
from nbprov.runtime.worker_pool import WorkerPool

from .handle_variable import store_handle
from .subjects import RUN, run_stage

if TYPE_CHECKING:
    from nbprov.planning import Relaxation

_workers = WorkerPool("launch again")
"""Planning may take seconds, and buttons wait for nothing."""

WAIT_SECONDS: Seconds = 3600.0
"""How long a launch that is told to wait for stock does so, as its button says."""

MOST_OPENINGS = 4
"""So many changes that open more places are shown, the cheapest first."""


class RunDisplay:
    """The panel of a run, which goes on with the next run where it is launched again.

    Parameters
    ----------
    renew
        Called with what is launched again, so that the handle's variable follows.
    """

    def __init__(self, run: Run, renew: Callable[[Run | Cluster], None]) -> None:
        self._run, self._renew = run, renew
        self._actions = PanelActions()
        self._found: dict[str, Relaxation] = {}
        self._is_planning = False
        self._panel = RunPanel(
            run.view(),
            on_launch=lambda: self._run.launch_soon(),
            on_cancel=lambda: self._run.cancel(),
            on_again=None if run.replaces else self._launch_again,
            on_wait=None if run.replaces else lambda: self._launch_again(WAIT_SECONDS),
            on_widen=None if run.replaces else self._widen,
            on_longer=self._wait_longer,
            on_try=lambda: self._run.try_now(),
            on_down=self._actions.down,
            on_stop=self._actions.stop,
            ssh=self._actions.ssh,
            on_console=self._actions.console,
            on_prefer=self._prefer,
        )
        self._actions.panel = self._panel
        self._panel.subject = f"{RUN}:{run.run_id}"
        self.display: LiveDisplay[Any] = show(self._panel)
        self._follower = self._follow()

    def _follow(self) -> DisplayFollower:
        run = self._run
        follower = DisplayFollower(
            self.display,
            run.view,
            lambda view: _stage(run, view),
            lambda view: _is_over(run, view),
            session().engine,
        )
        run.settled_future.add_done_callback(lambda _: self._is_settled(run, follower))
        if run.plan is not self._panel.view.plan:
            # The plan was reordered after the panel was drawn and before the follower listened.
            follower.changed()
        return follower

    def _is_settled(self, run: Run, follower: DisplayFollower) -> None:
        follower.changed()
        if run.state is RunState.FAILED and self.display.where is frontend.Frontend.WIDGETS:
            future = _workers.submit(lambda: session().relax(run.spec))
            future.add_done_callback(lambda _: self._show_openings(run, future))

    def _show_openings(
        self, run: Run, found: concurrent.futures.Future[tuple[Relaxation, ...]]
    ) -> None:
        if found.exception() is not None or run is not self._run:
            return  # nothing more is known; `%nbprov plan --relax` says why
        shown = [one for one in found.result() if one.offers][:MOST_OPENINGS]
        self._found = {one.words(): one for one in shown}
        self._panel.openings = tuple(map(opening_of, shown))
        self.display.update(run.view())

    def _widen(self, words: str) -> None:
        if words in self._found:
            self._launch_again(change=self._found[words])

    def _prefer(self, keys: tuple[tuple[str, ...], ...]) -> None:
        run = self._run
        future = _workers.submit(lambda: run.prefer(*keys))
        future.add_done_callback(self._report)

    def _wait_longer(self) -> None:
        run = self._run
        future = _workers.submit(lambda: run.wait_longer(WAIT_SECONDS))
        future.add_done_callback(self._report)

    def _report(self, future: concurrent.futures.Future[Any]) -> None:
        """Show why a press came to nothing; the panel itself shows what else came of it."""
        error = future.exception()
        if error is not None:
            self._actions.report(error)

    def _launch_again(self, wait: Seconds | None = None, change: Relaxation | None = None) -> None:
        if self._is_planning:
            return  # two presses are one intention
        self._is_planning = True
        earlier = self._run
        future = _workers.submit(
            lambda: session().provision_again(earlier, wait=wait, change=change)
        )
        future.add_done_callback(self._is_launched_again)

    def _is_launched_again(self, future: concurrent.futures.Future[Run | Cluster]) -> None:
        self._is_planning = False
        try:
            made = future.result()
        except Exception as error:
            self._actions.report(error)
            return
        self._renew(made)
        if isinstance(made, Cluster):
            self._actions.notice(f"{made.name} is there already: nothing was launched")
            return
        self._follower.stop()
        self._panel.openings = ()
        self._run, self._panel.subject = made, f"{RUN}:{made.run_id}"
        self.display.update(made.view())
        self.display.freeze()
        self._follower = self._follow()


def show_run(run: Run, shell: Any) -> LiveDisplay[Any]:
    """Show the run's panel and keep it up to date."""

    def renew(made: Run | Cluster) -> None:
        store_handle(shell, made, made.name)

    return RunDisplay(run, renew).display


def _stage(run: Run, view: RunView) -> Hashable | None:
    if run.launched and not run.done and view.state is not RunState.WAITING:
        return None
    return run_stage(view)


def _is_over(run: Run, view: RunView) -> bool:
    has_cluster = view.cluster is not None and view.cluster.state is not ClusterState.ENDED
    return run.done and not run.is_under_way and not has_cluster


def wait_for_run(run: Run, display: LiveDisplay[Any]) -> None:
    """Block until the run is set up, printing what changes where no panel shows it."""
    # Without widgets the kernel may end with this cell, so lost races are seen to their end too.
    is_live = display.where is frontend.Frontend.WIDGETS
    while not run.done or (run.is_under_way and not is_live):
        time.sleep(SLICE)
        _print_without_error(display)
    display.update(run.view())
    _print_without_error(display)
    run.wait()
    if run.replaces:
        say(f"{run.name} is now the new cluster; the old one is being terminated")


def _print_without_error(display: LiveDisplay[Any]) -> None:
    """Print what has changed, but not the final error, which the cell is about to raise."""
    lines = display.take_lines()
    error = [safe_text(line) for line in display.panel.view.error.splitlines() if line]
    if error and lines[-len(error) :] == error:
        lines = lines[: -len(error)]
    for line in lines:
        say(line, flush=True)


def wait_for_launch_button(run: Run) -> None:
    """Block until Launch is pressed.

    Raises
    ------
    UsageError
        On ipykernel 6, which handles no button while a cell runs.
    """
    if version("ipykernel").split(".")[0] == "6":
        raise UsageError(
            "with ipykernel 6 no button can be pressed while a cell runs",
            hint="%%provision --wait --yes launches at once; without --wait the cell returns and"
            " Launch can be pressed",
            code="run.cannot-press",
        )
    while not run.launched and not run.done:
        time.sleep(SLICE)


def set_up_cell(cloud: str) -> str:
    """Return a cell to paste that says how to set a cloud up, and checks that it is."""
    commands = [f"#   {command}" for command in registry.set_up(cloud)]
    head = ["# in a terminal:", *commands] if commands else []
    return "\n".join([*head, f"%nbprov check {cloud}"])


def opening_of(change: Relaxation) -> Opening:
    """Return how a panel offers a change: to press where it can be launched, and to paste."""
    if change.cloud:
        return Opening(change.words(), set_up_cell(change.cloud), "")
    text = change.change if change.is_yaml else ""
    return Opening(
        change.words(), text, "Clear and launch" if change.blocks else "Launch with this"
    )
