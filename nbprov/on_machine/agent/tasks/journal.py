"""The journal of a task: its numbered output on disk, bounded, and read from any number."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from pathlib import Path
from typing import Callable

from ..json_types import Json

ENTRY_LIMIT = 16 * 1024 * 1024
"""Bytes of one entry; a larger one is replaced by a line that says so."""
SEGMENTS = 4
"""Files of one journal. The oldest is dropped when a new one begins."""
READ_BYTES = 256 * 1024


class Journal:
    """Numbered entries as JSON lines, in segment files named by their first number.

    Parameters
    ----------
    folder
        Where the segments lie; made if missing.
    limit
        Bytes of all segments together.
    mask
        Applied to each entry before it is written.
    """

    def __init__(
        self, folder: Path, limit: int, mask: Callable[[Json], Json] | None = None
    ) -> None:
        self.folder, self._segment_limit = folder, max(1, limit // SEGMENTS)
        self._mask = mask
        folder.mkdir(parents=True, exist_ok=True)
        self.segments = sorted(int(path.name[4:]) for path in folder.glob("out.*"))
        self.last = self._find_last()
        self._size = self.path(self.segments[-1]).stat().st_size if self.segments else 0
        self.waiters: set[asyncio.Event] = set()

    def path(self, first: int) -> Path:
        """Return the path of the segment that begins with a number."""
        return self.folder / f"out.{first:012d}"

    @property
    def total(self) -> int:
        """Bytes of all segments."""
        return sum(self.path(first).stat().st_size for first in self.segments)

    def append(self, *entries: Json) -> None:
        """Number the entries, write them, and wake those who follow."""
        data = b"".join(map(self._line, entries))
        try:
            self._write(data, self.last - len(entries) + 1)
        except OSError as error:
            # The numbers stay used, so that whoever follows is told of a gap.
            print(f"output of {self.folder.name} was lost: {error}", file=sys.stderr, flush=True)
        for waiter in self.waiters:
            waiter.set()

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
        lines = whole.splitlines()
        return int(json.loads(lines[-1])["n"]) if lines else self.segments[-1] - 1

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
        self.segments.append(first)
        self.path(first).touch()
        self._size = 0
        while len(self.segments) > SEGMENTS:
            self.path(self.segments.pop(0)).unlink()


class Cursor:
    """Reads a journal from a number on, and says where entries were dropped before it came."""

    def __init__(self, journal: Journal, since: int) -> None:
        self._journal, self.number = journal, max(0, since)
        self._segment, self._offset = -1, 0

    def read(self) -> list[Json]:
        """Return some of the entries after the last one read; none at the end."""
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
                    lines = map(json.loads, data.splitlines())
                    entries = [entry for entry in lines if entry["n"] > self.number]
        except FileNotFoundError:
            return []
        first, expected = entries[0], self.number + 1
        if first["n"] > expected:
            gap = {"n": first["n"] - 1, "t": first["t"], "k": "gap"}
            entries.insert(0, {**gap, "from": expected, "to": first["n"] - 1})
        self.number = entries[-1]["n"]
        return entries
