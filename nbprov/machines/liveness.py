"""Detect that a node has fallen silent during a long operation.

A silent node is told apart from one that is merely slow, or that refuses something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.live_cluster import Node, agent_of
from nbprov.remote.errors import SshError

T = TypeVar("T")

ASK_SECONDS: Seconds = 20.0
"""How long to wait for an answer, and at most between two questions.

Several questions fit into the shortest silence that counts.
"""

PAUSE: Seconds = 1.0
"""Pause between questions that fail at once."""

QUESTIONS = 6
"""Least number of questions within the silence that counts."""

_LINES = ("agent.lost", "agent.timeout", "agent.start-timeout", "sync.lost")


class NodeSilent(NbprovError):
    """A node has not answered for as long as the policy allows."""

    code = "outputs.silent"


def is_connection_error(error: BaseException) -> bool:
    """Return whether an error comes from the connection alone, without a word of the machine.

    Examples
    --------
    >>> is_connection_error(NbprovError("the connection broke", code="sync.lost"))
    True
    >>> is_connection_error(NbprovError("no such folder", code="sync.missing"))
    False
    """
    broke = isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, SshError) and error.may_pass
    )
    return broke or getattr(error, "code", "") in _LINES


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LivenessPolicy:
    """The rule by which a node counts as silent.

    Attributes
    ----------
    seconds
        How long a node may give no answer.
    is_theirs
        Called after that time: whether the machine is at fault, and not this computer's own
        connection. If it is not, the time starts anew.
    """

    seconds: Seconds
    is_theirs: Callable[[], Awaitable[bool]] = _always

    async def run(self, node: Node, work: Coroutine[Any, Any, T], moved: Callable[[], object]) -> T:
        """Run an operation on a node for as long as the node answers.

        Parameters
        ----------
        moved
            Returns a value that changes whenever something came from the node, which counts as an
            answer: a slow connection may be busy with it.

        Raises
        ------
        NodeSilent
            If the node does not answer any more; the operation is cancelled.
        """
        task, pause = asyncio.ensure_future(work), min(ASK_SECONDS, self.seconds / QUESTIONS)
        last, seen = time.monotonic(), moved()
        try:
            while not (await asyncio.wait({task}, timeout=pause))[0]:
                now = moved()
                if now != seen or await answered(node, pause):
                    last, seen = time.monotonic(), now
                elif time.monotonic() - last >= self.seconds:
                    if await self.is_theirs():
                        raise NodeSilent(f"no answer for {self.seconds:g} s")
                    last = time.monotonic()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def answered(node: Node, seconds: Seconds) -> bool:
    """Return whether a node's agent answers within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await agent_of(node).status()
    except (CloudError, NbprovError, TimeoutError, OSError):
        return False
    return True


async def wait_until_answered(node: Node) -> None:
    """Wait until a node answers.

    The caller bounds the wait: this runs inside `LivenessPolicy.run`.
    """
    while True:
        if await answered(node, ASK_SECONDS):
            return
        await asyncio.sleep(PAUSE)
