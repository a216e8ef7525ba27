"""A channel to the agent that is opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.on_machine.agent import PROTOCOL
from nbprov.remote.errors import SshError
from nbprov.remote.ssh.connection import Connection

from .archive import agent_archive
from .channel import AgentChannel, AgentNotRunning, ChannelLost
from .config import AgentConfig
from .framing import AgentError
from .install import command, install, launch

log = logging.getLogger("nbprov.remote")

REQUEST_SECONDS: Seconds = 30.0
"""How long the agent may take to answer.

It answers from memory, so this depends on the connection alone.
"""
RECONNECT_SECONDS: Seconds = 600.0
"""How long a lost machine is looked for before a follower is told.

This outlasts a router's restart, a train's tunnel, and a laptop that wakes up.
"""
PING_SECONDS: Seconds = 20.0
"""Between two pings; the agent drops a client that was silent for 180 s."""
FIRST_PAUSE: Seconds = 0.05
LAST_PAUSE: Seconds = 5.0
"""Bounds of the pause between two tries to connect."""
SHUTDOWN_SECONDS: Seconds = 15.0
"""How long an old agent may take to end when a new one replaces it."""

Reconnect = Callable[[], Awaitable[Connection]]


class AgentTransport:
    """Asks the agent over whatever connection there is at the time.

    Parameters
    ----------
    reconnect
        Makes a new connection when this one is lost, for machines whose address changes. With None
        the same address is tried.

    Attributes
    ----------
    connection
        The ssh connection, replaced when it is lost.
    on_ending
        Called when the agent says that its guards end the machine now. Nothing is called while the
        connection is down.
    """

    def __init__(
        self, connection: Connection, config: AgentConfig, reconnect: Reconnect | None
    ) -> None:
        self.connection, self.config = connection, config
        self.on_ending: set[Callable[[], None]] = set()
        self._reconnect = reconnect if reconnect is not None else self._reopen
        self._channel: AgentChannel | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._pings: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether the channel is open, as far as is known."""
        return self._channel is not None and self._channel.is_up

    @property
    def hello(self) -> dict[str, Any]:
        """The agent's last greeting; empty before the first one."""
        return self._channel.hello if self._channel is not None else {}

    async def start(self) -> None:
        """Install the agent if needed, start it if it does not run, and wait for its greeting.

        Raises
        ------
        SshError
            The connection broke.
        RemoteError
            The machine cannot run the agent, or an agent of another release is in use there.
        """
        await install(self.connection, self.config)
        await launch(self.connection, self.config)
        await self._replace_other_release(await self.open_channel())

    def start_pings(self) -> None:
        """Ping the agent from now on, so that a dead connection is noticed."""
        self._pings = asyncio.create_task(self._ping())

    async def _replace_other_release(self, channel: AgentChannel) -> None:
        """Replace an agent of another release, unless variables or jobs would be lost."""
        if channel.hello["hash"] == agent_archive().hash:
            return
        if not await _end_if_idle(channel):
            return
        async with asyncio.timeout(SHUTDOWN_SECONDS):
            while True:
                await launch(self.connection, self.config)
                with suppress(ChannelLost, AgentNotRunning):
                    fresh = await AgentChannel.open(
                        self.connection, command(self.config, "connect")
                    )
                    if fresh.hello["hash"] == agent_archive().hash:
                        self._channel = fresh
                        return
                    # On a busy machine its own standby may start the old one first.
                    await _end_if_idle(fresh)
                await asyncio.sleep(FIRST_PAUSE)

    async def _reopen(self) -> Connection:
        return await self.connection.reopen()

    async def open_channel(self) -> AgentChannel:
        """Return the open channel, or a new one.

        Raises
        ------
        AgentError
            The transport is closed, or the machine could not be reached for a long time.
        SshError
            The machine shows a foreign host key or refuses the login.
        """
        async with self._lock:
            if self._is_closed:
                raise _closed()
            if self._channel is None or not self._channel.is_up:
                if self._channel is not None:
                    await self._channel.close()
                self._channel = await self._new_channel()
            return self._channel

    async def _new_channel(self) -> AgentChannel:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + RECONNECT_SECONDS, FIRST_PAUSE
        while True:
            if self._is_closed:
                raise _closed()
            try:
                if not self.connection.is_open:
                    self.connection = await self._reconnect()
                channel = await AgentChannel.open(self.connection, command(self.config, "connect"))
                channel.on_event = self._take_event
                return channel
            except AgentNotRunning:
                await install(self.connection, self.config)
                await launch(self.connection, self.config)
                trouble = "no agent runs there"
            except (SshError, ChannelLost) as error:
                if isinstance(error, SshError) and not error.may_pass:
                    raise
                # The connection may look open and carry nothing, as after a laptop's sleep.
                self.connection.abort()
                trouble = str(error)
            if loop.time() + pause > end:
                raise AgentError(
                    f"the machine could not be reached for {RECONNECT_SECONDS:g} s: {trouble}",
                    hint="%clusters shows whether it still runs; its jobs go on and their output"
                    " is kept",
                    code="agent.lost",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.7, LAST_PAUSE)

    def _take_event(self, frame: dict[str, Any]) -> None:
        if frame["ev"] == "ending":
            for callback in tuple(self.on_ending):
                callback()

    async def ask(
        self, op: str, *, deadline: Seconds = REQUEST_SECONDS, **fields: Any
    ) -> dict[str, Any]:
        """Ask the agent, and again over a new channel if the old one broke.

        Every operation may be repeated.
        """
        try:
            async with asyncio.timeout(deadline):
                while True:
                    channel = await self.open_channel()
                    try:
                        return await channel.ask(op, **fields)
                    except ChannelLost:
                        continue
        except TimeoutError:
            raise no_answer(deadline) from None

    async def ask_if_up(
        self, op: str, *, deadline: Seconds, **fields: Any
    ) -> dict[str, Any] | None:
        """Ask once over the open channel; None if there is none, or no answer comes."""
        if self._channel is None or not self._channel.is_up:
            return None
        try:
            async with asyncio.timeout(deadline):
                return await self._channel.ask(op, **fields)
        except (TimeoutError, ChannelLost, AgentError):
            return None

    async def _ping(self) -> None:
        """Notice a dead connection, and open a new one: with it the agent is started if it ended.

        Nobody may ask for anything for long, and a machine without its agent has no guards.
        """
        while True:
            channel = self._channel
            if channel is not None and channel.is_up:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PING_SECONDS):
                        await channel.ended.wait()
            if channel is None or not channel.is_up:
                try:
                    await self.open_channel()
                except (NbprovError, ChannelLost, OSError) as error:
                    log.info("the agent's machine is not reached: %s", error)
                    await asyncio.sleep(PING_SECONDS)
                continue
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await channel.ask("ping")
            except (TimeoutError, ChannelLost):
                # Followers wake up on this and open a new channel.
                self.connection.abort()

    async def close(self) -> None:
        """Close the channel and the connection. What runs on the machine goes on."""
        self._is_closed = True
        if self._pings is not None:
            self._pings.cancel()
        if self._channel is not None:
            await self._channel.close()
        await self.connection.close()


async def _end_if_idle(channel: AgentChannel) -> bool:
    """Have an agent of another release end; False if it is in use, and can be used as it is."""
    try:
        await channel.ask("shutdown", if_idle=True)
    except AgentError:
        if channel.hello["protocol"] != PROTOCOL:
            version = channel.hello["version"]
            raise AgentError(
                f"the agent on the machine ({version}) is of another release and in use",
                hint="use the nbprov that started it, or end its jobs and kernels first",
                code="agent.other-release",
            ) from None
        return False
    await channel.close()
    return True


def _closed() -> AgentError:
    return AgentError("this connection to the machine is closed", code="agent.closed")


def no_answer(deadline: Seconds) -> AgentError:
    """Return the error for a request that was not answered in time."""
    return AgentError(
        f"the agent on the machine did not answer within {deadline:g} s",
        hint="the line may be down; try again",
        code="agent.timeout",
    )
