"""Programs that wait on a machine for a moment after their work.

Whoever needs such a program next is spared a start of Python there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds

if TYPE_CHECKING:
    import asyncssh

    OpenChannel = Callable[
        [str, int], AbstractAsyncContextManager[asyncssh.SSHClientProcess[bytes]]
    ]

STDERR_BYTES = 2000
"""Kept of a program's stderr: its last words."""


@dataclass(frozen=True, slots=True, eq=False)
class WarmProgram:
    """A program that runs on a machine, and its channel.

    Attributes
    ----------
    stderr_tail
        Ends with the program's stderr, and returns the end of it.
    """

    process: asyncssh.SSHClientProcess[bytes]
    stderr_tail: asyncio.Task[str]
    _stack: AsyncExitStack

    @classmethod
    async def start(cls, open_channel: OpenChannel, command: str, window: int) -> WarmProgram:
        """Run a command on a channel of its own, until `end` is called.

        Parameters
        ----------
        open_channel
            `Connection.channel` of the connection to use.

        Raises
        ------
        SshError
            If the connection does not carry it.
        """
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(open_channel(command, window))
            stderr_tail = asyncio.create_task(_drain(process.stderr))
            stack.callback(stderr_tail.cancel)
            return cls(process, stderr_tail, stack.pop_all())

    async def end(self) -> None:
        """Close the channel, which ends the program."""
        await self._stack.aclose()


class WarmPrograms:
    """The programs that wait at one connection, at most one for each command.

    Each serves one caller at a time. It ends by itself on the machine, whatever happens here.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[WarmProgram, asyncio.Task[None]]] = {}

    def take(self, command: str) -> WarmProgram | None:
        """Return a waiting program that runs this command, or None.

        It may have ended just now: the caller must be ready to start another.
        """
        program, watch = self._waiting.pop(command, (None, None))
        if watch is not None:
            watch.cancel()
        return program

    async def put(self, command: str, program: WarmProgram, stays: Seconds) -> None:
        """Let a program wait, which ends on the machine after `stays` seconds."""
        if command in self._waiting:
            await program.end()
        else:
            watch = asyncio.create_task(self._watch(command, program, stays))
            self._waiting[command] = program, watch

    async def drop(self) -> None:
        """End all programs that wait."""
        commands = tuple(self._waiting)
        programs = [found for command in commands if (found := self.take(command)) is not None]
        await asyncio.gather(*(program.end() for program in programs))

    async def _watch(self, command: str, program: WarmProgram, stays: Seconds) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(stays):
                await program.process.wait_closed()
        del self._waiting[command]
        await program.end()


async def _drain(stream: asyncssh.SSHReader[bytes]) -> str:
    import asyncssh

    kept = b""
    with suppress(OSError, asyncssh.Error):
        while data := await stream.read(STDERR_BYTES):
            kept = (kept + data)[-STDERR_BYTES:]
    return kept.decode("utf-8", "replace")
