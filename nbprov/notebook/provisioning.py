"""The `%%provision` cell."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from nbprov.api import Cluster, Run, session
from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted, UsageError
from nbprov.model.money import format_usd
from nbprov.runtime.waiting import SLICE

from .arguments import key_values
from .panels import ClustersTable, LiveDisplay, PriceTable, RunPanel, host
from .shown import Line, keep_up_to_date, say_remarks, show


def provision_cell(shell: Any, arguments: argparse.Namespace, text: str, *, hedge: Seconds) -> Any:
    """Plan the cell's spec, show the panel, and launch where that was agreed to.

    Returns None: the panel is the output, and the handle is the variable named like the cluster.
    """
    interactive = host.is_interactive() and hasattr(shell, "kernel")
    result = session().provision(
        text,
        arguments.name,
        race=arguments.race,
        hedge=hedge,
        env=key_values(arguments.env, "%%provision"),
        ignore=arguments.ignore,
        ask=_prompt if interactive else _nobody,
    )
    if isinstance(result, Cluster):
        _show_existing(shell, result)
        return
    run = result
    say_remarks(run.spec)
    if arguments.dry_run:
        show(PriceTable(run.plan, title=f"plan of {run.name}; nothing is created", now=time.time()))
        return
    run.on_interrupt = arguments.on_interrupt
    shell.user_ns[_variable(run.name)] = run
    if run.plan.chosen is None:
        raise run.unavailable()
    display = _show_run(run)
    if arguments.yes or not interactive:
        run.launch()
    if arguments.wait or not interactive:
        _wait(run, display)


def _variable(name: str) -> str:
    return name if name.isidentifier() else "".join(c if c.isalnum() else "_" for c in name)


def _nobody(name: str, hidden: bool) -> str | None:
    return None


def _prompt(name: str, hidden: bool) -> str | None:
    from getpass import getpass

    return getpass(f"{name}: ") if hidden else input(f"{name}: ")


def _show_existing(shell: Any, cluster: Cluster) -> None:
    view = cluster.view()
    shell.user_ns[_variable(cluster.name)] = cluster
    print(f"{cluster.name} is {view.state.value} and fits: nothing was launched")
    show(cluster_table([view]))


def cluster_table(views: Any) -> ClustersTable:
    """A clusters table whose buttons act."""
    return ClustersTable(views, on_stop=_act("stop"), on_start=_act("start"), on_down=_act("down"))


def _act(verb: str) -> Callable[[str], None]:
    def act(name: str) -> None:
        getattr(session().cluster(name), verb)()

    return act


def _show_run(run: Run) -> LiveDisplay[Any]:
    panel = RunPanel(run.view(), on_launch=run.launch_soon, on_cancel=run.cancel, on_down=_act("down"))
    display: LiveDisplay[Any] = LiveDisplay(panel)
    display.show()
    engine = session().engine
    changed = keep_up_to_date(display, run.view, lambda: run.done and (run.settled_future.done() or not run.launched), engine.publisher)
    # The engine tells of the cluster's later life as well, so that a panel shows that its machine has ended.
    engine.subscribe(changed)
    run.settled_future.add_done_callback(lambda _: changed())
    for line in display.take_lines():
        print(line)
    return display


def _wait(run: Run, display: LiveDisplay[Any]) -> None:
    """Block until the run is set up, printing what changes where no panel shows it."""
    try:
        if not run.launched:
            _wait_for_press(run)
        while not run.done:
            time.sleep(SLICE)
            _print_lines(display)
        display.update(run.view())
        _print_lines(display)
        run.wait()
    except KeyboardInterrupt:
        raise _interrupted(run) from None


def _wait_for_press(run: Run) -> None:
    from importlib.metadata import version

    if version("ipykernel").split(".")[0] == "6":
        raise UsageError(
            "with ipykernel 6 no button can be pressed while a cell runs",
            hint="%%provision --wait --yes launches at once; without --wait the cell returns and Launch can be pressed",
            code="run.cannot-press",
        )
    while not run.launched and not run.done:
        time.sleep(SLICE)


def _print_lines(display: LiveDisplay[Any]) -> None:
    for line in display.take_lines():
        print(line, flush=True)


def _interrupted(run: Run) -> Interrupted:
    error = run.interrupt()
    if run.on_interrupt == "cancel" and not run.settled_future.done():
        line = Line(error.message)

        def settled(_: Any) -> None:
            cost = session().engine.ledger.cost(run.run_id)
            line.renew(f"{run.name}: cancelled; everything is confirmed gone; it cost {format_usd(cost)}")

        run.settled_future.add_done_callback(settled)
        return Interrupted(f"interrupted: {run.name} is cancelled")
    return error
