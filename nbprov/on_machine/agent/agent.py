#!/usr/bin/env python3
"""nbprov's agent: keeps kernels, jobs and shells on a machine, numbers and keeps their output, and ends the machine when its guards say so.

One file, standard library only, Python 3.8 or later, POSIX. Modes:

  serve DIR        start the agent as a daemon (or say that it runs), with its socket and files in DIR
  connect DIR      join stdin and stdout to the agent's socket: what runs on the one ssh channel
  kernel-host DIR  own one ipykernel and speak to the agent over pipes; needs an interpreter that has ipykernel

Frames are a 4-byte big-endian length and a JSON object. `docs` of each operation stand at `Agent.operations`.
"""
# Python 3.8 has its say: asyncio.TimeoutError is not the built-in one there, and only annotations may use newer forms.
# Percent formats round whole seconds and megabytes where they are written.
# ruff: noqa: UP031, UP035, UP041

from __future__ import annotations

import asyncio
import binascii
import codecs
import contextlib
import errno
import fcntl
import functools
import hashlib
import hmac
import ipaddress
import json
import math
import os
import platform
import random
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, ClassVar, Dict, NoReturn

assert sys.platform != "win32", "the agent runs on the machine, which is never Windows"

PROGRAM = os.path.abspath(__file__)
VERSION = "1.0.0"
PROTOCOL = 1
KERNELS_FILE = "kernels.json"
AT_BOOT = "NBPROV_AT_BOOT"
"""Set by the `start` file: the agent is started by the machine, not by a person."""

FRAME_LIMIT = 64 * 1024 * 1024
"""Bytes of one frame: a figure of a few MB passes with room, a runaway output does not fill the memory of both ends."""
ENTRY_LIMIT = 16 * 1024 * 1024
"""Bytes of one journal entry; what is larger is replaced by a line that says so."""
SHOWN_LIMIT = ENTRY_LIMIT - 64 * 1024
"""Bytes that one output of a kernel may have, so that it is an entry with all that is written around it."""
DEPTH_LEFT = 200
"""Levels that an output of a kernel leaves of those that JSON may have: what is written around it, and the deeper stacks of who reads it."""
TEXT_PIECE = 1024 * 1024
"""Characters of text that are passed on at once: even where each takes twelve bytes in a frame, they are less than an entry."""
LATE_BYTES = 4 * 1024 * 1024
"""Output that came while no cell ran, and waits for the next one."""
TASK_JOURNAL_BYTES = 32 * 1024 * 1024
"""Output kept of one task: some 300,000 lines; the oldest goes first."""
ALL_JOURNALS_BYTES = 512 * 1024 * 1024
"""Output kept of all ended tasks together; the oldest task goes first."""
KEPT_TASKS = 500
KEPT_OWN = 50
"""Ended cells of nbprov's own that are kept: as many as may still be read after a cut, and few, as they push out what people ran."""
BOX_PIECE = 8 * 1024 * 1024
BOXES_BYTES = 1024 * 1024 * 1024
"""Variables on their way, all together: ten copies of what may travel at once."""
BOX_SECONDS = 900.0
"""A box that nobody touched for so long belongs to a notebook that is gone: clients look for a lost machine for 600 s."""
STEPS = ("python", "setup")
"""Names of the jobs that make a machine ready: those that are submitted wait for them."""
LOST_TOLD = 50
"""Jobs that a stop cut off: so many are named to whoever connects."""
SEGMENTS = 4
READ_BYTES = 256 * 1024
LINE_LIMIT = 64 * 1024
FLOOD_LINES = 500
"""So many lines in one read are kept in pieces of some kB, not one by one: a job that floods must not make the agent deaf."""
FLOOD_PIECE = 4096
BEGUN_SECONDS = 0.25
"""After so long it is written down that a cell runs: most have ended by then."""
PARTIAL_SECONDS = 0.2
"""How long a line without an end waits for it before it is shown: progress bars have none."""
LEAST_SECRET = 4
"""Shorter values are not blotted out: a secret `1` would blot out half of every log."""
LEAST_IN_BINARY = 8
"""Shorter ones are not looked for in pictures: of 100 kB of base64 every hundredth holds any four letters, and would be spoilt."""
BLOT = "***"
HELD_SECONDS = 1.0
"""So long what may be the first letters of a secret waits for the rest."""
MOST_SECRETS = 1000
"""Values that are kept for being blotted out; those that no task was given for longest go first."""
MOST_SECRET_LETTERS = 8 * 1024 * 1024
CANCEL_SECONDS = 5.0
"""Between SIGTERM and SIGKILL: time to write a checkpoint's last block, not a new one."""
END_ONLY = 10**9
"""Who follows a task from this number on wants to know of its end alone: nothing is read for it."""
HOLD_SECONDS = 60.0
"""How long one node's part of a job waits for those of the other nodes to be there: a few round trips, over a line that may break in between."""
WAITING_JOBS = 2000
"""Jobs in the queue: their scripts are in memory alone."""
GPU_SHARES = 1000
"""Into so many shares a GPU can be divided among jobs that ask for less than one."""
DRAIN_SECONDS = 0.3
"""After a process ended: how long its pipes are still read before what it left in the background loses its voice."""
CLIENT_SILENCE_SECONDS = 180.0
"""A client pings every 20 s; one that is silent this long lost its connection without a word."""
KERNEL_START_SECONDS = 90.0
COMPLETE_SECONDS = 1.0
"""How long a kernel may take to say what fits at a cursor: somebody types."""
INSPECT_CHARACTERS = 1000000
"""Of what is told of a name: more than a long source file."""
INSTALL_SECONDS = 900.0
QUIET_LINES = ("Downloading", "Using cached", "Requirement already")
GPU_SECONDS = 10.0
STATUS_GPU_SECONDS = 5.0
GPU_BUSY_PERCENT = 5.0
CPU_BUSY_CORES = 0.2
"""CPU use that counts as work: twice what daemons of an idle cloud image use together, a fifth of one busy loop."""
MOST_REST = 8.0
"""Cores that a service may use and still be said to rest."""
CPU_SECONDS = 1.0
"""CPU use is taken over at least this long: in less, answering one question looks like work."""
TICK_SECONDS = 5.0
SHORTEST_TICK = 0.2
WARNING_SECONDS = 600.0
POWEROFF_SECONDS = 60.0
POWEROFF_AGAIN_SECONDS = 60.0
LIFETIME_HOOK_SECONDS = 300.0
"""What a hook may take where the lifetime is over: a cap that ends an hour late is none."""
MOST_HOLD = 3600.0
"""The longest that outputs may be waited for: whoever comes for them needs minutes, and the machine is on the bill."""
LIMIT_SHARE = 4.0
"""Of a lifetime or budget at most this part, a quarter, is kept for outputs."""
RETURN_SECONDS = 180.0
"""After a start at boot: how long a limit reached before still waits, for whoever started the machine to raise it; a budget keeps as much back."""
LAST_WORDS_SECONDS = 5.0
"""How long an end leaves to a client that listens, to fetch the logs of jobs: what most logs take, and less than a cent."""
SAVE_SECONDS = 5.0
READY_SECONDS = 15.0
GANG_SECONDS = 60.0
"""Between two words to the cluster's other machines, at most."""
GANG_SHARE = 10.0
"""So many words go within the idle time: nine in a row may be lost before a machine takes the others for idle that are not."""
GANG_BYTES = 512
"""Of a word, at most: agents of earlier releases take no longer ones."""
MOST_NODES = 4096
GANG_JOB_SECONDS = 20.0
"""The same while a job of several nodes is here: so late is a part's end heard of whose first word was lost."""
GANG_ROWS = 16
"""Jobs that one word can name: what fits into `GANG_BYTES`, and some more."""
GANG_GRACE = 10.0
"""How long a part goes on after another one of its job failed: time to fail by itself, with its own words and its own exit code."""
SILENCE_TOLD = 180.0
"""After so long without a word of a node, the log of a job that has a part there says so."""
SILENCE_SECONDS = 900.0
"""After so long the node's part counts as lost. Longer than NCCL's own 10 minutes, so that a program that notices says so in its own
words; and a quarter of an hour of idle GPUs is what a machine that vanished may cost."""
YOUNGER_SECONDS = 60.0
"""A machine that is younger than a job by this, and does not know it, came in the place of one that had a part of it."""

Json = Dict[str, Any]  # noqa: UP006


# ---------------------------------------------------------------- small things


def home() -> str:
    return os.path.expanduser("~")


def boottime() -> float:
    """Seconds since the machine booted, suspend included where the system can tell."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_identity(folder: Path) -> str:
    """A text that changes with every start of the machine: the system's boot id and what the start script wrote."""
    parts = []
    for path in (Path("/proc/sys/kernel/random/boot_id"), folder / "boot.id"):
        with contextlib.suppress(OSError):
            parts.append(path.read_text().strip())
    return "/".join(parts)


