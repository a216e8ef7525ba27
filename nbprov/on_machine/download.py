"""The machine's side of downloads: takes links over one ssh channel and fetches them into a folder.

Links and headers come by stdin alone, since they may hold a key for an hour; nothing of them is
ever printed or written. Each file is written beside its place under a name of ours, checked by size
and digest, and moved to its place in one step. It ends when stdin does.
"""

from __future__ import annotations

import os
import queue
import select
import shutil
import stat
import threading
import time
from typing import Any

from .download_file import Download, Target, digest_of_kind
from .sync_protocol import CHUNK, Frames, SyncFailure, message, trouble_of
from .transfer_limit import TransferLimit

MARKER = b"\0nbprov-fetch 1\0"
"""What it says first; what a login script prints before it is skipped."""
WORKERS = 16
"""Downloads at once.

One connection to a bucket gives 50 to 100 MB/s, and each small file costs a handshake."""
TOLD_EVERY = 0.5
"""Seconds between two messages of how far it is."""
SAVED_EVERY = 15.0
"""Seconds between two writes of what has arrived."""
STDIN, STDOUT = 0, 1


class Fetching:
    """Fetches files into one folder, several at once."""

    def __init__(self, folder: str, limit: TransferLimit) -> None:
        self.target = Target(folder, limit)
        self._out = threading.Lock()
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._workers: list[threading.Thread] = []

    def say(self, **content: Any) -> None:
        """Send one message."""
        data = memoryview(message(**content))
        with self._out:
            while data:
                data = data[os.write(STDOUT, data) :]

    def opened(self) -> dict[str, Any]:
        """Return what the other side should know of the folder."""
        near = self.target.folder.path
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        is_file = os.path.lexists(self.target.folder.path) and not os.path.isdir(
            self.target.folder.path
        )
        return {
            "path": self.target.folder.path,
            "file": is_file,
            "home": self.target.folder.is_home_or_above(),
            "free": shutil.disk_usage(near).free,
        }

    def check(self, rows: list[list[Any]]) -> list[int]:
        """Return the numbers of the rows `[name, size, etag, md5]` that are to be fetched."""
        return [number for number, row in enumerate(rows) if not self._is_here(*row)]

    def _is_here(self, name: str, size: int, etag: str, md5: str) -> bool:
        try:
            path = self.target.folder.place(name)
            info = os.lstat(path)
        except (OSError, SyncFailure):
            return False
        if not stat.S_ISREG(info.st_mode) or info.st_size != size:
            return False
        if etag and self.target.known.etag(name, path) == etag:
            return True
        if not md5:
            return False
        made = digest_of_kind("md5")
        try:
            with self.target.folder.open(name) as file:
                for data in iter(lambda: file.read(CHUNK), b""):
                    made.update(data)
        except (OSError, SyncFailure):
            return False
        if made.hexdigest() != md5:
            return False
        self.target.known.note(name, etag, path)
        return True

    def get(self, asked: dict[str, Any]) -> None:
        """Begin, or queue, a download."""
        if not self._workers:
            self.target.folder.make(as_root=True)
        if len(self._workers) < WORKERS:
            self._workers.append(threading.Thread(target=self._work, daemon=True))
            self._workers[-1].start()
        self._waiting.put(asked)

    def _work(self) -> None:
        while True:
            asked = self._waiting.get()
            if asked is None:
                return
            download = Download(self.target, asked)
            try:
                self.say(**download.run())
            except Exception as error:
                trouble = (
                    error
                    if isinstance(error, SyncFailure)
                    else SyncFailure("io", f"could not be fetched ({type(error).__name__})")
                )
                if trouble.code != "busy":
                    download.leave()
                self.say(failed=asked["get"], code=trouble.code, why=trouble.why)

    def end(self) -> None:
        """Wait for the downloads under way."""
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join()
        self.target.known.save()


def main() -> None:
    """Serve until the other side has gone."""
    os.write(STDOUT, MARKER)
    frames, fetching = Frames(), None
    told, saved = 0, time.monotonic()
    try:
        while True:
            if select.select([STDIN], [], [], TOLD_EVERY)[0]:
                data = os.read(STDIN, CHUNK)
                if not data:
                    break
                for frame in frames.feed(data):
                    fetching = _answer(fetching, frame)
            if fetching is not None and fetching.target.so_far != told:
                told = fetching.target.so_far
                fetching.say(moved=told)
            if fetching is not None and time.monotonic() - saved > SAVED_EVERY:
                fetching.target.known.save()
                saved = time.monotonic()
    except BrokenPipeError:
        pass  # nobody listens any more
    except SyncFailure as trouble:
        _say(trouble=trouble.code, why=trouble.why)
    except OSError as error:
        _say(trouble=trouble_of(error).code, why=trouble_of(error).why)
    if fetching is not None:
        fetching.target.known.save()
    # Downloads under way end here; their parts stay for the next run.
    os._exit(0)


def _say(**content: Any) -> None:
    os.write(STDOUT, message(**content))


def _answer(fetching: Fetching | None, frame: Any) -> Fetching | None:
    if isinstance(frame, bytes):
        raise SyncFailure("foul", "what came is no message of ours")
    if "open" in frame:
        fetching = Fetching(frame["open"], TransferLimit(*frame["limit"]))
        fetching.say(**fetching.opened())
    elif fetching is None:
        raise SyncFailure("foul", "no folder is named")
    elif "check" in frame:
        fetching.say(stale=fetching.check(frame["check"]))
    elif "get" in frame:
        fetching.get(frame)
    elif "stop" in frame:
        fetching.end()
        fetching.say(stopped=True, moved=fetching.target.so_far)
    return fetching


__all__ = ["MARKER", "main"]
