"""Show a run in its live panel, and wait for it."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from nbprov.api import Cluster, Run, session
from nbprov.api.launching.launch_views import launch_view
from nbprov.clouds import registry
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunView
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
from .shown_launch import ShownLaunch

if TYPE_CHECKING:
    from nbprov.planning import Relaxation

_workers = WorkerPool("launch again")
"""Planning may take seconds, and buttons wait for nothing."""

WAIT_SECONDS: Seconds = 3600.0
"""How long a launch that is told to wait for stock does so, as its button says."""

MOST_OPENINGS = 4
"""So many changes that open more places are shown, the cheapest first."""


class RunDisplay:
    """The panel of a launch, which goes on with the next one where it is launched again.

    Parameters
    ----------
    renew
        Called with what is launched again, so that the handle's variable follows.
    anchor
        The mark of the form of an earlier kernel that the panel goes on with; without one it is
        shown in the running cell.
    """

    def __init__(
        self, launch: ShownLaunch, renew: Callable[[Run | Cluster], None], anchor: str = ""
    ) -> None:
        self._launch, self._renew = launch, renew
        self._actions = PanelActions()
        self._found: dict[str, Relaxation] = {}
        self._is_planning, self._looked_for = False, ""
        can_repeat = launch.can_be_repeated
        self._panel = RunPanel(
            launch.view(),
            on_launch=lambda: self._launch.launch(),
            on_cancel=lambda: self._launch.cancel(),
            on_again=self._launch_again if can_repeat else None,
            on_wait=(lambda: self._launch_again(WAIT_SECONDS)) if can_repeat else None,
            on_widen=self._widen if can_repeat else None,
            on_longer=lambda: self._begin(lambda one: one.wait_longer(WAIT_SECONDS)),
            on_try=lambda: self._launch.try_now(),
            on_down=self._actions.down,
            on_stop=self._actions.stop,
            ssh=self._actions.ssh,
            on_console=self._actions.console,
            on_prefer=lambda keys: self._begin(lambda one: one.prefer(keys)),
        )
        self._actions.panel = self._panel
        self._panel.subject = launch.subject
        self.display: LiveDisplay[Any] = self._shown(anchor)
        self._follower = self._follow()

    def _shown(self, anchor: str) -> LiveDisplay[Any]:
        if not anchor:
            return show(self._panel)
        self._panel.anchor = anchor
        display: LiveDisplay[Any] = LiveDisplay(self._panel)
        display.take_up()
        return display

    def _follow(self) -> DisplayFollower:
        launch, engine = self._launch, session().engine
        engine.thread.soon(engine.lifecycle.watch)
        follower = DisplayFollower(
            self.display, lambda: self._snapshot(launch), launch.stage, launch.is_over, engine
        )
        # The plan may have been reordered after the panel was drawn and before it is followed.
        follower.changed()
        return follower

    def _snapshot(self, launch: ShownLaunch) -> RunView:
        view = launch.view()
        if self._looked_for != launch.run_id and launch.lacks_places(view):
            self._looked_for = launch.run_id
            if self.display.where is frontend.Frontend.WIDGETS:
                future = _workers.submit(launch.openings)
                future.add_done_callback(lambda _: self._show_openings(launch, future))
        return view

    def _show_openings(
        self, launch: ShownLaunch, found: concurrent.futures.Future[tuple[Relaxation, ...]]
    ) -> None:
        if found.exception() is not None or launch is not self._launch:
            return  # nothing more is known; `%nbprov plan --relax` says why
        shown = [one for one in found.result() if one.offers][:MOST_OPENINGS]
        self._found = {one.words(): one for one in shown}
        self._panel.openings = tuple(map(opening_of, shown))
        self.display.update(launch.view())

    def _widen(self, words: str) -> None:
        if words in self._found:
            self._launch_again(change=self._found[words])

    def _begin(self, work: Callable[[ShownLaunch], None]) -> None:
        """Do what a press asks for, which may wait for the engine's thread."""
        launch = self._launch
        future = _workers.submit(lambda: work(launch))
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
        earlier = self._launch
        future = _workers.submit(lambda: earlier.again(wait, change))
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
        self._launch = ShownLaunch(made.run_id, made)
        self._panel.subject = self._launch.subject
        self.display.update(made.view())
        self.display.freeze()
        self._follower = self._follow()


def show_run(run: Run, shell: Any) -> LiveDisplay[Any]:
    """Show the run's panel and keep it up to date."""
    return RunDisplay(ShownLaunch(run.run_id, run), _renewing(shell)).display


def follow_launch(run_id: str, anchor: str) -> LiveDisplay[Any] | None:
    """Go on with the panel of an earlier kernel; None where its launch is not known here."""
    here = session()
    if launch_view(here.context, here.services, run_id) is None:
        return None
    return RunDisplay(ShownLaunch(run_id), _renewing(frontend.shell()), anchor).display


def _renewing(shell: Any) -> Callable[[Run | Cluster], None]:
    return lambda made: store_handle(shell, made, made.name)


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
