"""Frames: what the agent, its clients and its kernel hosts send each other.

A frame is a 4-byte big-endian length and a JSON object of so many bytes. This module is used on
both sides of the ssh channel, and imports nowhere more than it needs: the bridge starts with it.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Mapping

    from .json_types import Json

FRAME_LIMIT = 64 * 1024 * 1024
"""Bytes of one frame. A figure of a few MB fits well; runaway output cannot fill the memory."""

_HEAD = struct.Struct(">I")
HEAD_SIZE = _HEAD.size


class FrameError(ValueError):
    """A frame that is too large, or bytes that are no frame."""


def pack(frame: Mapping[str, Any]) -> bytes:
    """Return a frame's bytes.

    Raises
    ------
    FrameError
        If it is larger than `FRAME_LIMIT`.
    """
    body = json.dumps(frame, separators=(",", ":")).encode()
    if len(body) > FRAME_LIMIT:
        sizes = (len(body) >> 20, FRAME_LIMIT >> 20)
        raise FrameError("one message of {} MB is more than the {} MB allowed".format(*sizes))
    return _HEAD.pack(len(body)) + body


def size_of(head: bytes) -> int:
    """Return the length that a frame's first four bytes announce.

    Raises
    ------
    FrameError
        If it is more than `FRAME_LIMIT`.
    """
    size = int(_HEAD.unpack(head)[0])
    if size > FRAME_LIMIT:
        raise FrameError(f"a message of {size >> 20} MB")
    return size


async def read_frame(reader: asyncio.StreamReader) -> Json | None:
    """Return the next frame, or None at the end of the stream.

    Raises
    ------
    FrameError
        If what comes is no frame.
    """
    try:
        body = await reader.readexactly(size_of(await reader.readexactly(HEAD_SIZE)))
    except (EOFError, ConnectionError):
        return None
    frame = json.loads(body)
    if not isinstance(frame, dict):
        raise FrameError("a frame is a JSON object")
    return frame
