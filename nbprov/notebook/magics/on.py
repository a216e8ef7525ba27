"""The `%%on` cell: outputs of a machine in the cell that asked for them."""

from __future__ import annotations

import argparse
import concurrent.futures
import queue
import sys
import time
from collections.abc import Callable
from typing import Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.notebook.arguments import environment
from nbprov.notebook.panels.displays import say

from .cell_badge import show_badge
from .cluster_identity import same_cluster
from .on_variables import fetch, names_of, send

TICK = 0.05
"""Seconds between two looks for an interrupt."""

RESTART_SECONDS = 0.3
"""A restart of this kernel begins with the same interrupt as the stop button, and ends the kernel some milliseconds later. So the machine is told only after
this: a cell there is to survive a restart here."""

SETTLE_SECONDS = 6.0
"""How long after an interrupt to wait for what became of it: its delivery and the cell's last words take 4 s at most."""

MESSAGES = 400
"""Messages taken in one go, so that an interrupt is seen in a flood as well."""


def run_cell(shell: Any, arguments: argparse.Namespace, text: str) -> None:
    """Run the cell on the cluster and publish what it puts out, as it comes; `-i` and `-o` copy variables there and back.

    Raises
    ------
    RemoteCellError
        If the code raised or the script ended with a code other than 0.
    CloudTrouble
        If the machine cannot be reached.
    CannotTravel
        If a variable of -i or -o cannot be copied.
    OtherCluster
        If the name belongs to another cluster than when this kernel used it last.
    Interrupted
        On Ctrl-C, which interrupts the remote side too.
    """
    inputs, outputs = names_of(arguments.input, "-i"), names_of(arguments.output, "-o")
    if (inputs or outputs) and (arguments.bash or arguments.nodes != "head"):
        raise UsageError(
            "variables travel with Python cells on the head alone",
            hint="leave --bash and --nodes out, or -i and -o",
        )
    if arguments.trust and not outputs:
        raise UsageError(
            "--trust is about what comes back with -o", hint="%%on dev -o model --trust"
        )
    env = environment(arguments.env, "%%on")
    same_cluster(arguments.name)
    if inputs:
        send(arguments.name, shell.user_ns, inputs)
    _run(shell, arguments, text, env)
    if outputs:
        fetch(arguments.name, shell.user_ns, outputs, is_trusted=arguments.trust)


def _run(shell: Any, arguments: argparse.Namespace, text: str, env: dict[str, Any]) -> None:
    from nbprov.machines.cells.cells import RunningCell, bash_cell, python_cell
    from nbprov.notebook.commands.cells import remember

    run, name = (bash_cell if arguments.bash else python_cell), arguments.name
    underway = RunningCell("bash" if arguments.bash else "cell")
    remember(underway.id, text)
    outputs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    started = time.monotonic()
    future = session().start_remote(
        name,
        lambda live: run(
            live, text, nodes=arguments.nodes, on_output=outputs.put, env=env, underway=underway
        ),
        say=say,
    )
    how = ""
    try:
        follow(shell, future, outputs)
    except KeyboardInterrupt:
        how = "interrupted"
        raise Interrupted(_after_interrupt(shell, arguments, future, outputs, underway)) from None
    except NbprovError:
        how = "failed"
        raise
    finally:
        if underway.has_begun:
            show_badge(shell, name, time.monotonic() - started, nodes=arguments.nodes, how=how)


def follow(
    shell: Any,
    future: concurrent.futures.Future[Any],
    outputs: queue.SimpleQueue[dict[str, Any] | None],
) -> Any:
    """Publish what comes until the work is done; its result. Interruptible."""
    future.add_done_callback(lambda _: outputs.put(None))
    while not future.done():
        publish_waiting(shell, outputs, TICK)
    while publish_waiting(shell, outputs, 0):
        pass
    return future.result()


def _after_interrupt(
    shell: Any,
    arguments: argparse.Namespace,
    future: concurrent.futures.Future[Any],
    outputs: queue.SimpleQueue[dict[str, Any] | None],
    underway: Any,
) -> str:
    """Pass the interrupt on, unless this kernel itself is about to end; what became of it, in words."""
    name, look = arguments.name, f"%nbprov cells {arguments.name} {underway.id} --follow"
    wait_until(lambda: _is_ending(shell) or future.done(), RESTART_SECONDS)
    underway.is_left = _is_ending(shell)
    future.cancel()
    if underway.is_left:
        return f"this kernel ends; the cell on {name} goes on: {look}"
    wait_until(underway.settled.is_set, SETTLE_SECONDS)
    while publish_waiting(shell, outputs, 0):
        pass
    if underway.undelivered:
        return f"interrupted here, but the line to {name} is down: it is interrupted there once it is back, while this kernel runs; {look}"
    if underway.still_running or not underway.settled.is_set():
        return f"interrupted on {name}, but it has not ended yet: {look}"
    return f"interrupted on {name}; {'the script there is ended' if arguments.bash else 'its variables are still there'}"


def _is_ending(shell: Any) -> bool:
    # Only a kernel that shuts down sets this; in a terminal it is there and False while cells run.
    return bool(getattr(shell, "exit_now", False)) and hasattr(shell, "kernel")


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait for something that another thread brings about, for a while."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)


def publish_waiting(
    shell: Any, outputs: queue.SimpleQueue[dict[str, Any] | None], wait: float
) -> bool:
    """Publish what is there, texts in a row as one, since a page drops what comes as too many messages. False where nothing was."""
    waiting: list[dict[str, Any]] = []
    has_any = False
    try:
        message = outputs.get(timeout=wait) if wait else outputs.get_nowait()
        has_any = True
        while True:
            if message is not None:
                _add(waiting, message)
            if len(waiting) >= MESSAGES:
                break
            message = outputs.get_nowait()
    except queue.Empty:
        pass
    for message in waiting:
        _publish(shell, message)
    return has_any


def _add(waiting: list[dict[str, Any]], message: dict[str, Any]) -> None:
    last = waiting[-1] if waiting else None
    if (
        last is not None
        and last["msg_type"] == message["msg_type"] == "stream"
        and last["content"]["name"] == message["content"]["name"]
    ):
        waiting[-1] = {
            "msg_type": "stream",
            "content": {
                **last["content"],
                "text": last["content"]["text"] + message["content"]["text"],
            },
        }
    else:
        waiting.append(message)


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
    elif kind == "page":
        from IPython.core import page

        page.page(content["data"])
