"""The `%%on` cell: outputs of a machine in the cell that asked for them."""

from __future__ import annotations

import argparse
import queue
import sys
from typing import Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, UsageError

from .shown import say
from .travelling import cell_of, fetch, names_of, send

TICK = 0.05
"""Seconds between two looks for output or an interrupt."""


def run_cell(shell: Any, arguments: argparse.Namespace, text: str) -> None:
    """Run the cell on the cluster and publish what it puts out, as it comes; `-i` and `-o` copy variables there and back.

    Raises
    ------
    RemoteError
        If the code raised or the script ended with a code other than 0.
    CloudTrouble
        If the machine cannot be reached.
    CannotTravel
        If a variable of -i or -o cannot be copied.
    Interrupted
        On Ctrl-C, which interrupts the remote side too.
    """
    inputs, outputs = names_of(arguments.input, "-i"), names_of(arguments.output, "-o")
    if (inputs or outputs) and (arguments.bash or arguments.nodes != "head"):
        raise UsageError("variables travel with Python cells on the head alone", hint="leave --bash and --nodes out, or -i and -o")
    cell = cell_of(arguments.name)
    if inputs:
        send(cell, shell.user_ns, inputs)
    _run(shell, arguments, text)
    if outputs:
        fetch(cell, shell.user_ns, outputs)


def _run(shell: Any, arguments: argparse.Namespace, text: str) -> None:
    from nbprov.machines.cells import bash_cell, python_cell

    name = arguments.name
    run = bash_cell if arguments.bash else python_cell
    outputs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    future = session().start_remote(name, lambda live: run(live, text, nodes=arguments.nodes, on_output=outputs.put), say=say)
    try:
        while not future.done():
            _drain(shell, outputs, TICK)
        _drain(shell, outputs, 0)
        future.result()
    except KeyboardInterrupt:
        future.cancel()
        _drain(shell, outputs, 0)
        what = "the script there is ended" if arguments.bash else "its variables are still there"
        raise Interrupted(f"interrupted on {name}; {what}") from None


def _drain(shell: Any, outputs: queue.SimpleQueue[dict[str, Any]], wait: float) -> None:
    try:
        message = outputs.get(timeout=wait) if wait else outputs.get_nowait()
        while True:
            _publish(shell, message)
            message = outputs.get_nowait()
    except queue.Empty:
        return


def _publish(shell: Any, message: dict[str, Any]) -> None:
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        stream = sys.stderr if content["name"] == "stderr" else sys.stdout
        stream.write(content["text"])
        stream.flush()
    elif kind in ("display_data", "execute_result", "update_display_data"):
        shell.display_pub.publish(
            data=content["data"],
            metadata=content.get("metadata", {}),
            transient=content.get("transient", {}),
            update=kind == "update_display_data",
        )
    elif kind == "clear_output":
        shell.display_pub.clear_output(wait=content.get("wait", False))
