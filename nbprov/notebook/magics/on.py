"""The `%%on` cell: run code on a cluster and show its output in the cell."""

from __future__ import annotations

import argparse
import concurrent.futures
import queue
import time
from collections.abc import Callable
from typing import Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.notebook.arguments import environment
from nbprov.notebook.cell_sources import remember_source
from nbprov.notebook.output_record import OutputRecord
from nbprov.notebook.panels.ended_cells import EndedCell
from nbprov.notebook.panels.output_line import print_now
from nbprov.notebook.panels.page_link import page_link
from nbprov.notebook.remote_output import OutputQueue, publish_until_done, publish_waiting

from .cell_badge import show_badge
from .cluster_identity import check_same_cluster
from .on_variables import fetch, names_of, send

RESTART_SECONDS = 0.3
"""A kernel restart begins with the same interrupt as the stop button and ends the kernel some
milliseconds later. The interrupt is passed on only after this time, so that a remote cell survives
a restart of this kernel."""

SETTLE_SECONDS = 6.0
"""How long to wait for the result of an interrupt. Its delivery and the last output of the cell
take at most 4 s."""


def run_cell(shell: Any, arguments: argparse.Namespace, text: str) -> None:
    """Run the cell on the cluster and publish its output as it comes.

    `-i` and `-o` copy variables there and back.

    Raises
    ------
    RemoteCellError
        If the code raised, or the script ended with an exit code other than 0.
    CloudTrouble
        If the machine cannot be reached.
    VariableCopyError
        If a variable of -i or -o cannot be copied.
    OtherCluster
        If the name belongs to another cluster than at this kernel's last cell there.
    Interrupted
        On Ctrl-C, which also interrupts the remote side.
    """
    inputs, outputs = names_of(arguments.input, "-i"), names_of(arguments.output, "-o")
    if (inputs or outputs) and (arguments.bash or arguments.nodes != "head"):
        raise UsageError(
            "-i and -o only work with Python cells on the head node",
            hint="leave out --bash and --nodes, or -i and -o",
        )
    if arguments.trust and not outputs:
        raise UsageError(
            "--trust only applies to variables that -o brings back",
            hint="%%on dev -o model --trust",
        )
    env = environment(arguments.env, "%%on")
    check_same_cluster(arguments.name)
    if inputs:
        send(arguments.name, shell.user_ns, inputs)
    _run(shell, arguments, text, env)
    if outputs:
        fetch(arguments.name, shell.user_ns, outputs, is_trusted=arguments.trust)


def _run(shell: Any, arguments: argparse.Namespace, text: str, env: dict[str, Any]) -> None:
    from nbprov.machines.cells.cells import RunningCell, bash_cell, python_cell

    run, name = (bash_cell if arguments.bash else python_cell), arguments.name
    underway = RunningCell("bash" if arguments.bash else "cell")
    remember_source(underway.id, text)
    outputs: OutputQueue = queue.SimpleQueue()
    started = time.monotonic()
    future = session().start_remote(
        name,
        lambda live: run(
            live, text, nodes=arguments.nodes, on_output=outputs.put, env=env, underway=underway
        ),
        say=print_now,
    )
    ending, why, record = "", "", OutputRecord()
    try:
        publish_until_done(shell, future, outputs, record)
    except KeyboardInterrupt:
        ending, why = "interrupted", _interrupt(shell, arguments, future, outputs, underway, record)
        raise Interrupted(why) from None
    except NbprovError as error:
        ending, why = "failed", str(error)
        raise
    finally:
        if underway.has_begun:
            seconds, mark = time.monotonic() - started, underway.id
            badge = show_badge(
                shell, name, seconds, mark=mark, nodes=arguments.nodes, ending=ending
            )
            if badge is not None:
                more = f"what it printed is on the machine: %nbprov cells {name} {mark}\n"
                kept = record.outputs if record.is_whole else [_stream("stdout", more)]
                _keep_for_pages(
                    shell, mark, [*kept, *([_stream("stderr", why)] if why else [])], badge
                )


def _stream(name: str, text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _keep_for_pages(
    shell: Any, mark: str, kept: list[dict[str, Any]], badge: dict[str, str]
) -> None:
    """Give the cell's outputs to a page that was closed meanwhile, where pages name cells."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    if cell := str((parent.get("metadata") or {}).get("cellId") or ""):
        shown = {"output_type": "display_data", "data": badge, "metadata": {}}
        page_link.cell_ended(EndedCell(cell, mark, (*kept, shown)))


def _interrupt(
    shell: Any,
    arguments: argparse.Namespace,
    future: concurrent.futures.Future[Any],
    outputs: OutputQueue,
    underway: Any,
    record: OutputRecord,
) -> str:
    """Pass an interrupt on, unless this kernel is about to end; return what happened."""
    name, follow = arguments.name, f"%nbprov cells {arguments.name} {underway.id} --follow"
    _wait_until(lambda: _is_ending(shell) or future.done(), RESTART_SECONDS)
    underway.is_left = _is_ending(shell)
    future.cancel()
    if underway.is_left:
        return f"this kernel is ending; the cell on {name} keeps running: {follow}"
    _wait_until(underway.settled.is_set, SETTLE_SECONDS)
    while publish_waiting(shell, outputs, 0, record=record):
        pass
    if underway.undelivered:
        return (
            f"interrupted here, but the connection to {name} is down: the cell there is"
            f" interrupted when the connection is back, if this kernel still runs; {follow}"
        )
    if underway.still_running or not underway.settled.is_set():
        return f"interrupted on {name}, but it has not ended yet: {follow}"
    if arguments.bash:
        return f"interrupted on {name}; the script there has ended"
    return f"interrupted on {name}; its variables are still there"


def _is_ending(shell: Any) -> bool:
    # Only a kernel that shuts down sets this. A terminal has it too, False while cells run.
    return bool(getattr(shell, "exit_now", False)) and hasattr(shell, "kernel")


def _wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
