"""A TCP proxy in front of a machine whose connections can be cut, at once or after some bytes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator


class CuttingProxy:
    """Forwards bytes between its own port and a machine's, until told to cut.

    Attributes
    ----------
    cuts
        How many connections were cut.
    """

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self.target, self.host, self.port, self.cuts = target, host, 0, 0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._left: dict[str, int] = {}
        self._is_down = False

    def cut_after(self, count: int) -> None:
        """Cut all connections once the machine has sent `count` more bytes, usually within a
        message.
        """
        self._left["said"] = count

    def cut_after_heard(self, count: int) -> None:
        """Cut all connections once the machine has received `count` more bytes."""
        self._left["heard"] = count

    @property
    def is_armed(self) -> bool:
        """Whether a cut is still to come."""
        return bool(self._left)

    def cut(self) -> None:
        """Cut all connections now, with a reset."""
        self._left.clear()
        for pair in tuple(self._pairs):
            self._pairs.discard(pair)
            self.cuts += 1
            for writer in pair:
                found = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    def go_down(self) -> None:
        """Cut, and refuse new connections until `come_up`."""
        self._is_down = True
        self.cut()

    def come_up(self) -> None:
        """Accept connections again."""
        self._is_down = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self.host, self.target)
        pair = (writer, back)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pass_on(reader, back, "heard"), self._pass_on(there, writer, "said")
            )
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            writer.close()
            back.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        while data := await reader.read(65536):
            left = self._left.get(way)
            if left is not None:
                if len(data) >= left:
                    writer.write(data[:left])
                    # Forwarded bytes have to leave before the reset, which drops what is still
                    # waiting.
                    await writer.drain()
                    self.cut()
                    return
                self._left[way] = left - len(data)
            writer.write(data)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def cutting_proxy(target: int, host: str = "127.0.0.1") -> AsyncIterator[CuttingProxy]:
    """A proxy in front of a port of this computer, for a while."""
    proxy = CuttingProxy(target, host)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy
        proxy.cut()
