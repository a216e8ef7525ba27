"""What a kernel says, on its way into the journals of cells."""

from __future__ import annotations

import asyncio
import json

from ..json_types import Json
from ..masking import HELD_SECONDS, StreamMasker
from ..secret_registry import SecretRegistry
from ..tasks.task import Task

LATE_BYTES = 4 * 1024 * 1024
"""Bytes of output that came while no cell ran, and waits for the next one."""


class KernelOutput:
    """Puts what a kernel says into the journal of the running cell, with secrets masked.

    Attributes
    ----------
    current
        The cell that runs.
    late, late_bytes
        What came between cells and waits for the next one, and how much came in all.
    """

    def __init__(self, secrets: SecretRegistry) -> None:
        self._secrets = secrets
        self._streams: dict[str, StreamMasker] = {}
        self._early: asyncio.TimerHandle | None = None
        self.current: Task | None = None
        self.late: list[Json] = []
        self.late_bytes = 0

    def add(self, kind: str, content: Json) -> None:
        """Take one output. What may be a secret's first letters waits for a moment."""
        is_verbatim = self.current is not None and self.current.is_verbatim
        if kind != "stream" or is_verbatim:
            self.show_held()
            self._put({"k": kind, "content": content})
            return
        name = str(content.get("name"))
        self.show_held(but=name)
        masker = self._streams.setdefault(name, StreamMasker(lambda: self._secrets.values))
        self._put_stream(name, masker.add(str(content.get("text"))))
        if masker.is_brief and self._early is None:
            self._early = asyncio.get_event_loop().call_later(HELD_SECONDS, self.show_held)

    def show_held(self, but: str = "") -> None:
        """Show what the streams hold back where it is brief, one of them aside."""
        if not but and self._early is not None:
            self._early.cancel()
            self._early = None
        for name, masker in self._streams.items():
            if name != but:
                self._put_stream(name, masker.early())

    def end_streams(self) -> None:
        """Show all that is held back: a cell is over, and the next one's streams begin anew."""
        self.show_held()
        streams, self._streams = self._streams, {}
        for name, masker in streams.items():
            self._put_stream(name, masker.end())

    def show_late(self, task: Task) -> None:
        """Put what came between the cells into the first one that somebody sees."""
        late, size = self.late, self.late_bytes
        self.drop_late()
        if late:
            task.journal.append(*late)
        if size > LATE_BYTES:
            total, kept = size >> 20, LATE_BYTES >> 20
            say(
                task,
                f"nbprov: {total} MB came between the cells; the first {kept} MB are above",
            )

    def drop_late(self) -> None:
        """Forget what came between the cells."""
        self.late, self.late_bytes = [], 0

    def _put_stream(self, name: str, text: str) -> None:
        if text:
            self._put({"k": "stream", "content": {"name": name, "text": text}})

    def _put(self, entry: Json) -> None:
        if self.current is not None and self.current.is_live:
            self.current.journal.append(entry)
            return
        self.late_bytes += len(json.dumps(entry))
        if self.late_bytes <= LATE_BYTES:
            self.late.append(entry)


def say(task: Task, line: str) -> None:
    """Write a line into a cell's stderr."""
    task.journal.append({"k": "stream", "content": {"name": "stderr", "text": line + "\n"}})
