"""The output of a process, read from a pipe into a journal."""

from __future__ import annotations

import asyncio
import codecs
import os

from ..masking import HELD_SECONDS, StreamMasker
from .journal import Journal

LINE_LIMIT = 64 * 1024
PARTIAL_SECONDS = 0.2
"""How long a line without an end waits for it before it is shown: progress bars have none."""
FLOOD_LINES = 500
"""So many lines in one read are kept in pieces of some kB, so that a flood does not stall us."""
FLOOD_PIECE = 4096


class OutputReader:
    """Reads one pipe into a journal, line by line, with secrets masked wherever reads are cut.

    Attributes
    ----------
    is_muted
        What comes is read on, so that the writer does not die of a broken pipe, but not kept.
    reads
        How many reads gave something.
    """

    def __init__(
        self, kind: str, reader: asyncio.StreamReader, journal: Journal, masker: StreamMasker
    ) -> None:
        self._kind, self._reader, self._journal, self._masker = kind, reader, journal, masker
        self._pending = ""
        self.is_muted = False
        self.reads = 0

    async def pump(self) -> None:
        """Read until the pipe ends."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            brief = HELD_SECONDS if self._masker.is_brief else None
            seconds = PARTIAL_SECONDS if self._pending else brief
            try:
                data = await asyncio.wait_for(self._reader.read(LINE_LIMIT), seconds)
            except asyncio.TimeoutError:
                self._pending = self._pending or self._masker.early()
                self._flush()
                continue
            self.reads += 1
            self._pending += self._masker.add(decoder.decode(data, not data))
            lines = self._pending.split("\n")
            self._pending = lines.pop()
            is_flood = len(lines) >= FLOOD_LINES
            self._write(
                in_pieces("\n".join(lines) + "\n") if is_flood else [line + "\n" for line in lines]
            )
            if len(self._pending) > LINE_LIMIT:
                self._flush()
            if not data:
                self.finish()
                return

    def finish(self) -> None:
        """Write the beginning of a line, and what was held back."""
        self._pending += self._masker.end()
        self._flush()

    def _flush(self) -> None:
        text, self._pending = self._pending, ""
        self._write([text] if text else [])

    def _write(self, lines: list[str]) -> None:
        if lines and not self.is_muted:
            self._journal.append(*({"k": self._kind, "text": line} for line in lines))


def in_pieces(text: str) -> list[str]:
    """Cut a text at line ends into pieces of some kB."""
    pieces, start = [], 0
    while start < len(text):
        end = text.rfind("\n", start, start + FLOOD_PIECE) + 1
        end = end or text.find("\n", start) + 1 or len(text)
        pieces.append(text[start:end])
        start = end
    return pieces


async def open_pipe() -> tuple[asyncio.StreamReader, int]:
    """Open a pipe of our own, and return its reader and the writing end for a child.

    With asyncio's own pipes a process's `wait` lasts until all who inherited them have ended.
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_event_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    return reader, writing
