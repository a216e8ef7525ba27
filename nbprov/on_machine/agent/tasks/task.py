"""A task: one job, shell or cell, with its state on disk and its journal."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Callable

from ..json_types import Json
from ..masking import StreamMasker
from ..secret_registry import LEAST_IN_BINARY, SecretRegistry
from ..state_files import forget_json, write_json
from ..system import boottime, home, is_disk_full, process_start
from .journal import Cursor, Journal

DISK_FULL = (
    "the disk of the machine is full: look with `df -h`, and free room with `rm`; "
    "both run in a shell, which needs no disk"
)
"""Said beside what failed on a full disk, for most programs say it in no words or many."""
BEGUN_SECONDS = 0.25
"""After so long it is written down that a cell runs: most have ended by then."""


class Task:
    """What a task is, how it goes, and its journal. Never holds code or variables on disk.

    Attributes
    ----------
    meta
        What is saved of it and told to clients.
    after
        Ids of the tasks that must succeed before it begins.
    is_verbatim
        It is one of nbprov's own, whose stdout is data that masking would spoil.
    is_left
        The agent ends, and with it the task: it counts as lost, not as cancelled.
    cancel
        Ends it, in whatever way its state asks for.
    on_end, on_forget
        Called once it has ended, and once the agent forgets it.
    """

    def __init__(
        self,
        folder: Path,
        meta: Json,
        limit: int,
        secrets: SecretRegistry | None = None,
        is_verbatim: bool = False,
    ) -> None:
        self.meta, self.id = meta, str(meta["id"])
        self._secrets, self.is_verbatim = secrets or SecretRegistry(), is_verbatim
        self.journal = Journal(folder, limit, self._masked)
        self.after: list[str] = []
        self.done = asyncio.Event()
        self.changed = 0.0
        self.cancel: Callable[[], None] = self._cancel_queued
        self.is_cancelled = False
        self.is_left = False
        self.on_end: Callable[[], None] | None = None
        self.on_forget: Callable[[], None] | None = None
        self._kept_bytes: int | None = None
        if meta["state"] == "ended":
            self.done.set()

    @property
    def is_live(self) -> bool:
        """Whether it has not ended."""
        return not self.done.is_set()

    @property
    def kept_bytes(self) -> int:
        """Bytes of output of an ended task, read once: every start of a task asks for all."""
        if self._kept_bytes is None:
            self._kept_bytes = self.journal.total
        return self._kept_bytes

    def info(self) -> Json:
        """Return what a client is told of it."""
        told = {key: value for key, value in self.meta.items() if key != "pid_started"}
        return {**told, "last": self.journal.last}

    def note(self, text: str) -> None:
        """Write a line of the agent's own into its output."""
        self.journal.append({"k": "note", "text": f"nbprov: {text}\n"})

    def output_masker(self) -> StreamMasker:
        """Return what masks its output, which comes in pieces."""
        return StreamMasker(lambda: () if self.is_verbatim else self._secrets.values)

    def error_masker(self) -> StreamMasker:
        """Return what masks its stderr, which a person reads even where its output is data."""
        return StreamMasker(lambda: self._secrets.values)

    def restore_end(self) -> None:
        """Take the end from the journal if the agent before died before it saved it."""
        is_journaled = self.is_live and self.journal.last
        last = Cursor(self.journal, self.journal.last - 1).read() if is_journaled else []
        if last and last[-1]["k"] == "end":
            end = last[-1]
            self.meta.update(state="ended", status=end["status"], ended=end["t"])
            self.meta["exit_code"] = end.get("exit_code")
            self.done.set()
            self.save()

    def mark_cancelled(self) -> None:
        """Have it ended as soon as its process, which is being started, is there."""
        self.is_cancelled = True

    def save(self) -> None:
        """Write its state to the disk."""
        write_json(self.journal.folder / "meta.json", self.meta)

    def forget(self) -> None:
        """Let go of what is in memory alone."""
        self.journal.discard()
        forget_json(self.journal.folder / "meta.json")

    def begin(self, pid: int | None = None) -> None:
        """Note that it runs, in a process."""
        self.meta.update(state="running", started=time.time())
        if pid is not None:
            self.meta.update(pid=pid, pid_started=process_start(pid))
        self.save()

    def begin_cell(self) -> None:
        """Note that it runs; saved a little later, as a write takes as long as most cells do."""
        self.meta.update(state="running", started=time.time())
        asyncio.get_event_loop().call_later(BEGUN_SECONDS, self._save_if_live)

    def end(
        self,
        status: str,
        exit_code: int | None = None,
        *,
        is_told_first: bool = False,
        **more: Any,
    ) -> None:
        """End it, once.

        With `is_told_first` those who follow are told before it is saved. Should the agent die
        between the two, the journal tells its successor.
        """
        if self.done.is_set():
            return
        self.changed = boottime()
        if self.is_left and status == "cancelled":
            status = "lost"  # nobody cancelled it: its machine stops
            self.meta["left"] = True
        self.meta.update(state="ended", status=status, exit_code=exit_code, ended=time.time())
        if status in ("failed", "error") and is_disk_full(home()):
            self.note(DISK_FULL)
        self.journal.append({"k": "end", "status": status, "exit_code": exit_code, **more})
        if is_told_first:
            asyncio.get_event_loop().call_soon(self.save)
        else:
            self.save()
        self.cancel = self._cancel_queued  # lets go of the process
        self.done.set()
        if self.on_end is not None:
            self.on_end()

    def skip(self, name: str) -> None:
        """End it unrun, because a task it comes after did not succeed."""
        self.note(f"not run, because {name} did not succeed")
        self.end("skipped")

    def _cancel_queued(self) -> None:
        self.is_cancelled = True
        self.end("cancelled")

    def _save_if_live(self) -> None:
        if self.is_live:
            self.save()

    def _masked(self, entry: Json) -> Json:
        if self.is_verbatim and entry["k"] == "stdout":
            return entry
        least = LEAST_IN_BINARY if self.is_verbatim and entry["k"] == "stream" else 0
        try:
            return self._secrets.mask_entry(entry, least)
        except RecursionError:
            # It was not looked through to its end; and who listens to the kernel must go on.
            return {"k": "note", "text": "[an output was left out: it is nested too deeply]\n"}
