"""One channel to the agent: requests go out, answers and followed output come in.

A channel that broke stays broken; the transport opens another.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.remote.ssh.connection import Connection

from .framing import (
    DISK_FULL_HINT,
    FOLLOW_LIMIT,
    LIGHT_FRAME,
    AgentError,
    malformed,
    pack,
    printable,
    size_of,
    unpack,
)

if TYPE_CHECKING:
    import asyncssh

HELLO_SECONDS: Seconds = 15.0
"""From opening the channel to the agent's greeting.

This is a start of Python and a socket, on a machine that may still be busy booting.
"""
NOT_RUNNING = 3
"""Exit code of the bridge where no agent listens."""


_HINTS = {
    "agent.disk-full": DISK_FULL_HINT,
    "agent.no-room": DISK_FULL_HINT,
    "agent.internal": "~/.nbprov/agent.log on the machine says more",
}


class ChannelLost(Exception):
    """The channel ended before the answer came."""


class AgentNotRunning(Exception):
    """The machine answers, but no agent runs on it."""


class OutputQueue:
    """Frames of one task's output that were not read yet."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[tuple[dict[str, Any], int] | None] = asyncio.Queue()
        self.waiting = 0
        self.closed = asyncio.Event()

    def put(self, frame: dict[str, Any], size: int) -> None:
        """Add a frame of `size` bytes."""
        self.waiting += size
        self._frames.put_nowait((frame, size))

    def close(self) -> None:
        """Say that nothing more will come."""
        self.closed.set()
        self._frames.put_nowait(None)

    async def get(self) -> dict[str, Any] | None:
        """Return the next frame.

        None means that nothing more comes over this channel: the reader asks again for the rest.
        """
        found = await self._frames.get()
        if found is None:
            return None
        self.waiting -= found[1]
        return found[0]


class AgentChannel:
    """An open channel, made by `AgentChannel.open`."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], stack: AsyncExitStack) -> None:
        self._process, self._stack = process, stack
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.follows: dict[str, OutputQueue] = {}
        self.hello: dict[str, Any] = {}
        self.malformed: AgentError | None = None
        self.on_event: Callable[[dict[str, Any]], None] = lambda frame: None
        self.is_up = True
        self.ended = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, connection: Connection, command: str) -> AgentChannel:
        """Run the bridge and wait for the agent's greeting.

        Raises
        ------
        AgentNotRunning
            If no agent runs there.
        AgentError
            If the answer is none of an agent.
        ChannelLost, SshError
            If the connection does not carry it.
        """
        async with AsyncExitStack() as stack:
            process = await stack.enter_async_context(connection.channel(command))
            link = cls(process, stack)
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    frame, _ = await link._read()
                    if frame is None:
                        await process.wait_closed()
            except TimeoutError:
                raise ChannelLost("no hello from the agent in time") from None
            if frame is None:
                if process.returncode == NOT_RUNNING:
                    raise AgentNotRunning
                raise ChannelLost("the channel ended")
            if frame.get("ev") != "hello":
                raise malformed("no greeting")
            link.hello = frame
            link._reader = asyncio.create_task(link._listen())
            link._stack = stack.pop_all()
            return link

    async def _read(self) -> tuple[dict[str, Any] | None, int]:
        import asyncssh

        try:
            size = size_of(await self._process.stdout.readexactly(4))
            body = await self._process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, OSError, asyncssh.Error):
            return None, 0
        if size > LIGHT_FRAME:
            # Leases are renewed meanwhile.
            return await asyncio.to_thread(unpack, body), size
        return unpack(body), size

    async def _listen(self) -> None:
        try:
            while True:
                frame, size = await self._read()
                if frame is None:
                    return
                if "re" in frame:
                    answer = self._answers.pop(frame["re"], None)
                    if answer is not None and not answer.done():
                        answer.set_result(frame)
                elif frame.get("ev") == "out":
                    self._take(frame, size)
                elif frame.get("ev") in ("warning", "ending"):
                    self.on_event(frame)
        except AgentError as error:
            self.malformed = error
        finally:
            self._down()

    def _take(self, frame: dict[str, Any], size: int) -> None:
        followed = self.follows.get(frame["follow"])
        if followed is None:
            return
        followed.put(frame, size)
        if followed.waiting > FOLLOW_LIMIT:
            # The reader is slow: it asks again from where it will be, and the agent keeps the rest
            # until then.
            del self.follows[frame["follow"]]
            followed.close()
            self.tell(op="unfollow", follow=frame["follow"])

    def _down(self) -> None:
        self.is_up = False
        self.ended.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self.malformed or ChannelLost("the channel ended"))
                answer.exception()
        self._answers.clear()
        for followed in self.follows.values():
            followed.close()

    def tell(self, **frame: Any) -> None:
        """Send a frame that needs no answer."""
        if self.is_up:
            data = pack(frame)
            try:
                self._process.stdin.write(data)
            except OSError as error:
                # The listener may not know yet, and whoever asks again must not get this channel.
                self._down()
                raise ChannelLost(str(error)) from error

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises
        ------
        AgentError
            What the agent refused, with its code.
        ChannelLost
            If the channel ended first; the agent may or may not have got the request.
        """
        if not self.is_up:
            raise ChannelLost("the channel ended")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self.tell(op=op, id=number, **fields)
            frame = await answer
        finally:
            self._answers.pop(number, None)
        if frame.get("error"):
            code = f"agent.{printable(str(frame['error']['code']))}"
            message = printable(str(frame["error"]["message"]))
            raise AgentError(message, hint=_HINTS.get(code, ""), code=code)
        return frame

    async def close(self) -> None:
        """Close the channel; what runs on the machine goes on."""
        if self._reader is not None:
            self._reader.cancel()
        self._down()
        await self._stack.aclose()
