"""Read a small file of a machine."""

from __future__ import annotations

import asyncio

from nbprov.model.clock import Seconds
from nbprov.provisioning.live_cluster import Node

READ_SECONDS: Seconds = 30.0
"""How long it may take to read one small file over an open connection."""
_THERE = b"+"


async def read_remote_file(node: Node, path: str, most: int) -> bytes | None:
    """Return the bytes of a file; None if there is none, or it has more than `most`.

    Parameters
    ----------
    path
        Quoted for the machine's shell.
    """
    assert node.connection is not None, "attach() opens every connection"
    data = b""
    async with (
        asyncio.timeout(READ_SECONDS),
        node.connection.channel(f"[ -f {path} ] && printf + && cat {path}") as process,
    ):
        while len(data) <= most + 1 and (part := await process.stdout.read(65536)):
            data += part
    return data[1:] if data[:1] == _THERE and len(data) <= most + 1 else None