def write_json(path: Path, value: Json) -> bool:
    """Replace a file of state. A full disk must stop neither the guards nor a job: it is said in the log and by the answer False."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(json.dumps(value, indent=1))
        fresh.replace(path)
    except OSError as error:
        print(f"{path} could not be written: {error}", file=sys.stderr, flush=True)
        return False
    return True


def read_json(path: Path) -> Json | None:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def pack(frame: Json) -> bytes:
    body = json.dumps(frame, separators=(",", ":")).encode()
    if len(body) > FRAME_LIMIT:
        raise Refused(
            "too-large",
            "one message of %d MB is more than the %d MB allowed"
            % (len(body) >> 20, FRAME_LIMIT >> 20),
        )
    return struct.pack(">I", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> Json | None:
    """The next frame; None at the end of the stream."""
    try:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        if size > FRAME_LIMIT:
            raise Refused("too-large", "a frame of %d bytes" % size)
        frame = json.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if not isinstance(frame, dict):
        raise Refused("bad-frame", "a frame is a JSON object")
    return frame


class Refused(Exception):
    """What was asked cannot be done; told to the client as code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def be_killed_first() -> None:
    """Where memory runs out a job is ended, not the agent that guards the machine; undoes `be_killed_last` in children."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("0")


def be_killed_last() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-900")


# ---------------------------------------------------------------- secrets


class Hidden:
    """The secret values that tasks were given here: in memory alone, and blotted out of whatever is journaled or sent.

    `values` is replaced as a whole, the longest first, so that any thread may read it.
    """

    def __init__(self) -> None:
        self.known: dict[str, None] = {}
        self.values: tuple[str, ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """Know these too, without the blanks around them. Refused where one task has more of them than are kept: some would be shown."""
        fresh = dict.fromkeys(
            value for value in map(str.strip, values) if len(value) >= LEAST_SECRET
        )
        if len(fresh) > MOST_SECRETS or sum(map(len, fresh)) > MOST_SECRET_LETTERS:
            raise Refused(
                "too-many-secrets",
                "more than %d secrets, or %d MB of them"
                % (MOST_SECRETS, MOST_SECRET_LETTERS >> 20),
            )
        known = {**{value: None for value in self.known if value not in fresh}, **fresh}
        letters = sum(map(len, known))
        while len(known) > MOST_SECRETS or letters > MOST_SECRET_LETTERS:
            oldest = next(iter(known))
            letters -= len(oldest)
            del known[oldest]
        self.known = known
        self.values = tuple(sorted(known, key=lambda value: (-len(value), value)))

    def text(self, text: str, least: int = 0) -> str:
        """A text without them."""
        values = (
            tuple(value for value in self.values if len(value) >= least) if least else self.values
        )
        return blotted(text, spans_of(values, text), 0)

    def inside(self, value: Any, least: int = 0) -> Any:
        """What was read from JSON without them, keys included."""
        if not self.values:
            return value
        if isinstance(value, str):
            return self.text(value, least)
        if isinstance(value, list):
            return [self.inside(one, least) for one in value]
        if isinstance(value, dict):
            return {self.text(str(key)): self.inside(one, least) for key, one in value.items()}
        return value

    def bundle(self, data: Json) -> Json:
        """Data or metadata of a rich output, by media types, which stay as they are."""
        return {
            mime if "/" in mime else self.text(mime): self.inside(
                value, LEAST_IN_BINARY if is_binary(mime) else 0
            )
            for mime, value in data.items()
        }

    def entry(self, entry: Json, least: int = 0) -> Json:
        """A journal's entry without them: of its text and content. Its other fields are the agent's own."""
        if not self.values:
            return entry
        found = dict(entry)
        if isinstance(entry.get("text"), str):
            found["text"] = self.text(entry["text"], least)
        content = entry.get("content")
        if isinstance(content, dict):
            # The name of a stream is no output; all else that a kernel says may be.
            found["content"] = {
                key: value
                if key == "name" and entry["k"] == "stream"
                else self.bundle(value)
                if key in ("data", "metadata") and isinstance(value, dict)
                else self.inside(value, least)
                for key, value in content.items()
            }
        return found


def is_binary(mime: str) -> bool:
    """Whether what is of this type comes as base64."""
    return mime == "application/pdf" or (
        mime.startswith(("image/", "audio/", "video/")) and not mime.endswith("+xml")
    )


class StreamMasker:
    """Blots values out of a text that comes in pieces; `nbprov/machines/masking.py` has the same, and a test that they are equal.

    What may be the beginning of a value is held back until that is told. What was shown early is remembered.
    """

    def __init__(self, hidden: Hidden) -> None:
        self.hidden = hidden
        self.shown = self.held = ""

    @property
    def is_brief(self) -> bool:
        """Whether so little is held back that it may be shown."""
        return bool(self.held) and len(self.shown + self.held) < LEAST_SECRET

    def add(self, piece: str) -> str:
        """What may be shown once this piece has come."""
        values = self.hidden.values
        text, skip = self.shown + self.held + piece, len(self.shown)
        spans = spans_of(values, text)
        cut = min((beginning_of(value, text) for value in values), default=len(text))
        # A secret that ends within the beginning of another one is shown whole, or not at all.
        cut = next((start for start, end in spans if start < cut < end), cut)
        self.shown, self.held = text[cut:skip], text[max(cut, skip) :]
        return blotted(text[:cut], [span for span in spans if span[1] <= cut], skip)

    def early(self) -> str:
        """Show what is held back, where it is brief."""
        if not self.is_brief:
            return ""
        shown, self.held = self.held, ""
        self.shown += shown
        return shown

    def end(self) -> str:
        """What is left at the end."""
        text, skip = self.shown + self.held, len(self.shown)
        self.shown = self.held = ""
        return blotted(text, spans_of(self.hidden.values, text), skip)


@functools.lru_cache(maxsize=4)
def pattern_of(values: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, values)))


def spans_of(values: tuple[str, ...], text: str) -> list[tuple[int, int]]:
    """Where a text holds values, the longest of those that begin at a place."""
    there = tuple(value for value in values if value in text)
    return [match.span() for match in pattern_of(there).finditer(text)] if there else []


def beginning_of(value: str, text: str) -> int:
    """Where the longest end of a text starts with which the value begins, and does not end; its length where there is none."""
    first, head = max(0, len(text) - len(value) + 1), value[:LEAST_SECRET]
    at = text.find(head, first)
    while at >= 0:
        if value.startswith(text[at:]):
            return at
        at = text.find(head, at + 1)
    return next(
        (
            at
            for at in range(max(first, len(text) - LEAST_SECRET + 1), len(text))
            if value.startswith(text[at:])
        ),
        len(text),
    )


def blotted(text: str, spans: Iterable[tuple[int, int]], skip: int) -> str:
    """A text from `skip` on, blots in place of the spans."""
    found, place = [], skip
    for start, end in spans:
        if end > place:
            found += [text[place : max(place, start)], BLOT]
            place = end
    return "".join([*found, text[place:]])


# ---------------------------------------------------------------- journal


class Journal:
    """Numbered entries of one task as JSON lines in a few segment files named by their first number; the oldest is dropped when full."""

    def __init__(
        self, folder: Path, limit: int, hide: Callable[[Json], Json] | None = None
    ) -> None:
        self.folder, self.segment_limit = folder, max(1, limit // SEGMENTS)
        self.hide = hide
        folder.mkdir(parents=True, exist_ok=True)
        self.segments = sorted(int(p.name[4:]) for p in folder.glob("out.*"))
        self.last = self._find_last()
        self.size = self.path(self.segments[-1]).stat().st_size if self.segments else 0
        self.waiters: set[asyncio.Event] = set()

    def path(self, first: int) -> Path:
        return self.folder / ("out.%012d" % first)

    def _find_last(self) -> int:
        if not self.segments:
            return 0
        path = self.path(self.segments[-1])
        whole = path.read_bytes()
        whole = whole[
            : whole.rfind(b"\n") + 1
        ]  # a line that was being written when the machine went down is cut off
        os.truncate(str(path), len(whole))
        lines = whole.splitlines()
        return int(json.loads(lines[-1])["n"]) if lines else self.segments[-1] - 1

    @property
    def total(self) -> int:
        return sum(self.path(first).stat().st_size for first in self.segments)

    def append(self, *entries: Json) -> None:
        """Number the entries and write them; followers are woken."""
        lines = []
        for entry in map(self.hide, entries) if self.hide is not None else entries:
            self.last += 1
            head = {"n": self.last, "t": round(time.time(), 3)}
            line = json.dumps({**head, **entry}, separators=(",", ":")).encode()
            if len(line) > ENTRY_LIMIT:
                note = {
                    "k": "note",
                    "text": "[an output of %d MB was left out: too large]\n" % (len(line) >> 20),
                }
                line = json.dumps({**head, **note}).encode()
            lines.append(line + b"\n")
        data = b"".join(lines)
        try:
            self._write(data, self.last - len(entries) + 1)
        except OSError as error:
            # A full disk: the numbers stay used, so that whoever follows is told of a gap.
            print(f"output of {self.folder.name} was lost: {error}", file=sys.stderr, flush=True)
        for waiter in self.waiters:
            waiter.set()

    def _write(self, data: bytes, first: int) -> None:
        if not self.segments or (self.size and self.size + len(data) > self.segment_limit):
            self._rotate(first)
        with self.path(self.segments[-1]).open("ab", buffering=0) as file:
            file.truncate(self.size)
            if file.write(data) != len(data):
                file.truncate(self.size)
                raise OSError(errno.ENOSPC, "no room for all of it")
        self.size += len(data)

    def _rotate(self, first: int) -> None:
        self.segments.append(first)
        self.path(first).touch()
        self.size = 0
        while len(self.segments) > SEGMENTS:
            self.path(self.segments.pop(0)).unlink()


class Cursor:
    """Reads a journal from a number on; says where entries were dropped before they could be read."""

    def __init__(self, journal: Journal, since: int) -> None:
        self.journal, self.number = journal, max(0, since)
        self.segment, self.offset = -1, 0

    def read(self) -> list[Json]:
        """Entries after the last one read, some at a time; empty at the end."""
        while True:
            segments = self.journal.segments
            if self.segment not in segments:
                if not segments:
                    return []
                fitting = [first for first in segments if first <= self.number + 1]
                self.segment, self.offset = (fitting[-1] if fitting else segments[0]), 0
            found = self._read_segment()
            if found or self.segment == segments[-1]:
                return found
            self.segment, self.offset = segments[segments.index(self.segment) + 1], 0

    def _read_segment(self) -> list[Json]:
        entries: list[Json] = []
        try:
            with self.journal.path(self.segment).open("rb") as file:
                while not entries:
                    file.seek(self.offset)
                    data = file.read(READ_BYTES)
                    if data and b"\n" not in data:
                        data += file.readline()
                    data = data[: data.rfind(b"\n") + 1]
                    if not data:
                        return []
                    self.offset += len(data)
                    entries = [
                        entry
                        for entry in map(json.loads, data.splitlines())
                        if entry["n"] > self.number
                    ]
        except FileNotFoundError:
            return []
        if entries[0]["n"] > self.number + 1:
            gap = {
                "n": entries[0]["n"] - 1,
                "t": entries[0]["t"],
                "k": "gap",
                "from": self.number + 1,
                "to": entries[0]["n"] - 1,
            }
            entries.insert(0, gap)
        self.number = entries[-1]["n"]
        return entries


# ---------------------------------------------------------------- tasks


class Task:
    """A job, a shell or a cell: what it is, how it goes, and its journal. Never holds code, scripts or variables on disk."""

    def __init__(
        self,
        folder: Path,
        meta: Json,
        limit: int,
        hidden: Hidden | None = None,
        is_verbatim: bool = False,
    ) -> None:
        self.meta, self.id = meta, str(meta["id"])
        self.hidden, self.is_verbatim = hidden or Hidden(), is_verbatim
        self.journal = Journal(folder, limit, self.hide)
        self.done = asyncio.Event()
        self.changed = 0.0
        self.cancel: Callable[[], None] = self.cancel_queued
        self.is_cancelled = False
        self.kept_bytes: int | None = None
        self.is_left = False
        self.on_end: Callable[[], None] | None = None
        if meta["state"] == "ended":
            self.done.set()

    def hide(self, entry: Json) -> Json:
        """An entry as it may be journaled. Of what nbprov itself asked for and reads nothing is touched that would spoil it."""
        if self.is_verbatim and entry["k"] == "stdout":
            return entry
        try:
            return self.hidden.entry(
                entry, LEAST_IN_BINARY if self.is_verbatim and entry["k"] == "stream" else 0
            )
        except RecursionError:
            # It was not looked through to its end, and who listens to the kernel must not end by it.
            return {"k": "note", "text": "[an output was left out: it is nested too deeply]\n"}

    def masker(self) -> StreamMasker:
        """For output that comes in pieces."""
        return StreamMasker(Hidden() if self.is_verbatim else self.hidden)

    def take_up_end(self) -> None:
        """Of an earlier agent, which died before it saved what it had told of the end."""
        last = (
            Cursor(self.journal, self.journal.last - 1).read()
            if self.is_live and self.journal.last
            else []
        )
        if last and last[-1]["k"] == "end":
            end = last[-1]
            self.meta.update(
                state="ended", status=end["status"], exit_code=end.get("exit_code"), ended=end["t"]
            )
            self.done.set()
            self.save()

    def cancel_queued(self) -> None:
        self.is_cancelled = True
        self.end("cancelled")

    def mark_cancelled(self) -> None:
        """While its process is being started: it is ended as soon as it is there."""
        self.is_cancelled = True

    def save(self) -> None:
        write_json(self.journal.folder / "meta.json", self.meta)

    def save_if_live(self) -> None:
        if self.is_live:
            self.save()

    def begin(self, pid: int | None = None) -> None:
        self.meta.update(state="running", started=time.time())
        if pid is not None:
            self.meta.update(pid=pid, pid_started=process_start(pid))
        self.save()

    def begin_cell(self) -> None:
        """It runs. Most cells have ended before this is worth a write, each of which takes as long as a cell does otherwise."""
        self.meta.update(state="running", started=time.time())
        asyncio.get_event_loop().call_later(BEGUN_SECONDS, self.save_if_live)

    def end(
        self, status: str, exit_code: int | None = None, *, is_told_first: bool = False, **more: Any
    ) -> None:
        """It is over. With `is_told_first` those who follow are told before it is saved; should the agent die between, its journal tells."""
        if self.done.is_set():
            return
        self.changed = boottime()
        if self.is_left and status == "cancelled":
            status = "lost"  # nobody cancelled it: its machine stops
            self.meta["left"] = True
        self.meta.update(state="ended", status=status, exit_code=exit_code, ended=time.time())
        self.journal.append({"k": "end", "status": status, "exit_code": exit_code, **more})
        if is_told_first:
            asyncio.get_event_loop().call_soon(self.save)
        else:
            self.save()
        self.cancel = self.cancel_queued  # what it held of its process is let go
        self.done.set()
        if self.on_end is not None:
            self.on_end()

    @property
    def is_live(self) -> bool:
        return not self.done.is_set()

    @property
    def kept(self) -> int:
        """Bytes of output of an ended task: looked at once, since every start of a task asks for all of them."""
        if self.kept_bytes is None:
            self.kept_bytes = self.journal.total
        return self.kept_bytes

    def info(self) -> Json:
        return {
            **{k: v for k, v in self.meta.items() if k != "pid_started"},
            "last": self.journal.last,
        }


class Output:
    """Reads one pipe of a process into a journal, line by line, secrets blotted out wherever the pieces are cut."""

    def __init__(
        self, kind: str, reader: asyncio.StreamReader, journal: Journal, masker: StreamMasker
    ) -> None:
        self.kind, self.reader, self.journal, self.masker = kind, reader, journal, masker
        self.is_muted = False
        self.reads = 0
        self.pending = ""

    async def pump(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            seconds = (
                PARTIAL_SECONDS if self.pending else HELD_SECONDS if self.masker.is_brief else None
            )
            try:
                data = await asyncio.wait_for(self.reader.read(LINE_LIMIT), seconds)
            except asyncio.TimeoutError:
                self.pending = self.pending or self.masker.early()
                self.flush()
                continue
            self.reads += 1
            self.pending += self.masker.add(decoder.decode(data, not data))
            lines = self.pending.split("\n")
            self.pending = lines.pop()
            self.write(
                [line + "\n" for line in lines]
                if len(lines) < FLOOD_LINES
                else in_pieces("\n".join(lines) + "\n")
            )
            if len(self.pending) > LINE_LIMIT:
                self.flush()
            if not data:
                self.finish()
                return

    def finish(self) -> None:
        """The last of it, a line's beginning and what was held back."""
        self.pending += self.masker.end()
        self.flush()

    def flush(self) -> None:
        text, self.pending = self.pending, ""
        self.write([text] if text else [])

    def write(self, lines: list[str]) -> None:
        if lines and not self.is_muted:
            self.journal.append(*({"k": self.kind, "text": line} for line in lines))


def in_pieces(text: str) -> list[str]:
    """Cut a text at line ends into pieces of some kB."""
    pieces, start = [], 0
    while start < len(text):
        end = (
            text.rfind("\n", start, start + FLOOD_PIECE) + 1
            or text.find("\n", start) + 1
            or len(text)
        )
        pieces.append(text[start:end])
        start = end
    return pieces


def chosen_python() -> str:
    """The folder of the environment that the spec's `python` made; empty where there is none that works."""
    place = os.path.realpath(os.path.join(os.path.dirname(PROGRAM), "python"))
    return place if os.access(os.path.join(place, "bin", "python"), os.X_OK) else ""


def environment_has(place: str, package: str) -> bool:
    """Whether an environment holds a package: looked for, as importing it may take long on a disk that is just being read."""
    return (
        next(Path(place).glob(f"lib/python*/site-packages/{package}/__init__.py"), None) is not None
    )


def child_environment(env: Json) -> dict[str, str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith("SSH_")}
    base["PATH"] = base.get("PATH", os.defpath) + os.pathsep + os.path.expanduser("~/.local/bin")
    place = chosen_python()
    if place:
        base["PATH"] = os.path.join(place, "bin") + os.pathsep + base["PATH"]
        base["VIRTUAL_ENV"] = place
        base.pop("PYTHONHOME", None)
    base["PYTHONUNBUFFERED"] = "1"
    base.update({str(k): str(v) for k, v in env.items()})
    return base


def working_folder(given: str | None) -> str:
    path = os.path.join(home(), os.path.expanduser(given or "~"))
    if not os.path.isdir(path):
        raise Refused("no-folder", f"the folder {path} does not exist on the machine")
    return path


def script_command(script: str, name: str, umask: int) -> tuple[list[str], int]:
    """A command that runs a script which is in no file and on no command line, and the open file to pass on."""
    with tempfile.TemporaryFile() as file:
        file.write(script.replace("\0", "").encode())
        file.flush()
        has_names = os.path.exists("/dev/fd/0")
        copy = (
            os.open("/dev/fd/%d" % file.fileno(), os.O_RDONLY)
            if has_names
            else os.dup(file.fileno())
        )
        os.lseek(copy, 0, os.SEEK_SET)
    shell = "bash" if shutil.which("bash") else "sh"
    reset = f"{{ echo 0 >/proc/self/oom_score_adj; }} 2>/dev/null; umask {umask:03o}; "
    if shell == "bash":
        # It reads by itself: another process for that takes as long as the whole of a short script.
        read = 'IFS= read -r -d "" _nbprov <&%d; exec %d<&-; ' % (copy, copy)
    else:
        # dash knows open files by one digit only.
        read = "_nbprov=$(cat {}{}); ".format("/dev/fd/" if has_names else "<&", copy)
    return [shell, "-c", reset + read + 'eval "unset _nbprov; $_nbprov"', name], copy


