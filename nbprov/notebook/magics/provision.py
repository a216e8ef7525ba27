"""The `%%provision` cell: plan the spec, show the panel, launch and wait."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from nbprov.api import Cluster, Run, session
from nbprov.api.services.stock import LAUNCH_GRACE
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import Interrupted
from nbprov.notebook.arguments import environment
from nbprov.notebook.panels import frontend
from nbprov.notebook.panels.displays import show
from nbprov.notebook.panels.output_line import print_now
from nbprov.notebook.panels.provision_form import ProvisionForm
from nbprov.notebook.terminal import say
from nbprov.remote.agent.messages import plain_environment

from .clusters import show_cluster
from .consent import ask_for_consent, launch_with_consent, require_consent
from .handle_variable import store_handle
from .interrupts import interrupt_run
from .plan_table import TRY_RELAX, show_plan
from .run_display import show_run, wait_for_launch_button, wait_for_run
from .setup_display import follow_setup
from .spec_cell import can_ask, read_cell, value_prompt


def provision_cell(shell: Any, arguments: argparse.Namespace, text: str, *, hedge: Seconds) -> None:
    """Plan the cell's spec, show the panel, and launch where that was agreed to.

    A cell without a spec shows a form that writes one, if somebody is there to fill it in.

    The panel is the cell's output. The handle is stored in the variable named like the cluster,
    however the cell ends.
    """
    here = session()
    if not text.strip() and can_ask(shell):
        show(ProvisionForm(list(here.prices("", fuzzy=True).accelerators())))
        return
    env = plain_environment(environment(arguments.env, "%%provision"))
    spec = read_cell(here, shell, text, ignore=arguments.ignore, given=env)
    if arguments.on_setup_failure:
        spec = replace(spec, on_setup_failure=arguments.on_setup_failure)
    if arguments.race is not None:
        spec = replace(spec, race=spec.race.widened(arguments.race, hedge=hedge))
    if arguments.dry_run:
        title = f"plan of {here.name_of(spec, arguments.name)}; nothing is created"
        plan = show_plan(
            here,
            spec,
            title,
            agreed=arguments.yes,
            name=arguments.name,
            outputs_to=arguments.outputs_to,
            env=env,
        )
        if plan.chosen is None:
            say(TRY_RELAX)
        return
    result = here.provision(
        spec,
        arguments.name,
        agreed=arguments.yes,
        env=env,
        ask=value_prompt(shell),
        say=print_now,
        replace=arguments.replace,
        outputs_to=arguments.outputs_to,
    )
    # A run that replaces a cluster has another name until it takes over, so the name is asked for.
    store_handle(shell, result, here.name_of(spec, arguments.name))
    if isinstance(result, Cluster):
        _show_existing(result, wait=arguments.wait)
        return
    try:
        _launch(shell, result, arguments)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise interrupt_run(result) from None


def _launch(shell: Any, run: Run, arguments: argparse.Namespace) -> None:
    if run.state is RunState.READY:
        say(f"{run.name} is running and is already being set up; this panel follows it")
    elif run.state is RunState.WAITING:
        say(f"{run.name} is already waiting for stock; this panel follows it")
    elif run.is_under_way:
        say(f"{run.name} is already being launched; this panel follows it")
    else:
        run.on_interrupt = arguments.on_interrupt
    if run.error is not None:
        raise run.error
    if frontend.current() is frontend.Frontend.WIDGETS:
        _launch_with_buttons(shell, run, arguments)
    else:
        _launch_and_wait(shell, run, arguments)


def _launch_with_buttons(shell: Any, run: Run, arguments: argparse.Namespace) -> None:
    # The panel is shown at once. Stock reports fill in later, and then reorder the places.
    display = show_run(run, shell)
    if arguments.yes:
        session().stock_order.order(run, LAUNCH_GRACE)
        launch_with_consent(run)
    if arguments.wait:
        if not run.launched:
            wait_for_launch_button(run)
        wait_for_run(run, display)


def _launch_and_wait(shell: Any, run: Run, arguments: argparse.Namespace) -> None:
    """Launch without buttons, and wait, because the kernel may end with this cell."""
    is_asked = can_ask(shell) and not arguments.yes
    session().stock_order.order(run, STOCK_SECONDS if is_asked else LAUNCH_GRACE)
    if can_ask(shell):
        display = show_run(run, shell)
        if arguments.yes:
            launch_with_consent(run)
        elif not (run.launched or ask_for_consent(run)):
            return
        run.launch()
    else:
        # Launched before it is shown, because nobody can act on a panel that waits for Launch.
        if not run.launched and not arguments.yes:
            require_consent(run)
        if arguments.yes:
            launch_with_consent(run)
        run.launch()
        display = show_run(run, shell)
    wait_for_run(run, display)


def _show_existing(cluster: Cluster, *, wait: bool) -> None:
    view = cluster.view()
    if cluster.was_started:
        say(f"{cluster.name} was stopped and fits: it is started again")
        for line in cluster.restored():
            say(f"  {line}")
    elif cluster.setting_up is None:
        say(f"{cluster.name} is {view.state.value} and fits: nothing was launched")
    for remark in cluster.remarks:
        say(remark)
    show_cluster(cluster.cluster_id)
    if cluster.setting_up is not None:
        is_live = frontend.current() is frontend.Frontend.WIDGETS
        follow_setup(cluster.name, cluster.setting_up, wait=wait or not is_live)
