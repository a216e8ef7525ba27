"""The clients that are connected to the agent."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from .framing import pack
from .json_types import Json

TELL_SECONDS = 1.0
"""How long a client that does not read may hold up the guards, which tell all of them."""


class BridgeClient:
    """One connected bridge.

    Attributes
    ----------
    session
        The ssh session that it runs in, which does not count as activity.
    follows
        The background tasks that send it output, by the names it gave them.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session = 0
        self.follows: dict[str, Any] = {}
        self._lock = asyncio.Lock()

    async def send(self, frame: Json) -> None:
        """Send a frame, after those that are being sent.

        Raises
        ------
        OSError
            If the client is gone.
        """
        data = pack(frame)
        async with self._lock:
            self.writer.write(data)
            await self.writer.drain()

    def close(self) -> None:
        """Stop following and close the connection."""
        for follow in self.follows.values():
            follow.cancel()
        self.writer.close()


class Clients:
    """All connected clients."""

    def __init__(self) -> None:
        self._clients: set[BridgeClient] = set()

    def __bool__(self) -> bool:
        return bool(self._clients)

    def add(self, client: BridgeClient) -> None:
        """Note a client that has connected."""
        self._clients.add(client)

    def remove(self, client: BridgeClient) -> None:
        """Forget a client, and close its connection."""
        self._clients.discard(client)
        client.close()

    def sessions(self) -> set[int]:
        """Return the ssh sessions of all clients."""
        return {client.session for client in self._clients}

    async def broadcast(self, frame: Json) -> None:
        """Send a frame to everybody who reads."""
        for client in list(self._clients):
            # Whatever is wrong with a client, the guards go on.
            with contextlib.suppress(OSError, RuntimeError, asyncio.TimeoutError):
                await asyncio.wait_for(client.send(frame), TELL_SECONDS)