async def open_pipe() -> tuple[asyncio.StreamReader, int]:
    """A pipe of our own, its writing end for a child: with asyncio's, `wait` lasts until whatever inherited them has ended too."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_event_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    return reader, writing


async def run_process(task: Task, script: str, env: Json, cwd: str | None, umask: int) -> None:
    """Run a job or a shell to its end in a process group of its own."""
    task.cancel = task.mark_cancelled
    try:
        folder = working_folder(cwd)
        command, descriptor = script_command(script, str(task.meta["name"]), umask)
        (outs, out), (errs, err) = await open_pipe(), await open_pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(descriptor,),
                start_new_session=True,
                env=child_environment(env),
                cwd=folder,
            )
        finally:
            for number in (descriptor, out, err):
                os.close(number)
    except (OSError, Refused) as error:
        task.journal.append({"k": "stderr", "text": f"nbprov: {error}\n"})
        task.end("failed", 127)
        return
    task.begin(process.pid)
    task.cancel = lambda: keep(asyncio.ensure_future(end_process(task, process)))
    if task.is_cancelled:
        task.cancel()
    outputs = [
        Output("stdout", outs, task.journal, task.masker()),
        Output("stderr", errs, task.journal, StreamMasker(task.hidden)),
    ]
    pumps = [keep(asyncio.ensure_future(output.pump())) for output in outputs]
    code = await process.wait()
    for _ in range(10):
        seen = sum(output.reads for output in outputs)
        _, open_pumps = await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
        if not open_pumps or seen == sum(output.reads for output in outputs):
            break
    for output in outputs:
        output.finish()
        output.is_muted = True  # what was left in the background is read on, so that it does not die of a broken pipe
    is_shell = (
        task.meta["kind"] == "shell"
    )  # a person waits for it; what follows a job reads what was saved
    task.end(
        "cancelled" if task.is_cancelled else "ok" if code == 0 else "failed",
        code,
        is_told_first=is_shell,
    )


async def end_process(task: Task, process: asyncio.subprocess.Process) -> None:
    task.is_cancelled = True
    kill_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(task.done.wait()), CANCEL_SECONDS)
    kill_group(process.pid, signal.SIGKILL)


_running: set[Any] = set()


def keep(future: Any) -> Any:
    """Hold on to a task of the loop, which itself does not, and show its error if it fails."""

    def finished(done: Any) -> None:
        _running.discard(done)
        if not done.cancelled() and done.exception() is not None:
            traceback.print_exception(
                type(done.exception()), done.exception(), done.exception().__traceback__
            )

    _running.add(future)
    future.add_done_callback(finished)
    return future


# ---------------------------------------------------------------- the queue of jobs


class JobQueue:
    """Submitted jobs begin in the order of their coming, each once the GPUs it asks for are free; none overtakes another.

    A job takes whole GPUs, a share of one, or all of them. Where a machine has no GPU, "all" is the machine itself: such jobs run one after
    the other. A job that asks for 0 GPUs is given none and waits for nobody. What waits for another job's end (`after`) keeps nobody
    waiting meanwhile. Nothing begins while the machine is set up, or ends itself.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.waiting: list[tuple[Task, Json]] = []
        self.holders: dict[str, dict[int, int]] = {}
        self.told = 0

    def total(self) -> int:
        """How many GPUs there are: what is seen, else what the client knows of the machine that it got."""
        return sum(1 for line in self.agent.activity.gpus if line.startswith("GPU ")) or self.told

    def add(self, task: Task, frame: Json) -> None:
        self.waiting.append((task, frame))
        if task.meta.get("held"):
            asyncio.get_event_loop().call_later(HOLD_SECONDS, self.expire, task)
        self.look()

    def release(self, task: Task) -> None:
        """The other nodes have their parts: this one may begin when it is its turn."""
        if task.meta.pop("held", None):
            task.save()
        self.look()

    def expire(self, task: Task) -> None:
        if task.meta.get("held") and task.is_live:
            words = "nbprov: who submitted this went away before every node had its part; submit it again\n"
            task.journal.append({"k": "note", "text": words})
            task.end("lost")
            self.look()

    def places(self) -> dict[str, int]:
        """Ids of the jobs that wait, and where they stand: 1 for the next one to begin."""
        return {
            task.id: number
            for number, task in enumerate((task for task, _ in self.waiting if task.is_live), 1)
        }

    def look(self) -> None:
        """Begin whatever may begin now."""
        steps = (
            task
            for task in self.agent.tasks.values()
            if task.meta["name"] in STEPS and task.meta["kind"] == "job"
        )
        if self.agent.ending is not None or any(task.is_live for task in steps):
            return
        is_blocked = False
        for task, frame in list(self.waiting):
            if task.is_live and not self.has_its_jobs(task, frame):
                continue
            if task.is_live:
                wanted = task.meta["gpus"]
                devices = (
                    None
                    if task.meta.get("held") or (is_blocked and wanted != 0)
                    else self.fit(wanted)
                )
                if devices is None:
                    is_blocked = True
                    continue
                self.begin(task, frame, devices)
            self.waiting.remove((task, frame))

    def has_its_jobs(self, task: Task, frame: Json) -> bool:
        """Whether the jobs it comes after have succeeded; where one of them did not, it is skipped."""
        for name in frame.get("after") or []:
            before = self.agent.tasks.get(name)
            if before is not None and before.is_live:
                return False
            if before is None or before.meta.get("status") != "ok":
                skip(task, name)
                self.waiting.remove((task, frame))
                return False
        return True

    def fit(self, wanted: Any) -> dict[int, int] | None:
        """The GPUs for a job and how much of each it takes; None where they are not free."""
        if wanted == 0:
            return {}
        free = dict.fromkeys(range(max(1, self.total())), GPU_SHARES)
        for held in self.holders.values():
            for device, taken in held.items():
                free[device] = free.get(device, GPU_SHARES) - taken
        whole = sorted(device for device, left in free.items() if left == GPU_SHARES)
        if wanted == "all":
            return dict.fromkeys(whole, GPU_SHARES) if len(whole) == len(free) else None
        if wanted < 1:
            taken = max(1, round(wanted * GPU_SHARES))
            # The fullest that has room: whole ones stay whole for as long as can be.
            fitting = sorted((left, device) for device, left in free.items() if left >= taken)
            return {fitting[0][1]: taken} if fitting else None
        return dict.fromkeys(whole[: int(wanted)], GPU_SHARES) if len(whole) >= wanted else None

    def begin(self, task: Task, frame: Json, devices: dict[int, int]) -> None:
        self.holders[task.id] = devices
        env = dict(frame["env"])
        if self.total():
            task.meta["devices"] = sorted(devices)
            # As nvidia-smi counts them, whose order is not CUDA's own; -1 hides them all.
            shown = ",".join(map(str, sorted(devices))) or "-1"
            env.update(CUDA_VISIBLE_DEVICES=shown, CUDA_DEVICE_ORDER="PCI_BUS_ID")
            if os.path.exists("/dev/kfd"):
                env["HIP_VISIBLE_DEVICES"] = shown
        task.cancel = task.mark_cancelled
        keep(asyncio.ensure_future(self.run(task, frame, env)))

    async def run(self, task: Task, frame: Json, env: Json) -> None:
        try:
            await run_process(task, frame["code"], env, frame.get("cwd"), self.agent.umask)
        finally:
            self.holders.pop(task.id, None)
            self.agent.prune()
            self.look()

    def give_up(self) -> None:
        """The agent ends: what has not begun never will."""
        for task, _ in self.waiting:
            if task.is_live:
                task.journal.append(
                    {
                        "k": "note",
                        "text": "nbprov: the agent on the machine ended before this began; submit it again\n",
                    }
                )
                task.end("lost")
        self.waiting.clear()

    def check(self, frame: Json) -> Json:
        """Refuse what could never begin; what is kept of the rest in the task's state."""
        wanted = frame.get("gpus", "all")
        total = self.total()
        is_number = isinstance(wanted, (int, float)) and not isinstance(wanted, bool)
        if wanted != "all" and not (
            is_number and 0 <= wanted < 10000 and (wanted < 1 or wanted == int(wanted))
        ):
            raise Refused(
                "bad-gpus",
                f"a job asks for all GPUs, a whole number of them, or a share of one, not {wanted!r}",
            )
        if wanted != "all" and wanted > total:
            raise Refused(
                "too-many-gpus",
                f"this node has {total or 'no'} GPU{'' if total == 1 else 's'}, the job asks for {wanted:g}",
            )
        if len(self.waiting) >= WAITING_JOBS:
            raise Refused("queue-full", "%d jobs wait already" % len(self.waiting))
        if frame.get("held") and any(
            task.is_live and task.meta.get("held") for task, _ in self.waiting
        ):
            raise Refused("held", "another job for several nodes is being submitted")
        return {
            "gpus": wanted,
            "nodes": int(frame.get("nodes") or 1),
            **({"held": True} if frame.get("held") else {}),
        }


def skip(task: Task, name: str) -> None:
    task.journal.append({"k": "note", "text": f"nbprov: not run, because {name} did not succeed\n"})
    task.end("skipped")


# ---------------------------------------------------------------- kernels, seen from the agent


class Kernel:
    """One ipykernel with its queue of cells, owned through a kernel host."""

    def __init__(self, name: str, agent: Agent) -> None:
        self.name, self.agent = name, agent
        self.state, self.count = "none", 0
        self.info: Json = {}
        self.queue: asyncio.Queue[tuple[Task, Json]] = asyncio.Queue()
        self.host: asyncio.subprocess.Process | None = None
        self.current: Task | None = None
        self.ready: asyncio.Future[None] | None = None
        self.helper: asyncio.subprocess.Process | None = None
        self.env: Json = {}
        self.late: list[Json] = []
        self.late_bytes = 0
        self.death = ""
        self.born = ""
        self.asked: dict[str, asyncio.Future[Json]] = {}
        self.place = ""
        self.streams: dict[str, StreamMasker] = {}
        self.early: asyncio.TimerHandle | None = None
        keep(asyncio.ensure_future(self.work()))

    async def work(self) -> None:
        while True:
            task, request = await self.queue.get()
            if task.is_live:
                self.current = task
                task.cancel = self.interrupt
                try:
                    await self.run(task, request)
                except Exception as error:
                    if not isinstance(error, (OSError, Refused)):
                        traceback.print_exc()
                    self.fail(task, "KernelError", str(error))
                finally:
                    self.current = None

    async def run(self, task: Task, request: Json) -> None:
        task.begin_cell()
        if self.host is not None and self.place != chosen_python():
            self.kill("the Python environment of the machine is another one now")
        if self.host is None:
            await self.start(task, request)
        if task.done.is_set():
            return
        if not task.meta.get("own"):
            self.show_late(task)
        fresh = {k: v for k, v in request.get("env", {}).items() if self.env.get(k) != v}
        self.env.update(fresh)
        self.count += 1
        self.state = "busy"
        self.send(
            {
                "op": "run",
                "cell": task.id,
                "code": request["code"],
                "silent": bool(request.get("silent")),
                "env": fresh,
            }
        )
        await task.done.wait()

    def show_late(self, task: Task) -> None:
        """What came between the cells, in the first one that somebody sees."""
        late, size, self.late, self.late_bytes = self.late, self.late_bytes, [], 0
        if late:
            task.journal.append(*late)
        if size > LATE_BYTES:
            say(
                task,
                "nbprov: %d MB came between the cells; the first %d MB are above"
                % (size >> 20, LATE_BYTES >> 20),
            )

    async def start(self, task: Task, request: Json) -> None:
        self.state = "starting"
        folder = working_folder(request.get("cwd"))
        death, self.death = self.death or self.agent.lost_kernel(self.name), ""
        self.place = chosen_python()
        if death:
            say(
                task,
                f"nbprov: the kernel had ended ({death}); this is a new one, its variables are gone",
            )
        python = await self.agent.find_kernel_python(lambda line: say(task, line), self)
        if task.done.is_set() or python is None:
            self.state = "none"
            if not task.done.is_set():
                self.fail(
                    task,
                    "KernelError",
                    "there is no Python with ipykernel on the machine and it could not be installed; the lines above say why",
                )
            return
        self.env, self.born = dict(request.get("env", {})), os.urandom(8).hex()
        self.host = await asyncio.create_subprocess_exec(
            python,
            PROGRAM,
            "kernel-host",
            str(self.agent.folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=child_environment({}),
        )
        self.ready = asyncio.get_event_loop().create_future()
        keep(asyncio.ensure_future(self.listen(self.host)))
        self.send({"op": "start", "env": self.env, "cwd": folder, "umask": self.agent.umask})
        try:
            await asyncio.wait_for(asyncio.shield(self.ready), KERNEL_START_SECONDS)
        except asyncio.TimeoutError:
            self.kill("did not start within %d s" % KERNEL_START_SECONDS)
            raise Refused(
                "kernel", "the kernel did not start within %d s" % KERNEL_START_SECONDS
            ) from None

    def send(self, frame: Json) -> None:
        if self.host is None or self.host.stdin is None:
            raise Refused("kernel", "the kernel is gone")
        self.host.stdin.write(pack(frame))

    async def listen(self, host: asyncio.subprocess.Process) -> None:
        assert host.stdout is not None
        while True:
            frame = await read_frame(host.stdout)
            if frame is None:
                break
            if host is self.host:
                self.hear(frame)
        await host.wait()
        if host is self.host:
            self.gone("its host process ended")

    def hear(self, frame: Json) -> None:
        event = frame["ev"]
        if event == "ready":
            self.state, self.info = "idle", frame["info"]
            self.agent.note_kernel(self.name, is_there=True)
            if self.ready is not None and not self.ready.done():
                self.ready.set_result(None)
        elif event == "out":
            self.take(frame["type"], frame["content"])
        elif event == "state":
            self.state = frame["state"]
        elif event == "completed":
            asked = self.asked.pop(frame["ask"], None)
            if asked is not None and not asked.done():
                asked.set_result(
                    {
                        key: self.agent.hidden.inside(value)
                        for key, value in frame["content"].items()
                    }
                )
        elif event == "done":
            if self.current is not None and self.current.id == frame["cell"]:
                self.state = "idle"
                self.end_streams()
                self.current.end(
                    frame["status"],
                    is_told_first=True,
                    execution_count=frame.get("execution_count"),
                )
        elif event == "dead":
            self.gone(self.agent.hidden.text(frame["why"]))

    def take(self, kind: str, content: Json) -> None:
        """What the kernel put out. A secret that a stream brings in pieces is found; what may be one's first letters waits for a moment."""
        if kind != "stream" or (self.current is not None and self.current.is_verbatim):
            self.show_early()
            self.put({"k": kind, "content": content})
            return
        name = str(content.get("name"))
        self.show_early(but=name)
        masker = self.streams.setdefault(name, StreamMasker(self.agent.hidden))
        self.put_stream(name, masker.add(str(content.get("text"))))
        if masker.is_brief and self.early is None:
            self.early = asyncio.get_event_loop().call_later(HELD_SECONDS, self.show_early)

    def show_early(self, but: str = "") -> None:
        if not but and self.early is not None:
            self.early.cancel()
            self.early = None
        for name, masker in self.streams.items():
            if name != but:
                self.put_stream(name, masker.early())

    def end_streams(self) -> None:
        """A cell is over: what its streams held back comes, and the next one's begin anew."""
        self.show_early()
        streams, self.streams = self.streams, {}
        for name, masker in streams.items():
            self.put_stream(name, masker.end())

    def put_stream(self, name: str, text: str) -> None:
        if text:
            self.put({"k": "stream", "content": {"name": name, "text": text}})

    def put(self, entry: Json) -> None:
        if self.current is not None and self.current.is_live:
            self.current.journal.append(entry)
            return
        self.late_bytes += len(json.dumps(entry))
        if self.late_bytes <= LATE_BYTES:
            self.late.append(entry)

    async def ask(self, question: str, code: str, cursor: int, detail: int = 0) -> Json:
        """What fits at a cursor (`complete`), or what is known of a name (`inspect`). A kernel at work, or not there, cannot tell and is not waited for."""
        if self.host is None or self.state != "idle" or self.current is not None:
            return {"status": "busy" if self.host is not None else "none"}
        name = os.urandom(8).hex()
        answer = self.asked[name] = asyncio.get_event_loop().create_future()
        try:
            self.send(
                {"op": question, "ask": name, "code": code, "cursor": cursor, "detail": detail}
            )
            return await asyncio.wait_for(answer, COMPLETE_SECONDS)
        except asyncio.TimeoutError:
            return {"status": "late"}
        finally:
            self.asked.pop(name, None)

    def gone(self, why: str) -> None:
        """The kernel ended by itself: the running cell fails loudly, the queued ones are given up."""
        self.end_streams()
        self.kill(why)
        if self.current is not None and self.current.is_live:
            self.fail(
                self.current,
                "KernelDied",
                f"the kernel on the machine ended: {why}; its variables are gone",
            )
        while not self.queue.empty():
            self.queue.get_nowait()[0].end("aborted")

    def kill(self, why: str) -> None:
        host, self.host, self.state, self.death, self.born = self.host, None, "dead", why, ""
        self.late, self.late_bytes = [], 0
        if self.ready is not None and not self.ready.done():
            self.ready.set_exception(Refused("kernel", f"the kernel did not start: {why}"))
            self.ready.exception()
        if host is not None and host.returncode is None:
            # The host ends its kernel when its stdin closes; it gets a moment for that before it is ended itself.
            if host.stdin is not None:
                host.stdin.close()
            keep(asyncio.ensure_future(end_host(host)))

    def fail(self, task: Task, name: str, text: str) -> None:
        if task.done.is_set():
            return
        task.journal.append(
            {
                "k": "error",
                "content": {"ename": name, "evalue": text, "traceback": [f"{name}: {text}"]},
            }
        )
        task.end("error")

    def interrupt(self) -> None:
        if self.helper is not None:
            kill_group(self.helper.pid, signal.SIGTERM)
        if self.current is not None and self.state in ("none", "starting"):
            self.fail(self.current, "KeyboardInterrupt", "interrupted while the kernel was started")
            self.kill("interrupted while it started")
        elif self.host is not None:
            self.send({"op": "interrupt"})

    def restart(self) -> None:
        """End the kernel; the next cell starts a new one."""
        if self.host is not None:
            self.gone("restarted")
        self.death, self.state, self.count = "", "none", 0


def say(task: Task, line: str) -> None:
    task.journal.append({"k": "stream", "content": {"name": "stderr", "text": line + "\n"}})


async def end_host(host: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(host.wait(), CANCEL_SECONDS)
    kill_group(host.pid, signal.SIGKILL)


# ---------------------------------------------------------------- what goes on on the machine


class Process:
    """One row of /proc."""

    __slots__ = ("name", "parent", "pid", "session", "start", "ticks")

    def __init__(self, pid: int, stat: str) -> None:
        head, _, tail = stat.rpartition(")")
        fields = tail.split()
        self.pid, self.name = pid, head.partition("(")[2]
        self.parent, self.session, self.start = int(fields[1]), int(fields[3]), int(fields[19])
        self.ticks = sum(int(field) for field in fields[11:15])


def processes() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", errors="replace") as file,
            ):
                found[int(name)] = Process(int(name), file.read())
    return found


def process_start(pid: int) -> int:
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open("/proc/%d/stat" % pid, errors="replace") as file,
    ):
        return Process(pid, file.read()).start
    return 0


