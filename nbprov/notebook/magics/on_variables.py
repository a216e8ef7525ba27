"""`%%on -i a,b -o c`: copy variables to the machine before the cell, and back after it."""

from __future__ import annotations

import concurrent.futures
import io
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, UsageError
from nbprov.notebook.panels.output_line import print_now
from nbprov.notebook.panels.progress_line import ProgressLine
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.agent.framing import AgentError

from .variable_errors import (
    local_read_error,
    pack_error,
    plain_data_error,
    remote_read_error,
    transfer_error,
)

MOST_BYTES = 100_000_000
"""The most bytes that all variables of one direction take when packed."""

SHOWN_AFTER = 1.0
"""Seconds after which the progress of small variables is shown too."""
TICK = 0.05
"""Seconds between two checks for progress or an interrupt."""
SETTLE_SECONDS = 6.0
"""How long to wait until an interrupt has reached the machine."""
AGENT_PREFIX = "nbprov: "
"""The beginning of lines that the agent adds to a cell's output."""


def names_of(items: Sequence[str], flag: str) -> list[str]:
    """Return the names in `-i a,b -i c`, each once.

    Raises
    ------
    UsageError
        If one is not the name of a variable.
    """
    found = [name.strip() for item in items for name in item.split(",") if name.strip()]
    for name in found:
        if not name.isidentifier():
            raise UsageError(
                f"%%on {flag} takes names of variables, not {name!r}", hint="%%on dev -i a,b -o c"
            )
    return list(dict.fromkeys(found))


def pack_variables(
    namespace: Mapping[str, Any],
    names: Sequence[str],
    where: str,
    on_progress: Callable[[int], None] | None = None,
) -> memoryview:
    """Return variables packed for a machine. Their size is checked before they are copied.

    Raises
    ------
    VariableCopyError
        With the variable that is missing, too large or cannot be pickled, and the reason.
    """
    from nbprov.on_machine.pack_values import pack

    file = io.BytesIO()
    answer = pack(namespace, names, MOST_BYTES, False, file, on_progress)
    if "no" in answer:
        raise pack_error(answer, "here", MOST_BYTES)
    return file.getbuffer()


def send(name: str, namespace: Mapping[str, Any], names: Sequence[str]) -> None:
    """Copy variables to the machine. All of them arrive, or none.

    Raises
    ------
    VariableCopyError
        If one of them cannot be pickled here or unpickled there, or is too large.
    Interrupted
        On Ctrl-C.
    """
    from nbprov.machines.variables import transfer

    which = ", ".join(names)
    progress = ProgressLine(f"packing {which}", after=SHOWN_AFTER)
    limit = _RateLimit()
    try:
        data = pack_variables(
            namespace, names, name, lambda size: progress.at(size) if limit.is_due() else None
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; nothing was sent to {name}, and the cell did not run"
        ) from None
    copying = transfer.Copying()
    answer = _copy(
        name,
        copying,
        progress,
        which,
        lambda live, on_message: transfer.send(live, data, names, copying, on_message),
        f"the cell did not run on {name}",
    )
    if "no" in answer:
        raise remote_read_error(answer, names, name)


def fetch(
    name: str, namespace: dict[str, Any], names: Sequence[str], *, is_trusted: bool = False
) -> None:
    """Copy variables from the machine. All of them arrive, or none.

    Parameters
    ----------
    is_trusted
        Accept any object, whose code then runs here with this user's rights. Otherwise only plain
        data is accepted.

    Raises
    ------
    VariableCopyError
        If one of them is missing there, is not plain data, cannot be read here, or is too large.
    Interrupted
        On Ctrl-C.
    """
    from nbprov.machines.variables import transfer

    which, copying = ", ".join(names), transfer.Copying()
    progress = ProgressLine(f"fetching {which}", after=SHOWN_AFTER)
    now = (
        f"the cell ran, and {which} {'is' if len(names) == 1 else 'are'} still on {name}:"
        f" %%on {name} -o {','.join(names)} fetches again"
    )
    answer, parts = _copy(
        name,
        copying,
        progress,
        which,
        lambda live, on_message: transfer.fetch(
            live, names, MOST_BYTES, not is_trusted, copying, on_message
        ),
        now,
    )
    if "no" in answer:
        raise pack_error(answer, name, MOST_BYTES)
    try:
        found = {
            one: _unpacked(one, part, name, progress, is_trusted=is_trusted)
            for one, part in zip(names, parts, strict=True)
        }
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {now}") from None
    progress.at(copying.total, f"fetching {which}", copying.total)
    namespace.update(found)


def _unpacked(
    name: str, part: bytes, where: str, progress: ProgressLine, *, is_trusted: bool
) -> Any:
    """Return a variable built from plain data, or unpickled if the machine is trusted."""
    from nbprov.machines.variables.reporting_bytes import trusted_value
    from nbprov.machines.variables.restricted_unpickler import plain_value
    from nbprov.machines.variables.value_builders import NotPlain

    limit = _RateLimit()

    def told(size: int) -> None:
        if limit.is_due():
            progress.at(size, f"reading {name}", len(part))

    try:
        return trusted_value(part, told) if is_trusted else plain_value(part, told)
    except NotPlain as error:
        raise plain_data_error(name, error) from None
    except Exception as error:
        raise local_read_error(name, error, where) from None


class _RateLimit:
    """Lets one call through per `TICK`, so that progress is not drawn for every block."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + TICK
        return True


def _copy(
    name: str,
    copying: Any,
    progress: ProgressLine,
    which: str,
    work: Callable[[LiveCluster, Callable[[dict[str, Any]], None]], Any],
    now: str,
) -> Any:
    """Do a copy on the engine's thread, showing its progress and the agent's notices.

    Parameters
    ----------
    now
        The state of the cell and the variables, for the error if the copy fails.
    """
    notices: queue.SimpleQueue[str] = queue.SimpleQueue()

    def on_message(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream" and message["content"]["text"].startswith(AGENT_PREFIX):
            notices.put(message["content"]["text"].rstrip("\n"))

    def show() -> None:
        while not notices.empty():
            print_now(notices.get())
        progress.at(copying.done, copying.doing.format(which), copying.total)

    future: concurrent.futures.Future[Any] = session().start_remote(
        name, lambda live: work(live, on_message), say=print_now
    )
    try:
        while not concurrent.futures.wait([future], timeout=TICK).done:
            show()
    except KeyboardInterrupt:
        future.cancel()
        copying.settled.wait(SETTLE_SECONDS)
        raise Interrupted(f"interrupted; {now}") from None
    show()
    try:
        return future.result()
    except AgentError as error:
        raise transfer_error(error, name, now) from error
