"""The machine's side of a sync: answers what the notebook's side asks of one folder.

It reads frames from stdin and writes frames to stdout, one question after another. It ends when
stdin does, or if nobody asks again for a moment after a sync. Nothing stays behind.
"""
# `typing` is not imported there: the start is a third of what a folder of small files takes.

from __future__ import annotations

import os
import sys
import time

from .sync_files import ROWS, Rules, SyncFolder
from .sync_protocol import CHUNK, MARKER, Frames, Skip, SyncFailure, message
from .sync_receiver import Receiver
from .sync_sender import outgoing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

STDIN, STDOUT = 0, 1
GATHERED_FIRST, GATHERED = 64 * 1024, 1024 * 1024
"""Bytes sent at once: each piece costs a hop between threads at the notebook's side.

The first pieces are smaller, so that the other side begins while more is read."""
WAIT_SECONDS = 0.2
"""Well below the time that either side waits for a byte, and that a progress line is renewed in."""
STAYS_SECONDS = 15.0
"""How long to wait for the next sync: a pull after a push, or the next folder of a cell."""
RESTING = b"nbprov-resting"
"""The process's name meanwhile, by which the agent knows that its session is no activity."""


def main() -> None:
    """Serve until the other side has gone, or asks nothing more after a sync."""
    _write(MARKER)
    serving = Serving()
    frames = Frames()
    try:
        while True:
            data = os.read(STDIN, CHUNK)
            if not data:
                return
            for answers in gathered(
                answer for frame in frames.feed(data) for answer in serving.answers(frame)
            ):
                _write(answers)
            if serving.rests and not _is_wanted_again():
                return
    except BrokenPipeError:
        return
    except SyncFailure as trouble:
        _write(message(trouble=trouble.code, why=trouble.why))
    finally:
        serving.close()


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(STDOUT, view) :]


def _is_wanted_again() -> bool:
    """Wait for the next sync, and return whether one begins."""
    import select

    before = _renamed(RESTING)
    is_wanted = bool(select.select([STDIN], [], [], STAYS_SECONDS)[0])
    if is_wanted:
        _renamed(before)
    return is_wanted


def _renamed(name: bytes) -> bytes:
    """Give this process another name, and return its name before.

    Where there is no /proc, nothing counts sessions by it either.
    """
    try:
        with open("/proc/self/comm", "r+b", buffering=0) as file:
            before = file.read().strip()
            file.write(name)
        return before
    except OSError:
        return b""


class Serving:
    """Answers questions about one folder. `rests` is set between two syncs."""

    def __init__(self) -> None:
        self.rests = False
        self._folder = SyncFolder("~")
        self._receiver: Receiver | None = None

    def close(self) -> None:
        """Close a file that is half received."""
        if self._receiver is not None:
            self._receiver.close()

    def answers(self, frame: Any) -> Iterator[bytes]:
        """Do what a frame asks, and yield the answers."""
        self.rests = False
        if self._receiver is not None:
            if isinstance(frame, dict) and "stop" in frame:
                self._receiver = None
                yield message(received=True)
                return
            told = self._receiver.take(frame)
            if told is not None:
                yield message(**told)
            return
        if isinstance(frame, bytes) or frame.get("ask") not in _ASKS:
            raise SyncFailure("foul", "what came is no message of a sync")
        try:
            yield from _ASKS[frame["ask"]](self, frame)
        except SyncFailure as trouble:
            yield message(trouble=trouble.code, why=trouble.why)

    def _open(self, frame: dict[str, Any]) -> Iterator[bytes]:
        self._folder = folder = SyncFolder(frame["folder"])
        there = folder.path
        exists = os.path.isdir(there)
        if not exists and os.path.lexists(there):
            raise SyncFailure("file", "is a file")
        near = there
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        yield message(
            path=there,
            exists=exists,
            home=folder.is_home_or_above(),
            free=_free(near),
            rsync=any(
                os.access(os.path.join(folder, "rsync"), os.X_OK) for folder in os.get_exec_path()
            ),
        )

    def _rest(self, frame: dict[str, Any]) -> Iterator[bytes]:
        self.rests = True
        return iter(())

    def _list(self, frame: dict[str, Any]) -> Iterator[bytes]:
        found = self._folder.survey(Rules(frame["rules"]))
        for start in range(0, len(found.rows), ROWS):
            yield message(rows=found.rows[start : start + ROWS])
        yield message(
            listed=len(found.rows),
            skipped=[
                (name, why.name if isinstance(why, Skip) else why) for name, why in found.skipped
            ],
            more_skipped=found.more_skipped,
            ignored=found.ignored,
            ignored_count=found.ignored_count,
            is_whole=found.is_whole,
        )

    def _digests(self, frame: dict[str, Any]) -> Iterator[bytes]:
        for name in frame["names"]:
            yield message(digest=self._folder.digest(name))

    def _parts(self, frame: dict[str, Any]) -> Iterator[bytes]:
        for name in frame["names"]:
            yield message(part=self._folder.part(name))

    def _receive(self, frame: dict[str, Any]) -> Iterator[bytes]:
        self._folder.make(as_root=True)
        self._receiver = Receiver(self._folder)
        yield message(ready=True)

    def _send(self, frame: dict[str, Any]) -> Iterator[bytes]:
        yield from gathered(outgoing(self._folder, frame["files"]))
        yield message(sent=True)

    def _delete(self, frame: dict[str, Any]) -> Iterator[bytes]:
        yield message(kept=list(self._folder.delete(frame["names"])))


def _free(folder: str) -> int:
    """Return the bytes left on the disk of a folder.

    shutil, which knows all systems, takes 3 ms to import.
    """
    if sys.platform == "win32":
        return 0
    else:
        told = os.statvfs(folder)
        return told.f_bavail * told.f_frsize


_ASKS = {
    "open": Serving._open,
    "rest": Serving._rest,
    "list": Serving._list,
    "digests": Serving._digests,
    "parts": Serving._parts,
    "receive": Serving._receive,
    "send": Serving._send,
    "delete": Serving._delete,
}


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces to larger ones, up to about `GATHERED` bytes, since each one sent costs.

    None waits longer than `WAIT_SECONDS` for the next.
    """
    waiting: list[bytes] = []
    size, since, enough = 0, time.monotonic(), GATHERED_FIRST
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= enough or time.monotonic() - since > WAIT_SECONDS:
            yield b"".join(waiting)
            waiting, size, since, enough = [], 0, time.monotonic(), min(2 * enough, GATHERED)
    if waiting:
        yield b"".join(waiting)


__all__ = ["Serving", "gathered", "main"]