class Activity:
    """Whether the machine does something: ssh sessions, CPU, GPU. Only what belongs to this machine is counted.

    Machines that share one system (the `local` cloud's) mark their processes with NBPROV_INSTANCE; in a container /proc shows its
    own processes only, which is why use is summed over processes and not read from the machine's totals.
    """

    SSH_SERVERS = ("sshd", "sshd-session", "dropbear")
    RESTING = (
        "nbprov-resting"  # a program of a sync that waits for the next one, and ends by itself
    )

    def __init__(self) -> None:
        marker = os.environ.get("NBPROV_INSTANCE", "")
        self.marker = b"NBPROV_INSTANCE=" + marker.encode() if marker else b""
        self.marked: dict[tuple[int, int], bool] = {}
        self.before: tuple[float, dict[int, int]] | None = None
        self.sessions, self.cores = 0, 0.0
        self.gpu_percent: float | None = None
        self.gpus: list[str] = []
        self.gpu_read = 0.0

    def is_ours(self, process: Process) -> bool:
        if not self.marker:
            return True
        key = (process.pid, process.start)
        if key not in self.marked:
            try:
                with open("/proc/%d/environ" % process.pid, "rb") as file:
                    self.marked[key] = self.marker in file.read().split(b"\0")
            except OSError:
                self.marked[key] = False
        return self.marked[key]

    def look(self, bridges: set[int]) -> None:
        """Count ssh sessions and CPU use since the last look. `bridges` are sessions of the agent's own channels."""
        every = processes()
        ours = {pid: process for pid, process in every.items() if self.is_ours(process)}
        self.marked = {key: value for key, value in self.marked.items() if key[0] in every}
        self.sessions = sum(
            1
            for process in ours.values()
            if self.is_session(process, every) and process.session not in bridges
        )
        now = boottime()
        if self.before is not None and now - self.before[0] < CPU_SECONDS:
            return
        ticks = {pid: process.ticks for pid, process in ours.items() if pid != os.getpid()}
        if self.before is not None:
            since, earlier = self.before
            # A process that is new and has used much already was there before, and only now became known as ours.
            used = sum(
                count - earlier.get(pid, 0)
                for pid, count in ticks.items()
                if pid in earlier or count < 200
            )
            self.cores = max(0.0, used / os.sysconf("SC_CLK_TCK") / (now - since))
        self.before = (now, ticks)

    def is_session(self, process: Process, every: dict[int, Process]) -> bool:
        parent = every.get(process.parent)
        if (
            parent is None
            or parent.name not in self.SSH_SERVERS
            or process.name in (*self.SSH_SERVERS, self.RESTING)
        ):
            return False
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % process.pid, "rb") as file:
            return b"agent.py" not in file.read()
        return False

    async def look_at_gpus(self) -> None:
        """Ask nvidia-smi now and then, where there is one; use counts only where there is a real device."""
        if time.monotonic() - self.gpu_read < GPU_SECONDS and self.gpu_read:
            return
        self.gpu_read = time.monotonic()
        self.gpus = (await command_output("nvidia-smi", "-L")).splitlines()
        self.gpu_percent = None
        if self.gpus and has_nvidia_device() and not self.marker:
            text = await command_output(
                "nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"
            )
            numbers = [float(word) for word in text.split() if re.match(r"\d+(\.\d+)?\Z", word)]
            self.gpu_percent = max(numbers) if numbers else None


def has_nvidia_device() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


async def command_output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), GPU_SECONDS)
    except asyncio.TimeoutError:
        kill_group(process.pid, signal.SIGKILL)
        return ""
    return out.decode("utf-8", "replace").strip() if process.returncode == 0 else ""


# ---------------------------------------------------------------- guards


def limits(config: Json) -> Json:
    """A configuration of the guards without what was spent so far."""
    budget = config.get("budget")
    return {**config, "budget": budget and {**budget, "spent_micros": 0}}


class Guards:
    """The clocks of idleness, lifetime and budget. Pure but for its state file: readings of time and activity are handed in."""

    def __init__(
        self,
        folder: Path,
        now: float,
        wall: float,
        identity: str,
        is_restart: bool = False,
        is_boot: bool = False,
    ) -> None:
        self.path = folder / "guards.json"
        saved = read_json(self.path) or {}
        self.config: Json = saved.get("config", {})
        self.age: float = saved.get("age", 0.0)
        self.running: float = saved.get("running", 0.0)
        self.budget_base: float = saved.get("budget_base", 0.0)
        self.carried: float = saved.get(
            "carried", (self.config.get("budget") or {}).get("spent_micros", 0)
        )
        self.warned: list[str] = saved.get("warned", [])
        self.held: float | None = (
            (saved.get("held") or None) if saved.get("identity") == identity else None
        )
        self.identity, self.now, self.wall, self.saved_at = identity, now, wall, now
        if saved.get("identity") == identity:
            # The same start of the machine: the agent itself was away, the machine was not.
            # Started anew by its supervisor it goes on as before; started by a person, that is activity.
            self.idle_since = min(now, saved["idle_since"]) if is_restart else now
            away = max(0.0, now - saved["now"])
            self.age += away
            self.running += away
        else:
            billed = since_boot(folder, now, wall)
            self.idle_since = now
            self.age += max(0.0, wall - saved["wall"]) if saved else billed
            self.running += billed
            self.budget_base = self.budget_base if saved else self.running
        self.spared = {
            state["guard"]: now + RETURN_SECONDS
            for state in self.states()
            if is_boot and is_due(state)
        }
        self.save()

    def save(self) -> None:
        keys = (
            "config",
            "age",
            "running",
            "budget_base",
            "carried",
            "warned",
            "held",
            "identity",
            "now",
            "wall",
            "idle_since",
        )
        write_json(self.path, {key: getattr(self, key) for key in keys})
        self.saved_at = self.now

    def set(self, config: Json) -> None:
        """Take a new configuration. A changed idle rule starts the idle clock anew, a changed limit the budget's count; the age goes on.

        A changed price takes along what was spent at the old one, as counted here or as told: who is told late counted too little.
        """
        watched = ("idle_seconds", "wait_for", "mode")
        if [config.get(key) for key in watched] != [self.config.get(key) for key in watched]:
            self.idle_since = self.now
        before, budget = self.config.get("budget"), config.get("budget")
        if budget and budget != before:
            told = budget.get("spent_micros", 0)
            is_same = before is not None and before["limit_micros"] == budget["limit_micros"]
            self.carried = max(self.spent(), told) if is_same else told
            self.budget_base = self.running
        # Told again, only with what was spent by now, they are what they were: nothing is warned of twice, and who is to be waited for is.
        if limits(config) != limits(self.config):
            self.warned, self.spared = [], {}
        self.config = config
        self.save()

    def spent(self) -> float:
        """What was spent of the budget: at earlier prices, and since then at the one of now."""
        budget = self.config.get("budget")
        return (
            self.carried + budget["hourly_micros"] * (self.running - self.budget_base) / 3600.0
            if budget
            else 0.0
        )

    def tick(self, now: float, wall: float, active: list[str]) -> None:
        """Advance the clocks; `active` says what goes on."""
        passed = max(0.0, now - self.now)
        self.age += passed
        self.running += passed
        self.now, self.wall = now, wall
        if active:
            self.idle_since = now
        if now - self.saved_at >= SAVE_SECONDS:
            self.save()

    def heed(self, others_active: float) -> None:
        """Count what the cluster's other machines did as activity of the instant at which they did it."""
        self.idle_since = max(self.idle_since, min(self.now, others_active))

    def gang_pause(self) -> float:
        """Seconds between two words to the cluster's other machines."""
        idle = self.config.get("idle_seconds") or math.inf
        return max(SHORTEST_TICK, min(GANG_SECONDS, idle / GANG_SHARE))

    def states(self) -> list[Json]:
        """Every guard that is on, with the seconds it leaves: negative or zero means it is due."""
        found = []
        idle, lifetime, budget = (
            self.config.get("idle_seconds"),
            self.config.get("max_lifetime_seconds"),
            self.config.get("budget"),
        )
        if budget:
            hourly, limit = budget["hourly_micros"], budget["limit_micros"]
            spent = self.spent()
            keep_back = hourly * budget.get("reserve_seconds", 0) / 3600.0
            mode = budget.get("mode", "terminate")
            buys = (limit - self.carried) * 3600.0 / hourly if hourly else 0.0
            hold = self.hold(mode, max(0.0, buys))
            left: float | None = (
                (limit - keep_back - spent) * 3600.0 / hourly - hold if hourly else None
            )
            reason = f"budget: ${spent / 1e6:.4f} of ${limit / 1e6:.4f} spent"
            found.append(
                {
                    "guard": "budget",
                    "left": left,
                    "mode": mode,
                    "reason": reason,
                    "hold": hold,
                    "spent_micros": int(spent),
                }
            )
        if lifetime:
            hold = self.hold("terminate", lifetime)
            reason = "lifetime: %d s are over" % lifetime
            found.append(
                {
                    "guard": "lifetime",
                    "left": lifetime - hold - self.age,
                    "mode": "terminate",
                    "reason": reason,
                    "hold": hold,
                }
            )
        if idle:
            reason = "idle: nothing was done for %d s" % idle
            mode = self.config.get("mode", "terminate")
            left = idle - (self.now - self.idle_since)
            found.append(
                {
                    "guard": "idle",
                    "left": left,
                    "mode": mode,
                    "reason": reason,
                    "hold": self.hold(mode),
                }
            )
        return found

    def hold(self, mode: str, limit: float | None = None) -> float:
        """Seconds for which outputs are waited for before a guard ends the machine; a limit comes due so much earlier, and so holds."""
        wanted = (
            float((self.config.get("outputs") or {}).get("hold_seconds", 0.0))
            if mode == "terminate"
            else 0.0
        )
        return wanted if limit is None else min(wanted, limit / LIMIT_SHARE)

    def hold_until(self, due: Json) -> float:
        """When a hold that begins now is over. It goes beyond no limit, and an agent that was started anew goes on with the hold there was."""
        limits = [
            s["left"] + s["hold"]
            for s in self.states()
            if s["guard"] != "idle" and s["left"] is not None
        ]
        until = self.now + max(0.0, min([due["hold"], *limits]))
        self.held = until if self.held is None else min(self.held, until)
        self.save()
        return self.held

    def due(self) -> Json | None:
        return next(
            (
                state
                for state in self.states()
                if is_due(state) and self.now >= self.spared.get(state["guard"], 0.0)
            ),
            None,
        )

    def warnings(self) -> list[Json]:
        """Guards that end whatever runs and come near, each told once."""
        near = [
            s
            for s in self.states()
            if s["guard"] != "idle" and s["left"] is not None and 0 < s["left"] <= WARNING_SECONDS
        ]
        fresh = [state for state in near if state["guard"] not in self.warned]
        self.warned += [state["guard"] for state in fresh]
        return fresh

    def pause(self) -> float:
        """Seconds to the next look: a twentieth of the nearest limit, within bounds."""
        lengths = [state["left"] for state in self.states() if state["left"] is not None]
        lengths += [self.config["idle_seconds"]] if self.config.get("idle_seconds") else []
        return (
            min(TICK_SECONDS, *(max(SHORTEST_TICK, length / 20.0) for length in lengths))
            if lengths
            else TICK_SECONDS
        )


def is_due(state: Json) -> bool:
    return state["left"] is not None and bool(state["left"] <= 0)


def since_boot(folder: Path, now: float, wall: float) -> float:
    """Seconds since the machine was started, as far as the start script told: what was billed of this start before the agent came."""
    try:
        return min(now, max(0.0, wall - (folder / "boot.id").stat().st_mtime))
    except OSError:
        return 0.0  # in a container the uptime is the host's and says nothing


# ---------------------------------------------------------------- variables on their way


class Boxes:
    """Files through which variables pass between a notebook and a kernel here. Each is there for one copy and is removed with its end.

    What is written says where it belongs, so a piece that is sent twice is there once. A box whose notebook is gone is removed by its age, and all
    are where the agent starts anew, since the kernels that were to read them are gone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "boxes"
        self.changed = 0.0
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, frame: Json) -> Path:
        name = str(frame["box"])
        if not re.match(r"[0-9a-f]{32}\Z", name):
            raise Refused("bad-box", f"{name!r} is not a name of a box")
        self.changed = boottime()
        return self.folder / name

    def all(self) -> dict[Path, os.stat_result]:
        found = {}
        for path in self.folder.glob("*"):
            with contextlib.suppress(OSError):
                found[path] = path.stat()
        return found

    def put(self, frame: Json) -> Json:
        path, offset, data = (
            self.path(frame),
            int(frame["offset"]),
            binascii.a2b_base64(frame["data"]),
        )
        if sum(stat.st_size for stat in self.all().values()) + len(data) > BOXES_BYTES:
            raise Refused(
                "boxes-full", "more than %d MB of variables are on their way" % (BOXES_BYTES >> 20)
            )
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with open(
                os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0
            ) as file:
                size = os.fstat(file.fileno()).st_size
                if 0 <= offset <= size:
                    file.truncate(offset)
                    file.seek(offset)
                    size = offset + file.write(data)
        except OSError as error:
            raise Refused(
                "no-room", f"variables cannot be written on the machine: {error}"
            ) from None
        return {"size": size, "path": str(path)}

    def get(self, frame: Json) -> Json:
        path, offset, size = self.path(frame), int(frame["offset"]), int(frame["size"])
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(max(0, min(size, BOX_PIECE)))
            os.utime(str(path))
        except OSError as error:
            raise Refused("no-box", f"the variables on their way are gone: {error}") from None
        return {"data": binascii.b2a_base64(data, newline=False).decode()}

    def drop(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    def lapse(self) -> None:
        """Remove what nobody comes for any more."""
        for path, stat in self.all().items():
            if not -BOX_SECONDS < time.time() - stat.st_mtime < BOX_SECONDS:
                self.drop(path)


# ---------------------------------------------------------------- the gang: the cluster's other machines


class Peer:
    """Another machine of the cluster, as far as it was heard of. Times are of this machine's own clock."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.nonce, self.number = "", 0
        self.past: set[str] = set()
        self.active: float | None = None
        self.heard: float | None = None


