"""Send files to a folder of a machine, or fetch them from there, over an open channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from nbprov.on_machine.sync_files import SyncFolder
from nbprov.on_machine.sync_protocol import SyncFailure, message
from nbprov.on_machine.sync_receiver import Receiver
from nbprov.on_machine.sync_sender import outgoing
from nbprov.on_machine.sync_server import gathered
from nbprov.on_machine.transfer_limit import FILE_BYTES

from .errors import MOST_WORDS, shown
from .folder_channel import LIST_SECONDS, FolderChannel
from .listing import ListedPath, Stamp

BATCH = 2000
"""Names in one question: some 100 KB."""
ANSWER_BYTES = 4096
"""Allowed for the machine's answer about one file."""

Progress = Callable[[int], None]
"""Called with the bytes that went over the connection so far."""


@dataclass(slots=True)
class TransferResult:
    """What a transfer moved.

    Attributes
    ----------
    done
        Stamp and digest of each file that arrived whole.
    made
        Folders, links and modes that were set.
    failed
        `(name, code, why)`.
    bytes
        What went over the connection.
    """

    done: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    made: int = 0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    bytes: int = 0

    def take(self, answer: dict[str, Any]) -> None:
        """Add an answer of a receiver.

        Raises
        ------
        Trouble
            The answer is malformed, or says that the disk is full.
        """
        try:
            if "done" in answer:
                size, mtime, ctime = answer["stat"]
                stamp = int(size), int(mtime), int(ctime)
                self.done[str(answer["done"])] = stamp, str(answer["digest"])
            elif "took" in answer:
                for name, digest, size, mtime, ctime in answer["took"]:
                    self.done[str(name)] = ((int(size), int(mtime), int(ctime)), str(digest))
                for name, code, why in answer["lost"]:
                    self._fail(name, code, why)
            elif "made" in answer:
                self.made += 1
            else:
                self._fail(answer["failed"], answer["code"], answer["why"])
        except (KeyError, TypeError, ValueError):
            raise SyncFailure("foul", "the machine's answer is malformed") from None

    def _fail(self, name: Any, code: Any, why: Any) -> None:
        self.failed.append((str(name), str(code)[:20], shown(str(why), MOST_WORDS)))
        if code == "full":
            raise SyncFailure("full", "the disk is full")


def _rows(entries: Sequence[ListedPath], offsets: dict[str, int]) -> list[list[Any]]:
    return [
        [e.name, offsets.get(e.name, 0), e.size, e.mtime, e.mode] for e in entries if e.kind == "f"
    ]


async def send(
    channel: FolderChannel,
    folder: SyncFolder,
    entries: Sequence[ListedPath],
    modes: Sequence[ListedPath],
    offsets: dict[str, int],
    progress: Progress,
) -> TransferResult:
    """Send files, folders and links of this computer to the machine.

    Parameters
    ----------
    modes
        Files of which only the mode is sent.
    offsets
        Bytes of a file that the machine has already.
    """
    result = TransferResult()
    channel.expect(ANSWER_BYTES * (len(entries) + len(modes) + 16), patience=None)

    def pieces() -> Iterator[bytes]:
        yield message(ask="receive")
        yield from (message(folder=e.name) for e in entries if e.kind == "d")
        yield from outgoing(folder, _rows(entries, offsets))
        yield from (message(link=e.name, to=e.link) for e in entries if e.kind == "l")
        yield from (message(mode=e.name, to=e.mode) for e in modes)
        yield message(stop=True)

    async def write() -> None:
        async for piece in _threaded(gathered(pieces())):
            await channel.write(piece)
            result.bytes += len(piece)
            progress(result.bytes)
        # What is on its way, and what the machine still writes, is counted by its answers alone.
        channel.watch.expect(LIST_SECONDS)

    async def read() -> None:
        while "received" not in (answer := await channel.next()):
            if "ready" not in answer:
                result.take(answer)
                channel.watch.moved(FILE_BYTES)

    await _both(write(), read())
    return result


async def fetch(
    channel: FolderChannel,
    folder: SyncFolder,
    entries: Sequence[ListedPath],
    modes: Sequence[ListedPath],
    offsets: dict[str, int],
    progress: Progress,
) -> TransferResult:
    """Fetch files, folders and links of the machine; parameters as for `send`.

    Only what is in `entries` is taken, at the sizes that it has there.
    """
    result = TransferResult()
    files = [e for e in entries if e.kind == "f"]
    receiver = Receiver(folder, {e.name: e.size for e in files})
    try:
        for start in range(0, len(files), BATCH):
            rows = _rows(files[start : start + BATCH], offsets)
            channel.expect(0, patience=None)
            await channel.write(message(ask="send", files=rows))
            await _fetch_batch(channel, receiver, result, progress)
        frames: list[dict[str, Any]] = [{"folder": e.name} for e in entries if e.kind == "d"]
        frames += [{"link": e.name, "to": e.link} for e in entries if e.kind == "l"]
        frames += [{"mode": e.name, "to": e.mode} for e in modes]
        for answer in await asyncio.to_thread(lambda: [receiver.take(frame) for frame in frames]):
            result.take(cast("dict[str, Any]", answer))
    finally:
        receiver.close()
    return result


async def _fetch_batch(
    channel: FolderChannel, receiver: Receiver, result: TransferResult, progress: Progress
) -> None:
    def consume(data: bytes) -> bool:
        for frame in channel.frames.feed(data):
            if isinstance(frame, dict):
                if "sent" in frame:
                    return True
                if not frame.keys() & {"put", "end", "files"}:
                    raise SyncFailure("foul", "the machine sent what was not asked for")
            answer = receiver.take(frame)
            if answer is not None:
                result.take(answer)
                channel.watch.moved(FILE_BYTES)
        return False

    ended = False
    while not ended:
        data = await channel.read()
        # An interrupted caller closes the file next, so the thread must have ended.
        ended = await _finished(asyncio.to_thread(consume, data))
        result.bytes += len(data)
        progress(result.bytes)


async def _finished(work: Any) -> Any:
    """Await work in a thread; a cancellation waits for its end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _threaded(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make the pieces in a thread, one ahead of the consumer."""
    ahead = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
    try:
        while (piece := await asyncio.shield(ahead)) is not None:
            ahead = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
            yield piece
    finally:
        await asyncio.wait({ahead})
        if not ahead.cancelled() and ahead.exception() is None:
            cast("Any", pieces).close()


async def _both(*work: Any) -> None:
    """Run both; if one fails, cancel the other and raise the error."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
