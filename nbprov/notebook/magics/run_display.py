"""Show a run in its live panel, and wait for it."""

from __future__ import annotations

import time
from collections.abc import Hashable
from importlib.metadata import version
from typing import Any

from nbprov.api import Run, session
from nbprov.model.clusters import ClusterState, RunState, RunView
from nbprov.model.errors import UsageError
from nbprov.notebook.panels import LiveDisplay, RunPanel, frontend
from nbprov.notebook.panels.actions import PanelActions
from nbprov.notebook.panels.display_follower import DisplayFollower
from nbprov.notebook.panels.displays import show
from nbprov.notebook.rendering.tables import safe_text
from nbprov.notebook.terminal import say
from nbprov.runtime.waiting import SLICE

from .subjects import RUN, run_stage


def show_run(run: Run) -> LiveDisplay[Any]:
    """Show the run's panel and keep it up to date."""
    actions = PanelActions()
    panel = RunPanel(
        run.view(),
        on_launch=run.launch_soon,
        on_cancel=run.cancel,
        on_down=actions.down,
        on_stop=actions.stop,
        ssh=actions.ssh,
    )
    panel.subject = f"{RUN}:{run.run_id}"
    actions.panel = panel
    display: LiveDisplay[Any] = show(panel)
    follower = DisplayFollower(
        display,
        run.view,
        lambda view: _stage(run, view),
        lambda view: _is_over(run, view),
        session().engine,
    )
    run.settled_future.add_done_callback(lambda _: follower.changed())
    if run.plan is not panel.view.plan:
        # The plan was reordered after the panel was drawn and before the follower listened.
        follower.changed()
    return display


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
