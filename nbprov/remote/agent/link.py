"""One channel to the agent: frames out, answers and followed output in. A link that broke stays broken; the client makes another."""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.remote.connection import Connection
from nbprov.remote.errors import RemoteError

if TYPE_CHECKING:
    import asyncssh

FRAME_LIMIT = 64 * 1024 * 1024
HELLO_SECONDS: Seconds = 15.0
"""From opening the channel to the agent's first frame: a Python start and a socket, on a machine that may still be busy booting."""
NOT_RUNNING = 3
"""Exit code of the bridge where no agent listens."""


class LinkLost(Exception):
    """The channel ended before the answer came."""


class AgentAbsent(Exception):
    """The machine answers, but no agent runs on it."""


class AgentError(RemoteError):
    """The agent refused what it was asked, or is no longer there."""

    code = "agent"


class Link:
    """An open channel, made by `Link.open`."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], stack: AsyncExitStack) -> None:
        self._process, self._stack = process, stack
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.follows: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self.hello: dict[str, Any] = {}
        self.is_up = True
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, connection: Connection, command: str) -> Link:
        """Run the bridge and wait for the agent's hello.

        Raises
        ------
        AgentAbsent
            If no agent runs there.
        LinkLost, SshError
            If the connection does not carry it.
        """
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(connection.channel(command))
            link = cls(process, stack)
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    frame = await link._read()
                    if frame is None:
                        await process.wait_closed()
            except TimeoutError:
                raise LinkLost("no hello from the agent in time") from None
            if frame is None:
                if process.returncode == NOT_RUNNING:
                    raise AgentAbsent
                raise LinkLost("the channel ended")
            link.hello = frame
            link._reader = asyncio.create_task(link._listen())
            link._stack = stack.pop_all()
            return link

    async def _read(self) -> dict[str, Any] | None:
        import asyncssh

        try:
            (size,) = struct.unpack(">I", await self._process.stdout.readexactly(4))
            if size > FRAME_LIMIT:
                return None
            frame: dict[str, Any] = json.loads(await self._process.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, OSError, asyncssh.Error, ValueError):
            return None
        return frame

    async def _listen(self) -> None:
        try:
            while (frame := await self._read()) is not None:
                if "re" in frame:
                    answer = self._answers.pop(frame["re"], None)
                    if answer is not None and not answer.done():
                        answer.set_result(frame)
                elif frame.get("ev") == "out" and (queue := self.follows.get(frame["follow"])) is not None:
                    queue.put_nowait(frame)
        finally:
            self._down()

    def _down(self) -> None:
        self.is_up = False
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LinkLost("the channel ended"))
                answer.exception()
        self._answers.clear()
        for queue in self.follows.values():
            queue.put_nowait(None)

    def tell(self, **frame: Any) -> None:
        """Send a frame that wants no answer."""
        if self.is_up:
            body = json.dumps(frame, separators=(",", ":")).encode()
            if len(body) > FRAME_LIMIT:
                raise AgentError(
                    f"{len(body) >> 20} MB in one message are too many", hint="copy large data as files", code="agent.too-large"
                )
            try:
                self._process.stdin.write(struct.pack(">I", len(body)) + body)
            except OSError as error:
                # The reader may not have been told yet, and whoever asks again must not meet this link.
                self._down()
                raise LinkLost(str(error)) from error

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises
        ------
        AgentError
            What the agent refused, with its code.
        LinkLost
            If the channel ended first; the agent may or may not have got the request.
        """
        if not self.is_up:
            raise LinkLost("the channel ended")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self.tell(op=op, id=number, **fields)
            frame = await answer
        finally:
            self._answers.pop(number, None)
        if "error" in frame:
            raise AgentError(frame["error"]["message"], code=f"agent.{frame['error']['code']}")
        return frame

    async def close(self) -> None:
        """End the channel; what runs on the machine goes on."""
        if self._reader is not None:
            self._reader.cancel()
        self._down()
        await self._stack.aclose()
