"""Messages to and from the sync program on a machine, within bounds of size and time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.sync_protocol import MARKER, Frames, SyncFailure, message
from nbprov.on_machine.transfer_limit import TransferWatch

from .errors import MOST_WORDS, SyncError, shown

if TYPE_CHECKING:
    import asyncssh

STALL_SECONDS: Seconds = 60.0
"""For a message to come or to be taken, while no files move.

TCP has given up a lost packet by then, and sshd's keepalives end a dead connection after 45 s.
"""
LIST_SECONDS: Seconds = 600.0
"""To list a folder or to read one file.

A network disk lists 250,000 entries, or reads a file of 60 GB, in some minutes.
"""
MOST_GREETING = 64 * 1024
"""Bytes that a login script may print before the program answers."""
WRITTEN = 64 * 1024
"""Bytes written at once, so that those of a slow line are counted as they go."""
READ = 1024 * 1024
"""Bytes read at once where there are so many: each read costs two hops between threads."""


class FolderChannel:
    """The channel to a program that serves one folder; one question at a time.

    Nothing that the machine sends is believed unchecked: `expect` bounds its size.

    Parameters
    ----------
    watch
        Counts what moves, and bounds the time of a transfer.
    """

    def __init__(
        self, process: asyncssh.SSHClientProcess[bytes], host: str, watch: TransferWatch
    ) -> None:
        self._process, self._host, self.watch = process, host, watch
        self.frames = Frames()
        self._waiting: deque[Any] = deque()
        self._budget = 0
        self._patience: Seconds | None = STALL_SECONDS

    def expect(self, size: int, patience: Seconds | None) -> None:
        """Allow the machine to send `size` bytes next, each message within `patience`.

        Without a patience the watch alone says when it has taken too long.
        """
        self._budget, self._patience = size, patience

    async def pass_greeting(self) -> None:
        """Skip what a login script prints before the program's first message."""
        seen = b""
        try:
            async with asyncio.timeout(STALL_SECONDS):
                while (at := seen.find(MARKER)) < 0:
                    if len(seen) > MOST_GREETING:
                        raise SyncError("nbprov's program does not answer", code="sync.foul")
                    seen += await self.read()
        except TimeoutError:
            raise self._lost() from None
        self._waiting.extend(self.frames.feed(seen[at + len(MARKER) :]))

    async def write(self, data: bytes) -> None:
        """Send bytes.

        Raises
        ------
        SyncError
            The connection broke.
        """
        import asyncssh

        patience = None if self._patience is None else STALL_SECONDS
        for start in range(0, len(data), WRITTEN):
            piece = data[start : start + WRITTEN]
            try:
                async with asyncio.timeout(patience):
                    self._process.stdin.write(piece)
                    await self._process.stdin.drain()
            except (OSError, TimeoutError, asyncssh.Error):
                raise self._lost() from None
            self.watch.moved(len(piece))

    async def read(self) -> bytes:
        """Return the next bytes.

        Raises
        ------
        SyncError
            The connection broke.
        """
        import asyncssh

        try:
            async with asyncio.timeout(self._patience):
                data = await self._process.stdout.read(READ)
        except (OSError, TimeoutError, asyncssh.Error):
            raise self._lost() from None
        if not data:
            raise self._lost()
        self.watch.moved(len(data))
        return data

    def _lost(self) -> SyncError:
        return SyncError(
            f"the connection to {self._host} broke during a sync;"
            " whole files have arrived, nothing is half written",
            hint="run it again: it goes on from where it was",
            code="sync.lost",
        )

    async def next(self) -> dict[str, Any]:
        """Return the next message.

        Raises
        ------
        Trouble
            The machine reports a failure, or breaks the protocol.
        """
        try:
            # For the whole message, since one that comes byte by byte would take for ever.
            async with asyncio.timeout(self._patience):
                while not self._waiting:
                    data = await self.read()
                    self._budget -= len(data)
                    if self._budget < 0:
                        raise SyncFailure("foul", "the machine says more than it was asked")
                    self._waiting.extend(self.frames.feed(data))
        except TimeoutError:
            raise self._lost() from None
        frame = self._waiting.popleft()
        if not isinstance(frame, dict):
            raise SyncFailure("foul", "the machine sent what was not asked for")
        if "trouble" in frame:
            raise SyncFailure(str(frame["trouble"])[:20], shown(str(frame.get("why")), MOST_WORDS))
        return frame

    async def ask(self, ask: str, *, most: int = 1024 * 1024, **more: Any) -> dict[str, Any]:
        """Ask a question and return the first message of its answer."""
        self.expect(most, LIST_SECONDS)
        await self.write(message(ask=ask, **more))
        return await self.next()

    async def rest(self) -> bool:
        """Let the program wait for the next caller, which makes its own `FolderChannel`.

        Returns
        -------
        bool
            False if the program still has something to say, or has gone.
        """
        if self._waiting or self.frames.has_begun:
            return False
        self._patience = STALL_SECONDS
        try:
            await self.write(message(ask="rest"))
        except SyncError:
            return False
        return True