class Gang(asyncio.DatagramProtocol):
    """Tells the agents of the cluster's other machines how long this one has been idle, and hears the same of them.

    So a machine that waits while another one computes is not idle, and all of them become idle at the same instant, with no laptop in
    between. What goes round is when a machine itself was last active, never what it heard: two idle machines cannot keep each other awake,
    and one that died ages like any other. A word is a datagram under a secret of the cluster's. It repeats what the hearer last called
    itself (a random name for each start of an agent) and has a number, so that an old word counts for nothing; no clock is compared.
    """

    def __init__(self, folder: Path, idle_since: float) -> None:
        self.path = folder / "gang.json"
        self.own = idle_since
        self.nonce, self.number = os.urandom(8).hex(), 0
        self.transport: asyncio.DatagramTransport | None = None
        self.here: tuple[str, int] | None = None
        self.told_at, self.told_own, self.trouble = -math.inf, -math.inf, ""
        self.parts: GangParts | None = None
        saved = read_json(self.path)
        try:
            self.take(check_gang(saved) if saved else {})
        except (Refused, KeyError, TypeError, ValueError) as error:
            print(f"{self.path} is of no use: {error}", file=sys.stderr, flush=True)
            self.take({})

    def take(self, config: Json) -> None:
        before = self.here
        self.rank, self.secret = int(config.get("rank", 0)), bytes.fromhex(config.get("secret", ""))
        nodes = [Peer(host, port) for host, port in config.get("nodes", [])]
        self.here = nodes[self.rank].address if nodes else None
        if (
            self.here != before
        ):  # a socket closes a little after it is told to, and the same address could not be had again at once
            self.close()
        self.peers = {rank: node for rank, node in enumerate(nodes) if rank != self.rank}

    def set(self, config: Json) -> None:
        """Take the addresses of now; what was heard of machines that are still there stays."""
        before = self.peers
        self.take(check_gang(config))
        for rank, peer in self.peers.items():
            if rank in before and before[rank].address == peer.address:
                self.peers[rank] = before[rank]
        write_json(self.path, config)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    async def open(self) -> None:
        """Listen at this machine's own address, where there is anybody to hear."""
        if self.transport is None and self.peers:
            made = asyncio.get_event_loop().create_datagram_endpoint(
                lambda: self, local_addr=self.here
            )
            self.transport, _ = await made

    async def speak(self, pause: float) -> None:
        """Tell the others if the last time is `pause` ago, or at once after a silence. The network may come up after the agent, and go."""
        if self.parts is not None and self.parts.live():
            pause = min(pause, GANG_JOB_SECONDS)
        if not self.peers or (
            boottime() - self.told_at < pause and self.own - self.told_own < pause
        ):
            return
        try:
            await self.open()
            self.tell_all()
            self.trouble = ""
        except OSError as error:
            self.told_at = boottime()
            if str(error) != self.trouble:
                self.trouble = str(error)
                print(
                    f"the cluster's other machines cannot be told: {error}",
                    file=sys.stderr,
                    flush=True,
                )

    def tell_all(self) -> None:
        self.told_at, self.told_own = boottime(), self.own
        for rank, peer in self.peers.items():
            self.tell(rank, peer, peer.nonce)

    def tell(self, rank: int, peer: Peer, echo: str, over: list[Json] | None = None) -> None:
        """Say a word to one of them: which jobs it has a part of as well are not over here, or (`over`) how some of them ended here."""
        if self.transport is None:
            return
        self.number += 1
        word = {
            "from": self.rank,
            "to": rank,
            "i": self.nonce,
            "you": echo,
            "n": self.number,
            "idle": round(boottime() - self.own, 3),
        }
        jobs = over if over else self.parts.asked(peer.address) if self.parts is not None else []
        body = fitted(word, "over" if over else "live", jobs)
        self.transport.sendto(self.sign(body) + body, peer.address)

    def sign(self, body: bytes) -> bytes:
        return hmac.new(self.secret, body, hashlib.sha256).digest()

    def error_received(self, error: Exception) -> None:
        """A machine that does not listen yet, or any more: the next word may reach it."""

    def datagram_received(self, data: bytes, address: Any) -> None:
        """Hear a word. What is not under the secret is not looked at, and gets no answer."""
        if len(data) > GANG_BYTES or not hmac.compare_digest(data[:32], self.sign(data[32:])):
            return
        try:
            word = json.loads(data[32:])
            rank, name, number, idle = (
                int(word["from"]),
                str(word["i"]),
                int(word["n"]),
                float(word["idle"]),
            )
            is_mine, is_fresh = word["to"] == self.rank, word["you"] == self.nonce
        except (KeyError, TypeError, ValueError, OverflowError):
            return
        peer = self.peers.get(rank)
        if peer is None or not is_mine or not 0 <= idle < math.inf:
            return
        if not is_fresh:
            # Its agent does not know who we are now, or this is an old word: say it, and believe what comes then.
            self.tell(rank, peer, name)
        elif name != peer.nonce and name not in peer.past:
            peer.past.add(peer.nonce)
            peer.nonce, peer.number = name, 0
        if is_fresh and name == peer.nonce and number > peer.number:
            first, peer.number, peer.heard = peer.heard is None, number, boottime()
            peer.active = max(peer.heard - idle, -math.inf if peer.active is None else peer.active)
            if first:
                self.tell(rank, peer, peer.nonce)
            if self.parts is not None:
                over = self.parts.hear(peer.address, word)
                if over:
                    self.tell(rank, peer, peer.nonce, over)

    def last_active(self) -> float:
        """When any of the others was last active, as far as was heard."""
        return max(
            [peer.active for peer in self.peers.values() if peer.active is not None],
            default=-math.inf,
        )

    def info(self) -> list[Json]:
        now = boottime()
        seen = [(rank, peer.heard, peer.active) for rank, peer in self.peers.items()]
        return [
            {
                "node": rank,
                "heard": None if heard is None else now - heard,
                "idle": None if active is None else now - active,
            }
            for rank, heard, active in seen
        ]


class Part:
    """This machine's part of a job of several nodes.

    `others` has the nodes of the other parts by the addresses that their agents had when the job came: ranks may be dealt out anew since. Those
    whose parts ended well are taken out: nothing that becomes of them matters any more.
    """

    def __init__(self, task: Task, rank: int, others: dict[tuple[str, int], int]) -> None:
        self.task, self.rank, self.others = task, rank, others
        self.blamed: Json | None = None

    def row(self) -> Json:
        """How it ended, as a word has it; where it was ended because of another node's part, that one is named."""
        own = {
            "node": self.rank,
            "status": self.task.meta.get("status"),
            "code": self.task.meta.get("exit_code"),
        }
        return {"job": part_key(self.task.meta), **(self.blamed or own)}


class GangParts:
    """Ends the parts of jobs of which another node's part failed, was cancelled or lost: else they would wait for it, and cost, for ever.

    The end of a part is told of at once. Whoever has a part that is not over asks for the others in each of its words, and gets an answer
    where one of them has ended: so a word that was lost, and a node that could not be reached for a while, need nobody to remember
    them. Part and job are known by a digest of the job's id and its submission.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.parts: dict[str, Part] = {}
        self.silent: dict[tuple[str, int], tuple[float, float]] = {}
        self.looked = boottime()

    def add(self, task: Task) -> None:
        """Take in a job, where it is one of several nodes."""
        if (
            task.meta["kind"] != "job"
            or not task.meta.get("nonce")
            or int(task.meta.get("nodes") or 1) < 2
        ):
            return
        gang = self.agent.gang
        others = {
            peer.address: rank for rank, peer in gang.peers.items() if rank < task.meta["nodes"]
        }
        part = self.parts[part_key(task.meta)] = Part(task, gang.rank, others)
        task.on_end = lambda: self.ended(part)

    def drop(self, task: Task) -> None:
        """The agent keeps no more of this one."""
        if task.meta.get("nonce"):
            self.parts.pop(part_key(task.meta), None)

    def live(self) -> list[Part]:
        """Those that run or wait their turn, and whose other parts are all there; first those that run."""
        found = [
            part
            for part in self.parts.values()
            if part.task.is_live and not part.task.meta.get("held")
        ]
        return sorted(found, key=lambda part: part.task.meta["state"] != "running")

    def asked(self, address: tuple[str, int]) -> list[Json]:
        """The jobs to ask another node for: a few of those that run, then of those that wait."""
        wanted = [part for part in self.live() if address in part.others]
        running = [part for part in wanted if part.task.meta["state"] == "running"]
        chosen = [*random.sample(running, min(GANG_ROWS, len(running))), *wanted[len(running) :]][
            :GANG_ROWS
        ]
        now = time.time()
        return [
            {
                "job": part_key(part.task.meta),
                "age": round(max(0.0, now - part.task.meta["created"])),
            }
            for part in chosen
        ]

    def ended(self, part: Part) -> None:
        for rank, peer in self.agent.gang.peers.items():
            if peer.address in part.others:
                self.agent.gang.tell(rank, peer, peer.nonce, [part.row()])

    def hear(self, address: tuple[str, int], word: Json) -> list[Json]:
        """Heed what a node says of its parts; what there is to answer to what it asks."""
        for job, row in rows_of(word, "over"):
            part = self.parts.get(job)
            if (
                part is not None
                and part.others.get(address) == row["node"]
                and row["status"] == "ok"
            ):
                del part.others[address]
            elif (
                part is not None
                and address in part.others
                and row["node"] in part.others.values()
                and row["status"] != "ok"
            ):
                self.blame(part, row)
        answer = []
        for job, row in rows_of(word, "live"):
            part = self.parts.get(job)
            if part is None and self.agent.guards.age + YOUNGER_SECONDS < row["age"]:
                answer.append(
                    {"job": job, "node": self.agent.gang.rank, "status": "lost", "code": None}
                )
            elif (
                part is not None
                and not part.task.is_live
                and part.task.meta.get("status") in ("ok", *PART_WORDS)
            ):
                answer.append(part.row())
        return answer

    def blame(self, part: Part, row: Json) -> None:
        """Another part has ended badly: this one follows, after a while in which it may fail by itself."""
        if part.blamed is not None or not part.task.is_live or part.task.is_cancelled:
            return
        part.blamed = row
        code = "" if row["code"] is None else " with exit code %d" % row["code"]
        why = PART_WORDS[row["status"]] % row["node"] + (code if row["status"] == "failed" else "")
        waits = row["status"] in ("failed", "lost") and part.task.meta["state"] == "running"
        asyncio.get_event_loop().call_later(GANG_GRACE if waits else 0.0, self.end, part.task, why)

    def end(self, task: Task, why: str) -> None:
        if task.is_live and not task.is_cancelled:
            task.meta["reason"] = "ended: " + why
            task.journal.append({"k": "note", "text": f"nbprov: ended: {why}\n"})
            task.cancel()
            self.agent.queue.look()

    def look(self) -> None:
        """Count the silence of nodes that have parts of what runs here. Nodes that were never heard are none of ours: a firewall may be between."""
        now = boottime()
        # Between two looks a laptop, or a machine that moved, may have slept: nobody was silent then.
        passed, self.looked = min(now - self.looked, 2 * TICK_SECONDS), now
        heard = {peer.address: peer.heard for peer in self.agent.gang.peers.values()}
        live = self.live()
        before, self.silent = self.silent, {}
        for address in {address for part in live for address in part.others}:
            last, seconds = before.get(address, (heard.get(address), 0.0))
            if last is not None:
                is_heard = heard.get(address) not in (None, last)
                self.silent[address] = (
                    (heard[address] or last, 0.0) if is_heard else (last, seconds + passed)
                )
                self.tell_silence(
                    [part for part in live if address in part.others],
                    address,
                    seconds,
                    self.silent[address][1],
                )

    def tell_silence(
        self, parts: list[Part], address: tuple[str, int], before: float, seconds: float
    ) -> None:
        for part in parts:
            node = part.others[address]
            if before >= SILENCE_TOLD > seconds:
                part.task.journal.append(
                    {"k": "note", "text": "nbprov: node %d is heard of again\n" % node}
                )
            elif seconds >= SILENCE_TOLD > before:
                left = (SILENCE_SECONDS - SILENCE_TOLD) / 60.0
                words = "nbprov: node %d has not been heard of for %d min; if that lasts, this is ended in %d min\n"
                part.task.journal.append(
                    {"k": "note", "text": words % (node, SILENCE_TOLD / 60.0, left)}
                )
            if seconds >= SILENCE_SECONDS and part.blamed is None:
                part.blamed = {"node": node, "status": "lost", "code": None}
                self.end(
                    part.task,
                    "node %d, which has a part of it, has not been heard of for %d min"
                    % (node, SILENCE_SECONDS / 60.0),
                )


PART_WORDS = {
    "failed": "its part on node %d failed",
    "cancelled": "it was cancelled on node %d",
    "lost": "its part on node %d was lost: the machine there, or its agent, stopped",
    "skipped": "its part on node %d was skipped",
}
"""How a part may end badly, by its status; `ok` is the other one."""


def part_key(meta: Json) -> str:
    """By which the nodes know a job: its id, and which submission of it."""
    return hashlib.sha256(
        "{}\0{}".format(meta["id"], meta["nonce"]).encode("utf-8", "replace")
    ).hexdigest()[:16]


def fitted(word: Json, name: str, rows: list[Json]) -> bytes:
    """A word as it is sent, with as many of the rows as it may have."""
    told = [
        [row["job"], row["age"]]
        if name == "live"
        else [row["job"], row["node"], row["status"], row["code"]]
        for row in rows[:GANG_ROWS]
    ]
    while True:
        body = json.dumps({**word, name: told} if told else word, separators=(",", ":")).encode()
        if not told or len(body) + 32 <= GANG_BYTES:
            return body
        told.pop()


def rows_of(word: Json, name: str) -> list[tuple[str, Json]]:
    """The rows of a word by their jobs; what is none of them is left out."""
    found = []
    rows = word.get(name)
    for row in rows[:GANG_ROWS] if isinstance(rows, list) else []:
        if (
            not isinstance(row, list)
            or not row
            or not isinstance(row[0], str)
            or not re.match(r"[0-9a-f]{16}\Z", row[0])
        ):
            continue
        if name == "live" and len(row) == 2 and is_number_of(row[1], 0, 10**10):
            found.append((row[0], {"age": row[1]}))
        elif name == "over" and len(row) == 4 and is_end(*row[1:]):
            found.append((row[0], {"node": row[1], "status": row[2], "code": row[3]}))
    return found


def is_end(node: Any, status: Any, code: Any) -> bool:
    """Whether a word may say this of a part. One that ended with 0 has done what it was to do, and ends nothing."""
    if not is_number_of(node, 0, MOST_NODES) or status not in ["ok", *PART_WORDS]:
        return False
    return code is None or (
        is_number_of(code, -256, 256) and not (status == "failed" and code == 0)
    )


def is_number_of(value: Any, least: int, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < below


def check_gang(config: Json) -> Json:
    """Refuse addresses that are none: what is not an address would be looked up, which takes its time."""
    nodes, rank = config["nodes"], config["rank"]
    if (
        not isinstance(rank, int)
        or not isinstance(nodes, list)
        or not 0 <= rank < len(nodes) <= MOST_NODES
    ):
        raise Refused("gang", f"rank {rank!r} is none of the nodes")
    for host, port in nodes:
        ipaddress.ip_address(host)
        if not isinstance(port, int) or not 0 < port < 65536:
            raise Refused("gang", f"{port!r} is not a port")
    if len(bytes.fromhex(config["secret"])) < 16:
        raise Refused("gang", "the secret is too short")
    return config


def check_guards(config: Json) -> Json:
    """Refuse a guard configuration that would guard nothing by mistake."""
    known = {
        "idle_seconds",
        "wait_for",
        "mode",
        "hook",
        "hook_timeout",
        "max_lifetime_seconds",
        "budget",
        "outputs",
        "poweroff",
    }
    unknown = sorted(set(config) - known)
    if unknown:
        raise Refused("guards", "unknown guard setting: {}".format(", ".join(unknown)))
    for key in ("idle_seconds", "max_lifetime_seconds", "hook_timeout"):
        value = config.get(key)
        if value is not None and (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 < value < float("inf")
        ):
            raise Refused("guards", f"{key} must be a number of seconds above 0, not {value!r}")
    if config.get("wait_for", "jobs_and_ssh") not in ("jobs_and_ssh", "jobs", "none"):
        raise Refused(
            "guards",
            "wait_for must be jobs_and_ssh, jobs or none, not {!r}".format(config["wait_for"]),
        )
    if config.get("mode", "terminate") not in ("stop", "terminate"):
        raise Refused("guards", "mode must be stop or terminate, not {!r}".format(config["mode"]))
    budget = config.get("budget")
    if budget is not None:
        for key in ("hourly_micros", "limit_micros"):
            if (
                isinstance(budget.get(key), bool)
                or not isinstance(budget.get(key), (int, float))
                or budget[key] < 0
            ):
                raise Refused("guards", f"budget.{key} must be an amount in micros")
        if budget.get("mode", "terminate") not in ("stop", "terminate"):
            raise Refused(
                "guards", "budget.mode must be stop or terminate, not {!r}".format(budget["mode"])
            )
    outputs = config.get("outputs")
    if outputs is not None:
        hold = outputs.get("hold_seconds")
        if (
            isinstance(hold, bool)
            or not isinstance(hold, (int, float))
            or not 0 <= hold <= MOST_HOLD
        ):
            raise Refused(
                "guards",
                "outputs.hold_seconds must be a number of seconds up to %d, not %r"
                % (MOST_HOLD, hold),
            )
    is_on = config.get("idle_seconds") or config.get("max_lifetime_seconds") or budget
    if is_on and not config.get("poweroff"):
        raise Refused("guards", "guards need the command that powers the machine off")
    return config


# ---------------------------------------------------------------- the agent


class Client:
    """One connected bridge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session = 0
        self.lock = asyncio.Lock()
        self.follows: dict[str, Any] = {}

    async def send(self, frame: Json) -> None:
        data = pack(frame)
        async with self.lock:
            self.writer.write(data)
            await self.writer.drain()


