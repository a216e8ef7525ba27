"""`%%on -i a,b -o c`: variables that go to the machine before the cell, and come back after it."""

from __future__ import annotations

import concurrent.futures
import io
import pickle
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbprov.api import session
from nbprov.model.errors import Interrupted, UsageError
from nbprov.notebook.panels.displays import say
from nbprov.notebook.panels.progress_line import Progress
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.remote.agent.framing import AgentError

from .variable_errors import not_carried, not_plain, not_sent, not_understood, unread_here

MOST_BYTES = 100_000_000
"""All variables of one direction together, packed."""

SHOWN_AFTER = 1.0
"""Seconds from which on it is said of smaller ones too."""
TICK = 0.05
"""Seconds between two looks for what is to be shown, or an interrupt."""
SETTLE_SECONDS = 6.0
"""How long after an interrupt to wait until it has reached the machine."""
SAID_BY_US = "nbprov: "
"""How lines begin that the agent puts into a cell's output."""


def names_of(items: Sequence[str], flag: str) -> list[str]:
    """The names in `-i a,b -i c`, each once.

    Raises
    ------
    UsageError
        If one is no variable's name.
    """
    found = [name.strip() for item in items for name in item.split(",") if name.strip()]
    for name in found:
        if not name.isidentifier():
            raise UsageError(
                f"%%on {flag} wants names of variables, not {name!r}", hint="%%on dev -i a,b -o c"
            )
    return list(dict.fromkeys(found))


def packed(
    namespace: Mapping[str, Any],
    names: Sequence[str],
    where: str,
    told: Callable[[int], None] | None = None,
) -> memoryview:
    """Variables as they go to a machine, weighed before they are copied.

    Raises
    ------
    CannotTravel
        Naming the variable that is missing, cannot be pickled or makes it too much, and why.
    """
    from nbprov.on_machine.pack_values import pack

    file = io.BytesIO()
    answer = pack(namespace, names, MOST_BYTES, False, file, told)
    if "no" in answer:
        raise not_sent(answer, "here", MOST_BYTES)
    return file.getbuffer()


def send(name: str, namespace: Mapping[str, Any], names: Sequence[str]) -> None:
    """Copy variables to the machine. All of them arrive, or none.

    Raises
    ------
    CannotTravel
        If one of them cannot be pickled here or unpickled there, or is too much.
    Interrupted
        On Ctrl-C.
    """
    from nbprov.machines.variables import transfer

    which = ", ".join(names)
    progress = Progress(f"packing {which}", after=SHOWN_AFTER)
    steps = _Steps()
    try:
        data = packed(
            namespace, names, name, lambda size: progress.at(size) if steps.is_due() else None
        )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; nothing was sent to {name}, and the cell was not run"
        ) from None
    copying = transfer.Copying()
    told = _carried(
        name,
        copying,
        progress,
        which,
        lambda live, hear: transfer.send(live, data, names, copying, hear),
        f"the cell was not run on {name}",
    )
    if "no" in told:
        raise not_understood(told, names, name)


def fetch(
    name: str, namespace: dict[str, Any], names: Sequence[str], *, is_trusted: bool = False
) -> None:
    """Copy variables from the machine. All of them arrive, or none.

    Parameters
    ----------
    is_trusted
        Take any object: what the machine sends then runs here with this user's rights. Otherwise only plain data is taken.

    Raises
    ------
    CannotTravel
        If one of them is missing there, is no plain data, cannot be read here, or is too much.
    Interrupted
        On Ctrl-C.
    """
    from nbprov.machines.variables import transfer

    which, copying = ", ".join(names), transfer.Copying()
    progress = Progress(f"fetching {which}", after=SHOWN_AFTER)
    now = f"the cell ran, and {which} {'is' if len(names) == 1 else 'are'} still on {name}: %%on {name} -o {','.join(names)} fetches again"
    told, parts = _carried(
        name,
        copying,
        progress,
        which,
        lambda live, hear: transfer.fetch(live, names, MOST_BYTES, not is_trusted, copying, hear),
        now,
    )
    if "no" in told:
        raise not_sent(told, name, MOST_BYTES)
    try:
        found = {
            one: _unpacked(one, part, name, progress, is_trusted=is_trusted)
            for one, part in zip(names, parts, strict=True)
        }
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {now}") from None
    progress.at(copying.total, f"fetching {which}", copying.total)
    namespace.update(found)


def _unpacked(name: str, part: bytes, where: str, progress: Progress, *, is_trusted: bool) -> Any:
    """A variable built from plain data; a machine that is trusted may say what is run instead."""
    from nbprov.machines.variables.restricted_unpickler import NotPlain, plain_value

    steps = _Steps()
    try:
        if is_trusted:
            return pickle.loads(part)
        return plain_value(
            part,
            lambda size: (
                progress.at(size, f"reading {name}", len(part)) if steps.is_due() else None
            ),
        )
    except NotPlain as error:
        raise not_plain(name, error) from None
    except Exception as error:
        raise unread_here(name, error, where) from None


class _Steps:
    """Lets a part of many calls through: what is shown of a count need not be shown of each."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + TICK
        return True


def _carried(
    name: str,
    copying: Any,
    progress: Progress,
    which: str,
    work: Callable[[LiveCluster, Callable[[dict[str, Any]], None]], Any],
    now: str,
) -> Any:
    """Do a copy on the engine's thread and show how far it is; what the machine has to say of its kernel is said as it comes.

    Parameters
    ----------
    now
        How things stand where it comes to nothing.
    """
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream" and message["content"]["text"].startswith(SAID_BY_US):
            heard.put(message["content"]["text"].rstrip("\n"))

    def show() -> None:
        while not heard.empty():
            say(heard.get())
        progress.at(copying.done, copying.doing.format(which), copying.total)

    future: concurrent.futures.Future[Any] = session().start_remote(
        name, lambda live: work(live, hear), say=say
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
        raise not_carried(error, name, now) from error
