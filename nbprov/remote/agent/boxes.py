"""Boxes on the machine, in which variables travel piece by piece."""

from __future__ import annotations

import binascii

from .framing import malformed, parsed
from .transport import RECONNECT_SECONDS, AgentTransport


class BoxClient:
    """Writes, reads and removes boxes. Each request may be repeated over a new connection."""

    def __init__(self, transport: AgentTransport) -> None:
        self._transport = transport

    async def put(self, box: str, offset: int, data: bytes | memoryview) -> tuple[int, str]:
        """Write a piece into a box.

        Returns
        -------
        tuple
            How much is in the box now (less than `offset` where the piece was not taken), and its
            path on the machine.

        Raises
        ------
        AgentError
            `agent.no-room`, `agent.boxes-full`.
        """
        text = binascii.b2a_base64(data, newline=False).decode("ascii")
        answer = await self._transport.ask(
            "put", deadline=RECONNECT_SECONDS, box=box, offset=offset, data=text
        )
        return parsed(lambda told: (int(told["size"]), str(told["path"])), answer)

    async def get(self, box: str, offset: int, size: int) -> bytes:
        """Read a piece of a box.

        Raises
        ------
        AgentError
            `agent.no-box`, if it is not there any more.
        """
        answer = await self._transport.ask(
            "get", deadline=RECONNECT_SECONDS, box=box, offset=offset, size=size
        )
        data = parsed(lambda told: binascii.a2b_base64(told["data"]), answer)
        if len(data) > size:
            raise malformed("more than was asked for")
        return data

    async def drop(self, box: str) -> None:
        """Remove a box."""
        await self._transport.ask("drop", deadline=RECONNECT_SECONDS, box=box)