class Agent:
    """The worker process: everything but its own supervision."""

    def __init__(self, folder: Path, umask: int, is_restart: bool) -> None:
        self.folder, self.umask = folder, umask
        self.hash = hashlib.sha256(Path(PROGRAM).read_bytes()).hexdigest()
        self.started = time.time()
        self.started_boottime = boottime()
        self.identity = boot_identity(folder)
        self.previous_end = read_json(folder / "ended.json")
        self.tasks: dict[str, Task] = {}
        self.hidden = Hidden()
        self.kernels: dict[str, Kernel] = {}
        self.clients: set[Client] = set()
        self.activity = Activity()
        is_boot = bool(os.environ.pop(AT_BOOT, "")) and not is_restart
        self.guards = Guards(folder, boottime(), time.time(), self.identity, is_restart, is_boot)
        self.gang = Gang(folder, self.guards.idle_since)
        self.active: list[str] = []
        self.ending: Json | None = None
        self.held_until = 0.0
        self.released = asyncio.Event()
        self.python: str | None = None
        self.python_lock = asyncio.Lock()
        self.stopped = asyncio.Event()
        self.retick = asyncio.Event()
        self.queue = JobQueue(self)
        self.parts = self.gang.parts = GangParts(self)
        self.lost: list[str] = []
        self.boxes = Boxes(folder)
        self.events = self.load_tasks()

    # -- life

    def load_tasks(self) -> Task:
        """Take up what an earlier agent left: its journals, and the word that its running tasks were lost."""
        (self.folder / "tasks").mkdir(exist_ok=True)
        for path in sorted((self.folder / "tasks").glob("*/meta.json")):
            meta = read_json(path)
            if meta is None or meta.get("id") == "agent":
                continue
            task = Task(path.parent, meta, TASK_JOURNAL_BYTES, self.hidden)
            task.take_up_end()
            self.tasks[task.id] = task
            if meta.get("kind") == "job" and (task.is_live or meta.pop("left", False)):
                self.lost.append(task.id)
                task.save()
            if task.is_live:
                pid = meta.get("pid")
                if pid and process_start(pid) == meta.get("pid_started"):
                    kill_group(pid, signal.SIGKILL)
                words = "the agent on the machine was restarted; this was lost with it"
                # Of a cell it is not known: that it runs is written down a little later.
                if meta["state"] == "queued" and meta.get("kind") != "cell":
                    words = "the agent on the machine was restarted before this began; its script is kept nowhere, so submit it again"
                task.journal.append({"k": "note", "text": f"nbprov: {words}\n"})
                task.end("lost")
            self.parts.add(task)
        meta = {
            "id": "agent",
            "kind": "agent",
            "name": "agent",
            "state": "running",
            "created": time.time(),
        }
        return Task(self.folder / "tasks" / "agent", meta, TASK_JOURNAL_BYTES // 8)

    def event(self, what: str, **more: Any) -> None:
        self.events.journal.append({"k": "event", "what": what, **more})

    def lost_kernel(self, name: str) -> str:
        """Why a kernel that ran under an earlier agent is gone; empty where there was none. Its user believes that its variables are there."""
        before = (read_json(self.folder / KERNELS_FILE) or {}).get(name)
        if not isinstance(before, dict) or before.get("agent") == self.started:
            return ""
        if before.get("identity") != self.identity:
            return "the machine was stopped and started since"
        return "the agent on the machine was restarted"

    def note_kernel(self, name: str, *, is_there: bool) -> None:
        """Keep on the disk which kernels there are, for the agent that comes after this one."""
        path = self.folder / KERNELS_FILE
        known = read_json(path) or {}
        entry = {"agent": self.started, "identity": self.identity} if is_there else None
        if known.get(name) == entry:
            return
        known[name] = entry
        write_json(path, known)

    async def main(self, ready: Callable[[], None]) -> None:
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopped.set)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("agent.sock")
        # Relative to DIR, which is the working folder: a socket's path may have about 100 bytes only.
        server = await asyncio.start_unix_server(self.serve, path="agent.sock")
        os.chmod("agent.sock", 0o600)
        if self.previous_end is not None:
            (self.folder / "ended.json").replace(self.folder / "ended.previous.json")
        write_json(
            self.folder / "agent.json",
            {"pid": os.getpid(), "version": VERSION, "hash": self.hash, "started": self.started},
        )
        (self.folder / "agent.started").write_text(f"{self.started:f}\n")
        self.event("started", version=VERSION, pid=os.getpid())
        ready()
        watcher = keep(asyncio.ensure_future(self.watch()))
        await self.stopped.wait()
        watcher.cancel()
        server.close()
        await self.wind_up()
        self.gang.close()  # after the word that the parts of jobs here are lost

    async def wind_up(self) -> None:
        for kernel in self.kernels.values():
            kernel.restart()
        self.queue.give_up()
        live = [task for task in self.tasks.values() if task.is_live]
        for task in live:
            task.is_left = True
            task.cancel()
        if live:
            await asyncio.wait(
                [asyncio.ensure_future(task.done.wait()) for task in live],
                timeout=CANCEL_SECONDS + 2,
            )
        self.guards.save()
        self.event("stopped")
        (self.folder / "agent.json").unlink()

    # -- guards

    def what_is_active(self) -> list[str]:
        wait_for = self.guards.config.get("wait_for", "jobs_and_ssh")
        if wait_for == "none":
            return []
        # What came and went since the last look counts too: most cells take less time than passes between two looks.
        # A service that only waits is no work; what it does shows as CPU and GPU use.
        # Nor is a job that waits: what it waits for is. One for which GPUs are missing since one broke down would else wait, and cost, for ever.
        waits = {task.id for task, _ in self.queue.waiting if not task.meta.get("held")}
        worked = [
            task
            for task in self.tasks.values()
            if not task.meta.get("service") and task.id not in waits
        ]
        recent = [task for task in worked if task.is_live or task.changed > self.guards.now]
        found = ["{} {}".format(task.meta["kind"], task.meta["name"]) for task in recent]
        if self.boxes.changed > self.guards.now:
            found.append("variables")
        if wait_for == "jobs_and_ssh" and self.activity.sessions:
            found.append("%d ssh" % self.activity.sessions)
        if self.activity.gpu_percent is not None and self.activity.gpu_percent > GPU_BUSY_PERCENT:
            found.append("gpu %d%%" % self.activity.gpu_percent)
        if self.activity.cores > CPU_BUSY_CORES + sum(
            task.meta.get("rest", 0.0) for task in self.tasks.values() if task.is_live
        ):
            found.append(f"cpu {self.activity.cores:.1f}")
        return found

    def observe(self) -> None:
        self.activity.look({client.session for client in self.clients})
        self.active = self.what_is_active()
        self.guards.tick(boottime(), time.time(), self.active)
        if self.active:
            self.gang.own = self.guards.now
        self.guards.heed(self.gang.last_active())

    async def watch(self) -> None:
        """The guards' loop: needs nobody but the machine itself."""
        while True:
            self.retick.clear()
            try:
                await self.watch_once()
            except Exception:
                # Whatever it was, it must not end the guards; the clocks go on at the next look.
                traceback.print_exc()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.retick.wait(), self.guards.pause())

    async def watch_once(self) -> None:
        self.observe()
        self.boxes.lapse()
        self.parts.look()
        await self.gang.speak(self.guards.gang_pause())
        keep(asyncio.ensure_future(self.activity.look_at_gpus()))
        for near in self.guards.warnings():
            self.event("warning", **near)
            await self.tell({"ev": "warning", **near})
        due = self.guards.due()
        if due is not None:
            await self.end_machine(due)
        self.guards.held = None

    async def end_machine(self, due: Json) -> NoReturn:
        """Hook, word, time for the outputs, poweroff; and again until the machine is off."""
        self.ending = due
        config = self.guards.config
        self.event("guard", **due)
        await self.tell({"ev": "ending", **due})
        has_jobs = any(task.meta["kind"] == "job" for task in self.tasks.values())
        last_words = asyncio.sleep(LAST_WORDS_SECONDS if self.clients and has_jobs else 0.0)
        hook, _ = await asyncio.gather(self.run_hook(due, config), last_words)
        await self.wait_for_outputs(due)
        write_json(
            self.folder / "ended.json", {**due, "at": time.time(), "hook": hook, "version": VERSION}
        )
        self.guards.save()
        command = (
            config["poweroff"]
            .replace("{mode}", due["mode"])
            .replace("{reason}", shlex.quote(due["reason"]))
        )
        while True:
            code, words = await self.run_command(command, POWEROFF_SECONDS, {})
            self.event("poweroff", mode=due["mode"], exit_code=code, output=words)
            await asyncio.sleep(POWEROFF_AGAIN_SECONDS)

    async def wait_for_outputs(self, due: Json) -> None:
        """Hold until a client says that the outputs are taken, or the time for that is over. Nobody can make it longer."""
        try:
            self.guards.tick(boottime(), time.time(), [])
            until = self.guards.hold_until(due)
            seconds = until - boottime()
            if seconds <= 0:
                return
            self.held_until = until
            self.event("hold", seconds=round(seconds, 1))
            await self.tell({"ev": "hold", "seconds": seconds})
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.released.wait(), seconds)
            self.event("held", released=self.released.is_set())
        except Exception:
            traceback.print_exc()  # the end goes on, whatever it was
        finally:
            self.held_until = 0.0

    def ending_now(self) -> Json | None:
        """Which guard ends the machine, and how long outputs are waited for still."""
        if self.ending is None:
            return None
        return {
            **self.ending,
            "hold_left": max(0.0, self.held_until - boottime()) if self.held_until else None,
        }

    async def run_hook(self, due: Json, config: Json) -> Json | None:
        if not config.get("hook"):
            return None
        allowed = float(config.get("hook_timeout") or 3600.0)
        if due["guard"] == "budget":
            allowed = min(allowed, max(1.0, float(config["budget"].get("reserve_seconds", 0))))
        elif due["guard"] == "lifetime":
            allowed = min(allowed, LIFETIME_HOOK_SECONDS)
        code, words = await self.run_command(
            config["hook"], allowed, {"NBPROV_GUARD": due["guard"], "NBPROV_REASON": due["reason"]}
        )
        self.event("hook", exit_code=code, output=words)
        return {"exit_code": code, "output": words}

    async def run_command(self, script: str, seconds: float, env: Json) -> tuple[int | None, str]:
        """Run a script of the configuration; its exit code (None: out of time) and the end of what it said."""
        command, descriptor = script_command(script, "nbprov-guard", self.umask)
        with tempfile.TemporaryFile() as said:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    pass_fds=(descriptor,),
                    start_new_session=True,
                    env=child_environment(env),
                    cwd=home(),
                )
            except OSError as error:
                return 127, str(error)
            finally:
                os.close(descriptor)
            try:
                code: int | None = await asyncio.wait_for(process.wait(), seconds)
            except asyncio.TimeoutError:
                kill_group(process.pid, signal.SIGKILL)
                code = None
            said.seek(max(0, said.seek(0, os.SEEK_END) - READ_BYTES))
            return code, self.hidden.text(said.read().decode("utf-8", "replace"))[-2000:]

    async def tell(self, frame: Json) -> None:
        for client in list(self.clients):
            # A client that does not read must not hold up the guards.
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(client.send(frame), 1.0)

    # -- kernels' interpreter

    async def find_kernel_python(self, report: Callable[[str], None], kernel: Kernel) -> str | None:
        """An interpreter that has ipykernel; installed into a virtual environment of ours where there is none."""
        async with self.python_lock:
            venv = self.folder / "venv" / "bin" / "python"
            place = chosen_python()
            if place:
                if environment_has(place, "ipykernel"):
                    return os.path.join(place, "bin", "python")
                report(
                    f"nbprov: the environment {place} has lost its ipykernel; this kernel runs outside of it"
                )
            if self.python is None:
                for candidate in (
                    shutil.which("python3"),
                    shutil.which("python"),
                    sys.executable,
                    str(venv),
                ):
                    if candidate and await has_ipykernel(candidate):
                        self.python = candidate
                        return candidate
            if (
                self.python is None
                and await self.install_ipykernel(report, kernel)
                and await has_ipykernel(str(venv))
            ):
                self.python = str(venv)
            return self.python

    async def install_ipykernel(self, report: Callable[[str], None], kernel: Kernel) -> bool:
        python, place = shutil.which("python3") or sys.executable, str(self.folder / "venv")
        report(f"nbprov: this machine's Python has no ipykernel; installing it once into {place}")
        make = f"{shlex.quote(python)} -m venv --clear --system-site-packages {shlex.quote(place)}"
        root = "" if os.geteuid() == 0 else "sudo -n "
        # Debian and Ubuntu images come with a Python that cannot make virtual environments until this package is there.
        repair = f"command -v apt-get >/dev/null && {root}apt-get update -q && {root}apt-get install -y -q python3-venv"
        pip = f"{shlex.quote(place)}/bin/python -m pip install --progress-bar off --disable-pip-version-check ipykernel"
        script = f"set -e\n{make} || {{ {repair} && {make}; }}\n{pip}\n"
        command, descriptor = script_command(script, "nbprov-install", self.umask)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(descriptor,),
                start_new_session=True,
                env=child_environment({}),
                cwd=home(),
            )
        finally:
            os.close(descriptor)
        kernel.helper = process
        assert process.stdout is not None
        timer = asyncio.get_event_loop().call_later(
            INSTALL_SECONDS, kill_group, process.pid, signal.SIGKILL
        )
        try:
            while True:
                line = await process.stdout.readline()
                if not line:
                    break
                text = line.decode("utf-8", "replace").strip()
                if text and not text.startswith(QUIET_LINES):
                    report("  " + text[:160])
            return await process.wait() == 0
        finally:
            timer.cancel()
            kernel.helper = None

    # -- clients

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        self.clients.add(client)
        try:
            hello = {
                "ev": "hello",
                "version": VERSION,
                "protocol": PROTOCOL,
                "hash": self.hash,
                "pid": os.getpid(),
            }
            await client.send(
                {
                    **hello,
                    "started": self.started,
                    "previous_end": self.previous_end,
                    "ending": self.ending,
                    "lost": self.lost[-LOST_TOLD:],
                }
            )
            while True:
                frame = await asyncio.wait_for(read_frame(reader), CLIENT_SILENCE_SECONDS)
                if frame is None:
                    return
                if frame.get("op") in ("status", "complete", "inspect"):
                    keep(
                        asyncio.ensure_future(self.answer(client, frame))
                    )  # asks nvidia-smi or a kernel, which take their time
                else:
                    await self.answer(client, frame)
        except (asyncio.TimeoutError, OSError, Refused, ValueError):
            return  # a client that is silent, gone or not one of ours; nothing of it is lost but the channel
        finally:
            self.clients.discard(client)
            for follow in client.follows.values():
                follow.cancel()
            writer.close()

    async def answer(self, client: Client, frame: Json) -> None:
        operation = self.operations.get(str(frame.get("op")))
        try:
            if operation is None:
                raise Refused(
                    "unknown-op",
                    "this agent ({}) does not know {!r}".format(VERSION, frame.get("op")),
                )
            reply = await operation(self, client, frame)
        except Refused as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reply = {
                "error": {"code": "bad-request", "message": f"{type(error).__name__}: {error}"}
            }
        if "id" in frame:
            with contextlib.suppress(OSError):  # a client that has gone asks again
                await client.send({"re": frame["id"], **reply})

    async def op_bridge(self, client: Client, frame: Json) -> Json:
        """First frame of every bridge: the ssh session it runs in, which does not count as activity."""
        client.session = int(frame["session"])
        return {}

    async def op_ping(self, client: Client, frame: Json) -> Json:
        return {"now": time.time()}

    async def op_status(self, client: Client, frame: Json) -> Json:
        self.observe()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.activity.look_at_gpus(), STATUS_GPU_SECONDS)
        disk = shutil.disk_usage(home())
        return {
            "version": VERSION,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "pid": os.getpid(),
            "uptime": boottime() - self.started_boottime,
            "age": self.guards.age,
            "idle": self.guards.now - self.guards.idle_since,
            "active": self.active,
            "guards": self.guards.states(),
            "ending": self.ending_now(),
            "peers": self.gang.info(),
            "kernels": {
                k.name: {"state": k.state, "cells": k.count, "queued": k.queue.qsize(), **k.info}
                for k in self.kernels.values()
            },
            "tasks": [
                task.info()
                for task in self.tasks.values()
                if task.meta["kind"] != "cell" or task.is_live
            ],
            "gpus": self.activity.gpus,
            "cpus": os.cpu_count(),
            "disk_free": disk.free,
            "disk_total": disk.total,
        }

    async def op_start(self, client: Client, frame: Json) -> Json:
        """Start a job, a shell or a cell. The id is the client's, so that a repeated request starts nothing twice.

        `secrets` names those of its variables (`env`) whose values are blotted out of all output from now on, but for what nbprov itself asks
        for and reads (`verbatim`).

        With `service` it is one that waits for work, and does not by itself keep the machine from being idle; `rest` says how many cores it uses
        while it does.
        """
        name = str(frame["task"])
        self.hide_secrets(frame)
        if name in self.tasks:
            return {"task": self.tasks[name].info()}
        self.check_start(frame)
        is_service = frame["kind"] == "job" and frame.get("service")
        rest = max(0.0, min(MOST_REST, float(frame.get("rest") or 0.0)))
        task = self.new_task(frame, {"service": True, "rest": rest} if is_service else {})
        follow = frame.get("follow")
        if follow:
            self.begin_follow(client, task, str(follow), 0)
        if task.meta["kind"] != "cell":
            keep(asyncio.ensure_future(self.run_job(task, frame)))
            return {"task": task.info(), "followed": bool(follow)}
        kernel = self.kernel(str(frame.get("kernel") or "main"))
        kernel.queue.put_nowait((task, frame))
        # Who ran cells there before can tell by `born` whether its variables are still there.
        return {
            "task": task.info(),
            "followed": bool(follow),
            "born": kernel.born,
            "ended": kernel.death or self.lost_kernel(kernel.name),
        }

    async def op_submit(self, client: Client, frame: Json) -> Json:
        """Queue a job by the GPUs it asks for. An id that is taken is refused unless `nonce` says that it is the same request again.

        Further fields: `gpus` ("all", a number, a share of one), `gpus_told` (how many the client knows of), `nodes` (how many nodes have a part
        of it), `held` (it keeps its place, and begins after `release` only).
        """
        name, nonce = str(frame["task"]), str(frame["nonce"])
        self.hide_secrets(frame)
        if not self.activity.gpus:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.activity.look_at_gpus(), STATUS_GPU_SECONDS)
        if name in self.tasks:
            if self.tasks[name].meta.get("nonce") != nonce:
                raise Refused("taken", f"there is a job {name} already")
            return {"task": self.described(self.tasks[name])}
        frame["kind"] = "job"
        self.check_start(frame)
        self.queue.told = int(frame.get("gpus_told") or self.queue.told)
        task = self.new_task(frame, {"nonce": nonce, **self.queue.check(frame)})
        self.parts.add(task)
        self.queue.add(task, frame)
        return {"task": self.described(task)}

    async def op_release(self, client: Client, frame: Json) -> Json:
        """Let a job that was submitted `held` begin when it is its turn."""
        task = self.find(frame)
        self.queue.release(task)
        return {"task": self.described(task)}

    def described(self, task: Task) -> Json:
        return {**task.info(), "position": self.queue.places().get(task.id)}

    def check_start(self, frame: Json) -> None:
        name = str(frame["task"])
        if not re.match(r"[A-Za-z0-9_-]{1,64}\Z", name) or name == "agent":
            raise Refused("bad-id", f"{name!r} is not an id of a task")
        if self.ending is not None:
            raise Refused(
                "ending", "the machine is ending itself ({})".format(self.ending["reason"])
            )
        kind = frame["kind"]
        if kind not in ("job", "shell", "cell"):
            raise Refused("bad-kind", f"{kind!r} is neither job nor shell nor cell")
        env = frame.setdefault("env", {})
        if not isinstance(env, dict) or any("=" in k or "\0" in k + str(v) for k, v in env.items()):
            raise Refused("bad-env", "variables are names and texts without NUL")
        if not isinstance(frame["code"], str):
            raise Refused("bad-code", "code is a text")

    def hide_secrets(self, frame: Json) -> None:
        """Blot the variables that `secrets` names out of what this task and all later ones put out."""
        env = frame.get("env") or {}
        self.hidden.add(str(env[name]) for name in frame.get("secrets") or [] if name in env)

    def new_task(self, frame: Json, more: Json) -> Task:
        name, kind = str(frame["task"]), str(frame["kind"])
        meta = {
            "id": name,
            "kind": kind,
            "name": str(frame.get("name") or kind),
            "state": "queued",
            "created": time.time(),
            **more,
        }
        if frame.get("silent"):
            meta["own"] = True
        self.prune()
        place = self.folder / "tasks" / name
        task = self.tasks[name] = Task(
            place, meta, TASK_JOURNAL_BYTES, self.hidden, bool(frame.get("verbatim"))
        )
        task.save()
        if self.gang.peers:
            self.retick.set()  # the others may be about to end for want of work
        return task

    async def run_job(self, task: Task, frame: Json) -> None:
        for name in frame.get("after") or []:
            before = self.tasks.get(name)
            if before is not None:
                await before.done.wait()
            if before is None or before.meta.get("status") != "ok":
                skip(task, name)
        if task.is_live:
            await run_process(task, frame["code"], frame["env"], frame.get("cwd"), self.umask)
        self.prune()
        self.queue.look()

    def kernel(self, name: str) -> Kernel:
        if name not in self.kernels:
            self.kernels[name] = Kernel(name, self)
        return self.kernels[name]

    def prune(self) -> None:
        """Drop the oldest ended tasks once too many or too large, before them all but the last few of nbprov's own."""
        needed = {name for _, frame in self.queue.waiting for name in frame.get("after") or []}
        over = [task for task in self.tasks.values() if not task.is_live and task.id not in needed]
        ended = sorted(over, key=lambda task: task.meta.get("ended") or 0.0)
        own = [task for task in ended if task.meta.get("own")]
        for task in own[: max(0, len(own) - KEPT_OWN)]:
            ended.remove(task)
            self.forget(task)
        total = sum(task.kept for task in ended)
        while ended and (len(self.tasks) > KEPT_TASKS or total > ALL_JOURNALS_BYTES):
            oldest = ended.pop(0)
            total -= oldest.kept
            self.forget(oldest)

    def forget(self, task: Task) -> None:
        shutil.rmtree(task.journal.folder, ignore_errors=True)
        del self.tasks[task.id]
        self.parts.drop(task)

    def find(self, frame: Json) -> Task:
        name = str(frame["task"])
        task = self.events if name == "agent" else self.tasks.get(name)
        if task is None:
            raise Refused(
                "no-task", "the agent knows no task %s (it keeps the last %d)" % (name, KEPT_TASKS)
            )
        return task

    async def op_tasks(self, client: Client, frame: Json) -> Json:
        places = self.queue.places()
        return {
            "tasks": [
                {**task.info(), "position": places.get(task.id)} for task in self.tasks.values()
            ]
        }

    async def op_follow(self, client: Client, frame: Json) -> Json:
        """Send everything of a task after number `since`, then what comes, as `out` events marked with `follow`."""
        task = self.find(frame)
        self.begin_follow(client, task, str(frame["follow"]), int(frame.get("since", 0)))
        return {"task": task.info()}

    def begin_follow(self, client: Client, task: Task, name: str, since: int) -> None:
        client.follows[name] = keep(asyncio.ensure_future(self.follow(client, task, name, since)))

    async def follow(self, client: Client, task: Task, name: str, since: int) -> None:
        cursor, changed = Cursor(task.journal, since), asyncio.Event()
        task.journal.waiters.add(changed)
        try:
            if since >= END_ONLY:
                await task.done.wait()
            while True:
                changed.clear()
                entries = cursor.read()
                if entries:
                    is_over = entries[-1]["k"] == "end"
                    await client.send(
                        {
                            "ev": "out",
                            "follow": name,
                            "entries": entries,
                            **({"over": True} if is_over else {}),
                        }
                    )
                    if is_over:
                        return
                elif task.done.is_set():
                    await client.send({"ev": "out", "follow": name, "entries": [], "over": True})
                    return
                else:
                    await changed.wait()
        except OSError:
            return  # the client is gone; it asks again from where it was
        finally:
            task.journal.waiters.discard(changed)
            client.follows.pop(name, None)

    async def op_unfollow(self, client: Client, frame: Json) -> Json:
        follow = client.follows.pop(str(frame["follow"]), None)
        if follow is not None:
            follow.cancel()
        return {}

    async def op_cancel(self, client: Client, frame: Json) -> Json:
        """End a task; with `nonce` only where it is of that submission."""
        task = self.find(frame)
        is_meant = frame.get("nonce") in (None, task.meta.get("nonce"))
        if task.is_live and task is not self.events and is_meant:
            task.cancel()
            self.queue.look()
        return {"task": task.info()}

    async def op_complete(self, client: Client, frame: Json) -> Json:
        """What a kernel that is idle would offer at a cursor of a code."""
        kernel = self.kernels.get(str(frame.get("kernel") or "main"))
        return {
            "found": await kernel.ask("complete", str(frame["code"]), int(frame["cursor"]))
            if kernel is not None
            else {"status": "none"}
        }

    async def op_inspect(self, client: Client, frame: Json) -> Json:
        """What a kernel that is idle knows of the name at a cursor of a code."""
        kernel = self.kernels.get(str(frame.get("kernel") or "main"))
        if kernel is None:
            return {"found": {"status": "none"}}
        return {
            "found": await kernel.ask(
                "inspect", str(frame["code"]), int(frame["cursor"]), int(frame.get("detail") or 0)
            )
        }

    async def op_put(self, client: Client, frame: Json) -> Json:
        """Write `data` (base64) at `offset` of a box, which is made where there is none; says how much is in it: less than `offset` where some is missing."""
        return self.boxes.put(frame)

    async def op_get(self, client: Client, frame: Json) -> Json:
        """At most `size` bytes of a box from `offset` on."""
        return self.boxes.get(frame)

    async def op_drop(self, client: Client, frame: Json) -> Json:
        """Remove a box; one that is not there is no error."""
        self.boxes.drop(self.boxes.path(frame))
        return {}

    async def op_interrupt(self, client: Client, frame: Json) -> Json:
        kernel = self.kernels.get(str(frame.get("kernel") or "main"))
        if kernel is not None:
            kernel.interrupt()
        return {"interrupted": kernel is not None and kernel.current is not None}

    async def op_restart(self, client: Client, frame: Json) -> Json:
        name = str(frame.get("kernel") or "main")
        kernel = self.kernels.get(name)
        if kernel is not None:
            kernel.restart()
        self.note_kernel(name, is_there=False)  # whoever asked for it knows
        return {}

    async def op_guards(self, client: Client, frame: Json) -> Json:
        config = check_guards(frame["config"])
        self.observe()
        self.guards.set(config)
        self.event(
            "guards", **{key: config[key] for key in config if key not in ("hook", "poweroff")}
        )
        self.retick.set()
        return {"guards": self.guards.states()}

    async def op_gang(self, client: Client, frame: Json) -> Json:
        """Learn who the cluster's other machines are (with `config`), and say who of them was heard of."""
        if frame.get("config") is not None:
            self.gang.set(frame["config"])
            try:
                await self.gang.open()
            except OSError as error:
                raise Refused(
                    "gang", f"this machine cannot listen for the others: {error}"
                ) from None
            self.gang.tell_all()
        return {"peers": self.gang.info()}

    async def op_taken(self, client: Client, frame: Json) -> Json:
        """The outputs are taken: a machine that waits for that goes on to its end. Says nothing of a later hold."""
        is_held = bool(self.held_until)
        if is_held:
            self.released.set()
        return {"released": is_held}

    async def op_shutdown(self, client: Client, frame: Json) -> Json:
        """End the agent; with `if_idle` only where no kernel holds variables and nothing runs."""
        busy = [task.id for task in self.tasks.values() if task.is_live] + [
            k.name for k in self.kernels.values() if k.host is not None
        ]
        if busy and frame.get("if_idle"):
            raise Refused("busy", "in use: {}".format(", ".join(busy)))
        asyncio.get_event_loop().call_later(0.05, self.stopped.set)
        return {}

    operations: ClassVar[dict[str, Callable[[Agent, Client, Json], Awaitable[Json]]]] = {
        "bridge": op_bridge,
        "ping": op_ping,
        "status": op_status,
        "start": op_start,
        "submit": op_submit,
        "release": op_release,
        "tasks": op_tasks,
        "follow": op_follow,
        "unfollow": op_unfollow,
        "cancel": op_cancel,
        "complete": op_complete,
        "inspect": op_inspect,
        "put": op_put,
        "get": op_get,
        "drop": op_drop,
        "interrupt": op_interrupt,
        "restart": op_restart,
        "guards": op_guards,
        "gang": op_gang,
        "taken": op_taken,
        "shutdown": op_shutdown,
    }


