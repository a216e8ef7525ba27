"""Whether a node still answers while something long is done with it: silence is told from a machine that is merely slow, or says no."""

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
"""How long an answer is waited for, and the pause between two questions at most: some questions fit into the shortest silence that counts."""

PAUSE: Seconds = 1.0
"""Between questions that are refused at once."""

QUESTIONS = 6
"""Asked in the time that a silence takes to count, at least."""

_LINES = ("agent.lost", "agent.timeout", "agent.start-timeout", "sync.lost")


class NodeSilent(NbprovError):
    """A node did not answer for as long as counts."""

    code = "outputs.silent"


def is_line(error: BaseException) -> bool:
    """Whether an error is one of the line alone, and the machine said nothing.

    Examples
    --------
    >>> is_line(NbprovError("the connection broke", code="sync.lost")), is_line(NbprovError("no such folder", code="sync.missing"))
    (True, False)
    """
    broke = isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, SshError) and error.may_pass
    )
    return broke or getattr(error, "code", "") in _LINES


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Answers:
    """How silence is judged.

    Attributes
    ----------
    seconds
        A node that is silent for so long counts as silent.
    is_theirs
        Asked then: whether it is the machine that is silent, and not this computer that is out of reach. If not, the count begins anew.
    """

    seconds: Seconds
    is_theirs: Callable[[], Awaitable[bool]] = _always

    async def heard(
        self, node: Node, work: Coroutine[Any, Any, T], moved: Callable[[], object]
    ) -> T:
        """Do something with a node for as long as it answers.

        Parameters
        ----------
        moved
            What changes whenever something came from the node, which is an answer too: a slow line may be full of it.

        Raises
        ------
        NodeSilent
            If it does not answer any more; then the work is broken off.
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
    """Whether the agent of a node answers in so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await agent_of(node).status()
    except (CloudError, NbprovError, TimeoutError, OSError):
        return False
    return True


async def until_answered(node: Node) -> None:
    """Wait until a node answers. Who calls it bounds the wait: it is for what `Answers.heard` does."""
    while True:
        if await answered(node, ASK_SECONDS):
            return
        await asyncio.sleep(PAUSE)
