"""A program of ours on a machine, sent as text over one ssh channel; messages go both ways."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.download import MARKER
from nbprov.on_machine.loader import program, reading_command
from nbprov.on_machine.sync_protocol import CHUNK, MOST_FRAME, Frames, SyncFailure, message
from nbprov.remote.sync.errors import MOST_WORDS, shown

if TYPE_CHECKING:
    import asyncssh

    from nbprov.remote.ssh.connection import Connection

ANSWER_SECONDS: Seconds = 60.0
"""For an answer that costs the machine no work."""
MOST_GREETING = 64 * 1024
"""Bytes that a login script may print before the program answers."""


class RemoteProgram:
    """The channel to a program. Nothing that the machine sends is believed unchecked."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], host: str) -> None:
        self._process, self._host = process, host
        self._frames, self._waiting = Frames(), deque[dict[str, Any]]()

    async def begin(self, modules: tuple[str, ...]) -> None:
        """Send the program, and wait for its first message."""
        await self._write(program(modules))
        seen = b""
        while (at := seen.find(MARKER)) < 0:
            if len(seen) > MOST_GREETING:
                raise SyncFailure("foul", "nbprov's program does not answer")
            seen += await self._read(ANSWER_SECONDS)
        self._feed(seen[at + len(MARKER) :])

    async def ask(self, question: dict[str, Any], patience: Seconds) -> dict[str, Any]:
        """Ask a question and return its answer; reports of progress are passed over."""
        await self.tell(**question)
        while "moved" in (answer := await self.next(patience)) and "stopped" not in answer:
            pass
        return answer

    async def tell(self, **content: Any) -> None:
        """Send a message."""
        await self._write(message(**content))

    async def next(self, patience: Seconds) -> dict[str, Any]:
        """Return the next message.

        Parameters
        ----------
        patience
            Seconds without a byte from the machine.

        Raises
        ------
        Trouble
            The machine reports a failure, breaks the protocol, is silent for too long, or the
            connection broke.
        """
        while not self._waiting:
            self._feed(await self._read(patience))
        answer = self._waiting.popleft()
        if "trouble" in answer:
            raise SyncFailure(
                str(answer["trouble"])[:20], shown(str(answer.get("why")), MOST_WORDS)
            )
        return answer

    def _feed(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if not isinstance(frame, dict) or len(self._waiting) > MOST_FRAME // 1024:
                raise SyncFailure("foul", "the machine sent what was not asked for")
            self._waiting.append(frame)

    async def _write(self, data: bytes) -> None:
        import asyncssh

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._process.stdin.write(data)
                await self._process.stdin.drain()
        except (OSError, TimeoutError, asyncssh.Error):
            raise SyncFailure("lost", f"the connection to {self._host} broke") from None

    async def _read(self, patience: Seconds) -> bytes:
        import asyncssh

        try:
            async with asyncio.timeout(patience):
                data = await self._process.stdout.read(CHUNK)
        except TimeoutError:
            raise SyncFailure("stalled", f"nothing has come for {patience:g} s") from None
        except (OSError, asyncssh.Error):
            data = b""
        if not data:
            raise SyncFailure(
                "lost", f"the connection to {self._host} broke, or the machine has no Python 3.8"
            )
        return data if isinstance(data, bytes) else data.encode()


@asynccontextmanager
async def open_program(
    connection: Connection, modules: tuple[str, ...], python: str = "python3"
) -> AsyncIterator[RemoteProgram]:
    """Run modules of `on_machine` on a machine; their program ends with the block."""
    async with connection.channel(reading_command(python, len(program(modules)))) as process:
        stderr = asyncio.create_task(_drain(process.stderr))
        try:
            remote = RemoteProgram(process, connection.host)
            await remote.begin(modules)
            yield remote
        finally:
            stderr.cancel()


async def _drain(stream: asyncssh.SSHReader[bytes]) -> None:
    import asyncssh

    # A channel whose stderr nobody reads comes to a halt.
    with suppress(OSError, asyncssh.Error):
        while await stream.read(CHUNK):
            pass
