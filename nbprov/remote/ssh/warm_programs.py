"""Programs that wait on a machine for a moment after their work: the next who needs one is spared a start of Python there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds

if TYPE_CHECKING:
    import asyncssh

    from .connection import Connection

NOISE_BYTES = 2000
"""Kept of what a program says on its stderr: its last words."""


@dataclass(frozen=True, slots=True, eq=False)
class Spare:
    """A program that runs on a machine, and its channel.

    Attributes
    ----------
    noise
        Gathers the last words on its stderr, until that ends.
    """

    process: asyncssh.SSHClientProcess[bytes]
    noise: asyncio.Task[str]
    _stack: AsyncExitStack

    @classmethod
    async def start(cls, connection: Connection, command: str, window: int) -> Spare:
        """Run a command on a channel of its own, until `end` is called.

        Raises
        ------
        SshError
            If the connection does not carry it.
        """
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(connection.channel(command, window))
            noise = asyncio.create_task(_drain(process.stderr))
            stack.callback(noise.cancel)
            return cls(process, noise, stack.pop_all())

    async def end(self) -> None:
        """Close its channel, by which it ends."""
        await self._stack.aclose()


class Spares:
    """What waits at one connection, at most one of a kind, each for one at a time. Each ends by itself on the machine; nothing here is needed for that."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Spare, asyncio.Task[None]]] = {}

    def take(self, runs: str) -> Spare | None:
        """One that runs this and waits; None where there is none. It may have ended just now: who takes it must be ready to start another."""
        spare, watch = self._waiting.pop(runs, (None, None))
        if watch is not None:
            watch.cancel()
        return spare

    async def put(self, runs: str, spare: Spare, stays: Seconds) -> None:
        """Let one wait, which ends on the machine after so many seconds."""
        if runs in self._waiting:
            await spare.end()
        else:
            self._waiting[runs] = spare, asyncio.create_task(self._watch(runs, spare, stays))

    async def drop(self) -> None:
        """End all that wait."""
        spares = [spare for runs in tuple(self._waiting) if (spare := self.take(runs)) is not None]
        await asyncio.gather(*(spare.end() for spare in spares))

    async def _watch(self, runs: str, spare: Spare, stays: Seconds) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(stays):
                await spare.process.wait_closed()
        del self._waiting[runs]
        await spare.end()


async def _drain(stream: asyncssh.SSHReader[bytes]) -> str:
    import asyncssh

    kept = b""
    with suppress(OSError, asyncssh.Error):
        while data := await stream.read(NOISE_BYTES):
            kept = (kept + data)[-NOISE_BYTES:]
    return kept.decode("utf-8", "replace")


__all__ = ["Spare", "Spares"]