async def has_ipykernel(python: str) -> bool:
    return bool(
        await command_output(python, "-c", "import ipykernel, jupyter_client, zmq; print(1)")
    )


# ---------------------------------------------------------------- serve: daemon and supervisor


def serve(folder: Path) -> int:
    """Start the daemon and wait until it listens. Exit code 0: it runs (now, or already)."""
    umask = os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    lock = os.open(str(folder / "agent.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    if not take_lock(lock):
        # A boot guard that was armed since then must learn of it.
        with contextlib.suppress(OSError):
            (folder / "agent.started").touch()
        print("nbprov agent: runs already")
        return 0
    write_start(folder, umask)
    heard, told = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        os.setsid()
        if os.fork() == 0:
            become_daemon(folder)
            os._exit(supervise(folder, umask, told))
        os._exit(0)
    os.close(told)
    os.close(lock)
    answer = b""
    if select.select([heard], [], [], READY_SECONDS)[0]:
        answer = os.read(heard, 4096)
    if answer == b"ready":
        print("nbprov agent: started")
        return 0
    print(
        "nbprov agent: did not start: %s"
        % (answer.decode("utf-8", "replace") or "no answer in %d s" % READY_SECONDS),
        file=sys.stderr,
    )
    return 1


def write_start(folder: Path, umask: int) -> None:
    """Leave the command with which the machine's start script starts the agent again after a reboot: as now, and with no variable but PATH."""
    program = " ".join(
        map(shlex.quote, (sys.executable or "python3", PROGRAM, "serve", str(folder)))
    )
    path = shlex.quote(os.environ.get("PATH", os.defpath))
    lines = [
        "#!/bin/sh",
        "# nbprov: the agent's start at boot.",
        f"umask {umask:03o}; cd",
        f"PATH={path}; export PATH",
    ]
    fresh = folder / "start.new"
    try:
        fresh.write_text("\n".join([*lines, f"{AT_BOOT}=1 exec {program}"]) + "\n")
        fresh.replace(folder / "start")
    except OSError as error:
        print(f"nbprov agent: will not return after a reboot: {error}", file=sys.stderr)


def take_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def become_daemon(folder: Path) -> None:
    os.chdir(str(folder))
    log = folder / "agent.log"
    if log.exists() and log.stat().st_size > 1_000_000:
        log.replace(folder / "agent.log.1")
    quiet, loud = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    )
    os.dup2(quiet, 0)
    os.dup2(loud, 1)
    os.dup2(loud, 2)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def supervise(folder: Path, umask: int, told: int) -> int:
    """Run the worker and start it again if it dies: a machine without its agent has no guards."""
    be_killed_last()
    pause, child = 0.5, 0
    is_ending = False

    def forward(number: int, frame: Any) -> None:
        nonlocal is_ending
        is_ending = True
        if child:
            os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    while not is_ending:
        born = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(work(folder, umask, told))
        if told >= 0:
            os.close(told)
            told = -1
        _, status = os.waitpid(child, 0)
        child = 0
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return 0
        pause = 0.5 if time.monotonic() - born > 60 else min(30.0, pause * 2)
        print(
            "%s the agent ended (status %d); starting it again"
            % (time.strftime("%FT%TZ", time.gmtime()), status),
            flush=True,
        )
        time.sleep(pause)
    return 0


def work(folder: Path, umask: int, told: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def ready() -> None:
        if told >= 0:
            with contextlib.suppress(OSError):
                os.write(told, b"ready")
            os.close(told)

    async def start() -> None:
        await Agent(folder, umask, told < 0).main(ready)

    try:
        asyncio.run(start())
    except BaseException:
        traceback.print_exc()
        if told >= 0:
            with contextlib.suppress(OSError):
                os.write(told, traceback.format_exc().strip().splitlines()[-1].encode())
        return 1
    return 0


# ---------------------------------------------------------------- connect: the bridge


def connect(folder: Path) -> int:
    """Join stdin and stdout to the agent's socket until either ends."""
    channel = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(str(folder))
        channel.connect("agent.sock")
    except OSError as error:
        print(f"nbprov agent: not running in {folder}: {error}", file=sys.stderr)
        return 3
    channel.sendall(pack({"op": "bridge", "session": os.getsid(0)}))

    def inwards() -> None:
        with contextlib.suppress(OSError):
            while True:
                data = os.read(0, READ_BYTES)
                if not data:
                    break
                channel.sendall(data)
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=inwards, daemon=True).start()
    with contextlib.suppress(OSError):
        while True:
            data = channel.recv(READ_BYTES)
            if not data:
                break
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    return 0


# ---------------------------------------------------------------- kernel-host: runs where ipykernel is


class KernelHost:
    """Owns one ipykernel: starts it, runs cells one at a time, passes on what it says. Ends it when the agent's pipe closes."""

    FORWARDED = (
        "stream",
        "display_data",
        "update_display_data",
        "execute_result",
        "error",
        "clear_output",
    )

    def __init__(self, out: int, folder: Path) -> None:
        self.out = out
        self.client: Any = None
        self.process: asyncio.subprocess.Process | None = None
        # The path of a unix socket may have about 100 bytes only.
        self.place = tempfile.mkdtemp(
            prefix="nbprov-", dir=str(folder) if len(str(folder)) < 60 else None
        )
        self.tail = b""
        self.cell, self.message = "", ""
        self.reply: Json | None = None
        self.is_idle = False
        self.asked: dict[str, str] = {}

    def tell(self, frame: Json) -> None:
        view = memoryview(pack(frame))
        while view:
            view = view[os.write(self.out, view) :]

    def pass_on(self, kind: str, content: Json) -> None:
        for fitting_kind, fitting_content in fitting(kind, content):
            self.tell({"ev": "out", "type": fitting_kind, "content": fitting_content})

    async def main(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_event_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        try:
            while True:
                frame = await read_frame(reader)
                if frame is None:
                    return
                if frame["op"] == "start":
                    self.vital(self.start(frame))
                elif frame["op"] == "run":
                    self.vital(self.run(frame))
                elif frame["op"] == "complete":
                    self.asked[self.client.complete(frame["code"], frame["cursor"])] = frame["ask"]
                elif frame["op"] == "inspect":
                    self.asked[
                        self.client.inspect(frame["code"], frame["cursor"], frame["detail"])
                    ] = frame["ask"]
                elif frame["op"] == "interrupt" and self.process is not None:
                    kill_group(self.process.pid, signal.SIGINT)
        finally:
            if self.process is not None and self.process.returncode is None:
                kill_group(self.process.pid, signal.SIGKILL)
            shutil.rmtree(self.place, ignore_errors=True)

    def vital(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something whose failure leaves nothing to be saved: said to the agent, which then starts anew."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                traceback.print_exc()
                self.tell({"ev": "dead", "why": f"{type(error).__name__}: {error}"})

        keep(asyncio.ensure_future(watched()))

    async def start(self, frame: Json) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient
        from jupyter_client.connect import write_connection_file

        path = os.path.join(self.place, "c.json")
        write_connection_file(
            path,
            ip=os.path.join(self.place, "k"),
            transport="ipc",
            key=os.urandom(32).hex().encode(),
        )
        os.umask(int(frame["umask"]))
        env = {**os.environ, **frame["env"], "JPY_PARENT_PID": str(os.getpid())}
        errors, error = await open_pipe()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=error,
            start_new_session=True,
            env=env,
            cwd=frame["cwd"],
        )
        os.close(error)
        self.vital(self.keep_tail(errors))
        self.vital(self.watch(self.process))
        self.client = AsyncKernelClient(connection_file=path)
        self.client.load_connection_file()
        # Without its heartbeat: while one is there, a single late beat on a busy machine counts as a kernel that died. `watch` knows better.
        self.client.start_channels(stdin=False, hb=False)
        await self.client.wait_for_ready(timeout=KERNEL_START_SECONDS)
        self.vital(self.hear_outputs())
        self.vital(self.hear_replies())
        self.vital(self.hear_heartbeat())
        from ipykernel._version import __version__ as ipykernel_version

        info = {
            "python": platform.python_version(),
            "executable": sys.executable,
            "ipykernel": ipykernel_version,
        }
        self.tell({"ev": "ready", "info": {**info, "pid": self.process.pid}})

    async def keep_tail(self, errors: asyncio.StreamReader) -> None:
        while True:
            data = await errors.read(4096)
            if not data:
                return
            self.tail = (self.tail + data)[-4000:]

    async def watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        await asyncio.sleep(0.05)  # its last words may still be in the pipe
        words = (
            "killed, most likely because the memory ran out"
            if code == -9
            else "exit code %d" % code
        )
        last = self.tail.decode("utf-8", "replace").strip().splitlines()
        self.tell({"ev": "dead", "why": words + (": " + last[-1] if last else "")})

    async def hear_heartbeat(self) -> None:
        """Say when the kernel's process stands still (stopped, swapped out) and when it answers again."""
        self.client.hb_channel.start()
        self.client.hb_channel.unpause()
        was_beating = True
        while True:
            await asyncio.sleep(2.0)
            is_beating = self.client.hb_channel.is_beating()
            if is_beating != was_beating:
                self.tell(
                    {
                        "ev": "state",
                        "state": ("busy" if self.cell else "idle")
                        if is_beating
                        else "unresponsive",
                    }
                )
            was_beating = is_beating

    async def run(self, frame: Json) -> None:
        if frame["env"]:
            # Variables given later go in by a silent request, which no history keeps.
            await self.execute(
                "", "import os as _o; _o.environ.update({!r}); del _o".format(frame["env"]), True
            )
        await self.execute(frame["cell"], frame["code"], bool(frame["silent"]))

    async def execute(self, cell: str, code: str, silent: bool) -> None:
        self.cell, self.reply, self.is_idle = cell, None, False
        self.finished = asyncio.Event()
        # Not the protocol's `silent`, which would also hide what the code displays.
        self.message = self.client.execute(
            code, silent=not cell, store_history=not silent, allow_stdin=False, stop_on_error=True
        )
        await self.finished.wait()

    async def hear_outputs(self) -> None:
        while True:
            message = await self.client.iopub_channel.get_msg()
            kind, parent = message["msg_type"], message["parent_header"].get("msg_id")
            if kind in self.FORWARDED:
                self.pass_on(kind, message["content"])
            elif (
                kind == "status"
                and parent == self.message
                and message["content"]["execution_state"] == "idle"
            ):
                self.is_idle = True
                self.finish()

    async def hear_replies(self) -> None:
        while True:
            message = await self.client.shell_channel.get_msg()
            parent = message["parent_header"].get("msg_id")
            if parent == self.message:
                self.reply = message["content"]
                self.finish()
            elif parent in self.asked:
                self.tell(
                    {"ev": "completed", "ask": self.asked.pop(parent), "content": told_of(message)}
                )

    def finish(self) -> None:
        """A cell is over when the kernel has both answered and gone idle: all its output came before the latter."""
        if self.reply is None or not self.is_idle or self.finished.is_set():
            return
        if self.cell:
            for payload in self.reply.get("payload") or []:
                # What `x?` shows is no output, but comes with the answer.
                if payload.get("source") == "page":
                    self.pass_on("page", {"data": payload.get("data")})
            self.tell(
                {
                    "ev": "done",
                    "cell": self.cell,
                    "status": self.reply["status"],
                    "execution_count": self.reply.get("execution_count"),
                }
            )
        self.cell, self.message = "", ""
        self.finished.set()


def json_size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def in_lists(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def fitting(kind: str, content: Json) -> list[tuple[str, Json]]:
    """What a kernel put out, cut so that it can be passed on: a frame too large would end this process, and the kernel with all its variables."""
    if kind == "stream":
        text = content["text"]
        return [
            (kind, {**content, "text": text[start : start + TEXT_PIECE]})
            for start in range(0, len(text), TEXT_PIECE)
        ]
    try:
        size = json_size(in_lists(content, DEPTH_LEFT)) - 2 * DEPTH_LEFT
    except RecursionError:
        return [
            (
                "stream",
                {
                    "name": "stderr",
                    "text": "nbprov: an output was left out: it is nested too deeply\n",
                },
            )
        ]
    if size <= SHOWN_LIMIT:
        return [(kind, content)]
    if kind == "error":
        return [(kind, short_error(content))]
    data = dict(content.get("data") or {})
    left_out = []
    while data and json_size({**content, "data": data}) > SHOWN_LIMIT:
        largest = max(data, key=lambda form: json_size(data[form]))
        left_out.append(largest)
        del data[largest]
    words = "nbprov: %s of %d MB was left out: at most %d MB of one output are shown; write it to a file there and bring that with %%nbprov sync\n"
    what = "an output" if not left_out else "the %s of an output" % " and ".join(left_out)
    note = ("stream", {"name": "stderr", "text": words % (what, size >> 20, SHOWN_LIMIT >> 20)})
    return [(kind, {**content, "data": data}), note] if data else [note]


def short_error(content: Json) -> Json:
    """An error whose words are beyond measure, with their beginning."""
    name, value = str(content.get("ename"))[:1000], str(content.get("evalue"))
    value = (
        "%s … (%d million characters in all)" % (value[:10000], len(value) // 1000000)
        if len(value) > 10000
        else value
    )
    frames = [str(frame) for frame in content.get("traceback") or []]
    kept = [frame for frame in frames if len(frame) < 20000][:40]
    return {"ename": name, "evalue": value, "traceback": [*kept, f"{name}: {value}"]}


def told_of(message: Json) -> Json:
    """The answer to a question; of what is known of a name only text, and no more than anybody reads: a frame too large would end this process."""
    content: Json = message["content"]
    if message["msg_type"] != "inspect_reply":
        return content if json_size(content) <= SHOWN_LIMIT else {"status": "error"}
    text = str((content.get("data") or {}).get("text/plain") or "")
    return {
        "status": content.get("status"),
        "found": content.get("found"),
        "data": {"text/plain": text[:INSPECT_CHARACTERS]},
    }


def kernel_host(folder: Path) -> int:
    be_killed_first()
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get between the frames
    asyncio.run(KernelHost(out, folder).main())
    return 0


def main(arguments: list[str]) -> int:
    if len(arguments) == 1 and arguments[0] == "--version":
        print(VERSION)
        return 0
    if len(arguments) != 2 or arguments[0] not in ("serve", "connect", "kernel-host"):
        print("usage: agent.py serve|connect|kernel-host DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[1]).expanduser().absolute()
    if arguments[0] == "serve":
        return serve(folder)
    if arguments[0] == "connect":
        return connect(folder)
    return kernel_host(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
