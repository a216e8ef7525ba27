"""The output of one task, followed across lost connections."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from nbprov.model.clock import Seconds

from .channel import AgentChannel, ChannelLost, OutputQueue
from .framing import parsed
from .messages import Environment, OutputPiece, TaskInfo, environment_fields
from .tasks import find_task
from .transport import AgentTransport, no_answer

END_ONLY = 10**9
"""Follow a task from this number on to learn of its end alone."""


class _Subscription:
    """A queue of one channel, in which the output of one task arrives."""

    def __init__(self, channel: AgentChannel) -> None:
        self.channel, self.name = channel, uuid.uuid4().hex[:12]
        self.queue = channel.follows[self.name] = OutputQueue()
        if not channel.is_up:
            self.queue.close()  # it broke just now, and has told its followers already

    def end(self, *, is_over: bool = False) -> None:
        """Take no more output; where the task is over, the agent need not be told."""
        self.channel.follows.pop(self.name, None)
        if is_over:
            return
        with suppress(ChannelLost):
            self.channel.tell(op="unfollow", follow=self.name)


class OutputStream:
    """The output of one task from a number on, with nothing missing and nothing twice.

    Iterate once. Leaving the loop early, or losing this object, does not touch the task.

    Attributes
    ----------
    id
        The task's id, for another `job_output` later.
    number
        Of the last output seen.
    end
        The last output, once it came: its content tells `status`, `exit_code`, `execution_count`.
    born
        For a cell that was started: a text that changes with every kernel, empty where the kernel
        is yet to be started; None if unknown.
    kernel_ended
        Why the kernel's predecessor ended, where the agent says so in the cell itself.
    """

    def __init__(self, transport: AgentTransport, id: str, since: int = 0) -> None:
        self.id, self.number = id, since
        self.end: OutputPiece | None = None
        self.born: str | None = None
        self.kernel_ended = ""
        self._transport = transport
        self._subscription: _Subscription | None = None

    @classmethod
    async def start(
        cls,
        transport: AgentTransport,
        kind: str,
        code: str,
        id: str | None,
        env: Environment | None,
        *,
        deadline: Seconds,
        follow: bool,
        **more: Any,
    ) -> OutputStream:
        """Start a task and return its output.

        Parameters
        ----------
        follow
            Follow it in the same request, which saves a round trip before the first output. The
            caller must iterate over the result.
        """
        request = {"task": id or uuid.uuid4().hex, "kind": kind, "code": code}
        request |= {**environment_fields(env), **more}
        subscription: _Subscription | None = None
        if follow:
            answer, subscription = await _ask_and_follow(transport, deadline, request)
        else:
            answer = await transport.ask("start", deadline=deadline, **request)
        stream = cls(transport, parsed(TaskInfo.of, answer.get("task")).id)
        stream._subscription = subscription
        stream.born, stream.kernel_ended = answer.get("born"), str(answer.get("ended") or "")
        return stream

    async def __aiter__(self) -> AsyncIterator[OutputPiece]:
        async for output in self._reconnecting():
            self.number = output.number
            if output.kind == "end":
                self.end = output
            yield output

    async def _reconnecting(self) -> AsyncIterator[OutputPiece]:
        since, is_over = self.number, False
        begun, self._subscription = self._subscription, None
        while True:
            subscription = begun or _Subscription(await self._transport.open_channel())
            channel, queue = subscription.channel, subscription.queue
            try:
                if begun is None:
                    await channel.ask("follow", task=self.id, since=since, follow=subscription.name)
                begun = None
                while (frame := await queue.get()) is not None:
                    for entry in frame["entries"]:
                        if entry["n"] > since:
                            since = entry["n"]
                            yield OutputPiece.of(entry)
                    if frame.get("over"):
                        is_over = True
                        return
                if channel.malformed is not None:
                    raise channel.malformed
            except ChannelLost:
                pass
            finally:
                subscription.end(is_over=is_over)

    async def wait(self) -> TaskInfo:
        """Wait until the task has ended, and return how."""
        async for _ in self:
            pass
        return await find_task(self._transport, self.id)


async def _ask_and_follow(
    transport: AgentTransport, deadline: Seconds, request: dict[str, Any]
) -> tuple[dict[str, Any], _Subscription | None]:
    subscription: _Subscription | None = None
    try:
        async with asyncio.timeout(deadline):
            while True:
                subscription = _Subscription(await transport.open_channel())
                try:
                    answer = await subscription.channel.ask(
                        "start", follow=subscription.name, **request
                    )
                    break
                except ChannelLost:
                    subscription.end()
    except TimeoutError:
        raise no_answer(deadline) from None
    except BaseException:
        if subscription is not None:
            subscription.end()
        raise
    if answer.get("followed"):
        return answer, subscription
    # An earlier request started it, and its answer was lost.
    subscription.end()
    return answer, None
