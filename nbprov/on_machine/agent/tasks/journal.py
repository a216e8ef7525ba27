"""The journal of a task: its numbered output on disk, bounded, and read from any number."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Callable

from ..errors import disk_trouble
from ..json_types import Json

ENTRY_LIMIT = 16 * 1024 * 1024
"""Bytes of one entry; a larger one is replaced by a line that says so."""
SEGMENTS = 4
"""Files of one journal. The oldest is dropped when a new one begins."""
READ_BYTES = 256 * 1024
UNWRITTEN_BYTES = 128 * 1024 * 1024
"""Memory for what the disk does not take, of all journals; then the oldest is dropped, as a gap."""
RETRY_SECONDS = 1.0
"""Between two tries to write to a disk that took nothing."""


class Journal:
    """Numbered entries as JSON lines, in segment files named by their first number.

    What the disk does not take is kept in memory, within bounds: who follows gets it all the same,
    and it is written once there is room.

    Parameters
    ----------
    folder
        Where the segments lie; made if missing.
    limit
        Bytes of all segments together.
    mask
        Applied to each entry before it is written.

    Attributes
    ----------
    unwritten
        Numbers and lines that the disk did not take.
    """

    unwritten_everywhere = 0

    def __init__(
        self, folder: Path, limit: int, mask: Callable[[Json], Json] | None = None
    ) -> None:
        self.folder, self._segment_limit = folder, max(1, limit // SEGMENTS)
        self._mask = mask
        names = [path.name[4:] for path in folder.glob("out.*")]
        self.segments = sorted(int(name) for name in names if name.isdigit())
        self.last = self._size = 0
        self.unwritten: deque[tuple[int, bytes]] = deque()
        self._trouble, self._tried_at = "", 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.last = self._find_last()
            self._size = self.path(self.segments[-1]).stat().st_size if self.segments else 0
        except OSError as error:
            self.last = max(self.last, self.segments[-1] if self.segments else 0)
            print(f"{folder} cannot be used: {error}", file=sys.stderr, flush=True)
        self.waiters: set[asyncio.Event] = set()

    def path(self, first: int) -> Path:
        """Return the path of the segment that begins with a number."""
        return self.folder / f"out.{first:012d}"

    @property
    def total(self) -> int:
        """Bytes of all segments."""
        found = 0
        for first in self.segments:
            with contextlib.suppress(OSError):
                found += self.path(first).stat().st_size
        return found

    def append(self, *entries: Json) -> None:
        """Number the entries, write them, and wake those who follow."""
        for entry in entries:
            self._add(entry)
        if not self._trouble or time.monotonic() - self._tried_at > RETRY_SECONDS:
            self.write_unwritten()
        for waiter in self.waiters:
            waiter.set()

    def write_unwritten(self) -> None:
        """Write what is in memory alone; if that fails it is told once, and tried again later."""
        if not self.unwritten:
            return
        self._tried_at = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(b"".join(line for _, line in self.unwritten), self.unwritten[0][0])
        except OSError as error:
            if not self._trouble:
                self._trouble = disk_trouble(error)
                self._add({"k": "note", "text": self._not_kept(self.unwritten[0][0])})
            return
        self._trouble = ""
        self.discard()

    def discard(self) -> None:
        """Let go of what is in memory."""
        Journal.unwritten_everywhere -= sum(len(line) for _, line in self.unwritten)
        self.unwritten.clear()

    def _add(self, entry: Json) -> None:
        line = self._line(entry)
        self.unwritten.append((self.last, line))
        Journal.unwritten_everywhere += len(line)
        while Journal.unwritten_everywhere > UNWRITTEN_BYTES and len(self.unwritten) > 1:
            Journal.unwritten_everywhere -= len(self.unwritten.popleft()[1])

    def _not_kept(self, first: int) -> str:
        return (
            f"nbprov: {self._trouble}; output from number {first} on is shown as it comes and"
            " written down once there is room\n"
        )

    def _line(self, entry: Json) -> bytes:
        content = self._mask(entry) if self._mask is not None else entry
        self.last += 1
        head = {"n": self.last, "t": round(time.time(), 3)}
        line = json.dumps({**head, **content}, separators=(",", ":")).encode()
        if len(line) > ENTRY_LIMIT:
            text = f"[an output of {len(line) >> 20} MB was left out: too large]\n"
            line = json.dumps({**head, "k": "note", "text": text}).encode()
        return line + b"\n"

    def _find_last(self) -> int:
        if not self.segments:
            return 0
        path = self.path(self.segments[-1])
        whole = path.read_bytes()
        # A line that was being written when the machine went down is cut off.
        whole = whole[: whole.rfind(b"\n") + 1]
        os.truncate(str(path), len(whole))
        entries = _entries(whole)
        return int(entries[-1]["n"]) if entries else self.segments[-1] - 1

    def _write(self, data: bytes, first: int) -> None:
        is_full = self._size and self._size + len(data) > self._segment_limit
        if not self.segments or is_full:
            self._rotate(first)
        with self.path(self.segments[-1]).open("ab", buffering=0) as file:
            file.truncate(self._size)
            if file.write(data) != len(data):
                file.truncate(self._size)
                raise OSError(errno.ENOSPC, "no room for all of it")
        self._size += len(data)

    def _rotate(self, first: int) -> None:
        while len(self.segments) >= SEGMENTS:
            with contextlib.suppress(FileNotFoundError):
                self.path(self.segments[0]).unlink()
            del self.segments[0]
        self.path(first).touch()
        self.segments.append(first)
        self._size = 0


class Cursor:
    """Reads a journal from a number on, and says where entries were dropped before it came."""

    def __init__(self, journal: Journal, since: int) -> None:
        self._journal, self.number = journal, max(0, since)
        self._segment, self._offset = -1, 0

    def read(self) -> list[Json]:
        """Return some of the entries after the last one read; none at the end."""
        entries = self._read_segments() or self._read_memory()
        if not entries:
            return []
        first, expected = entries[0], self.number + 1
        if first["n"] > expected:
            gap = {"n": first["n"] - 1, "t": first["t"], "k": "gap"}
            entries.insert(0, {**gap, "from": expected, "to": first["n"] - 1})
        self.number = entries[-1]["n"]
        return entries

    def _read_segments(self) -> list[Json]:
        while True:
            segments = self._journal.segments
            if self._segment not in segments:
                if not segments:
                    return []
                earlier = [first for first in segments if first <= self.number + 1]
                self._segment, self._offset = (earlier[-1] if earlier else segments[0]), 0
            found = self._read_segment()
            if found or self._segment == segments[-1]:
                return found
            self._segment, self._offset = segments[segments.index(self._segment) + 1], 0

    def _read_segment(self) -> list[Json]:
        entries: list[Json] = []
        try:
            with self._journal.path(self._segment).open("rb") as file:
                while not entries:
                    file.seek(self._offset)
                    data = file.read(READ_BYTES)
                    if data and b"\n" not in data:
                        data += file.readline()
                    data = data[: data.rfind(b"\n") + 1]
                    if not data:
                        return []
                    self._offset += len(data)
                    entries = [entry for entry in _entries(data) if entry["n"] > self.number]
        except OSError:
            return []  # dropped, or unreadable: a gap
        return entries

    def _read_memory(self) -> list[Json]:
        lines, size = [], 0
        for number, line in self._journal.unwritten:
            if number > self.number and size < READ_BYTES:
                lines.append(line)
                size += len(line)
        return _entries(b"".join(lines))


def _entries(data: bytes) -> list[Json]:
    """Return the entries of whole lines; what is none, since the disk is broken, is left out."""
    found = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("n"), int) and "k" in entry:
                found.append(entry)
    return found
