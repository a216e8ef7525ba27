"""One folder on a machine, asked over one ssh channel: nothing is installed there, and nothing it says is believed unchecked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from nbprov.model.clock import Seconds
from nbprov.on_machine.loader import loading, reading_command
from nbprov.on_machine.sync_files import MOST_ENTRIES, MOST_SKIPPED, Folder, Rules
from nbprov.on_machine.sync_protocol import MARKER, Frames, Skip, Trouble, message
from nbprov.on_machine.sync_receiver import Receiver
from nbprov.on_machine.sync_sender import outgoing
from nbprov.on_machine.sync_server import STAYS_SECONDS, gathered
from nbprov.remote.ssh.tar_copy import remote_path
from nbprov.remote.ssh.warm_programs import Spare

from .errors import MOST_WORDS, SyncError, shown
from .plan import Entry, Listing, Stamp, checked_entry, taken_here

if TYPE_CHECKING:
    import asyncssh

    from nbprov.remote.ssh.connection import Connection

PROGRAM = ("sync_protocol", "sync_files", "sync_sender", "sync_receiver", "sync_server")
"""The modules that run on the machine, in the order of their imports."""
STALL_SECONDS: Seconds = 60.0
"""Without a byte in either direction: TCP has given a lost packet up by then, and sshd's keepalives end a dead line after 45 s."""
LIST_SECONDS: Seconds = 600.0
"""To list, or to read one file: a network disk tells of 250,000 entries in some minutes, and of 60 GB of a file."""
MOST_LISTED = 128 * 1024 * 1024
"""Bytes of a listing: 500 for each of the most entries."""
MOST_GREETING = 64 * 1024
"""Bytes that a login script may print before our own program speaks."""
NOISE_SECONDS: Seconds = 2.0
"""How long the last words of a program that failed are waited for."""
BATCH = 2000
"""Names a question: some 100 KB."""

WINDOW = 8 * 1024 * 1024
"""Bytes that a machine may send ahead: a line of 100 MB/s that takes 80 ms there and back stays full, and twice that is the most that is held here."""
READ = 1024 * 1024
"""Bytes taken off the line at once, where there are so many: each time costs two hops between threads."""

Progress = Callable[[int], None]


@dataclass(slots=True)
class Moved:
    """What came through a transfer: stamps and digests of whole files, and what failed, `(name, code, why)`."""

    done: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    made: int = 0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    bytes: int = 0

    def take(self, answer: dict[str, Any]) -> None:
        """Note an answer of a receiver."""
        try:
            if "done" in answer:
                size, mtime, ctime = answer["stat"]
                self.done[str(answer["done"])] = (
                    (int(size), int(mtime), int(ctime)),
                    str(answer["digest"]),
                )
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
            raise Trouble("foul", "the machine's answer is malformed") from None

    def _fail(self, name: Any, code: Any, why: Any) -> None:
        self.failed.append((str(name), str(code)[:20], shown(str(why), MOST_WORDS)))
        if code == "full":
            raise Trouble("full", "the disk is full")


@cache
def program() -> bytes:
    """What the machine is to run. It ends at once: what Python tidies up at its end takes time, and nothing here needs it."""
    return f"{loading(PROGRAM)}module.main()\nimport os\nos._exit(0)\n".encode()


@asynccontextmanager
async def folder_there(
    connection: Connection, target: str, python: str = "python3"
) -> AsyncIterator[There]:
    """Begin to talk about one folder of a machine, which need not exist.

    The program that answers stays there for a moment after a talk that ended well, for the next talk over this connection.

    Raises
    ------
    CopyError
        If `target` is no place below the home or from the root.
    SyncError
        If it is a file, or the machine has no Python.
    """
    remote_path(target)
    runs = reading_command(python, len(program()))
    running, made = await _waiting(connection, runs, target) or await _fresh(
        connection, runs, target
    )
    is_over = False
    try:
        if made.refusal is not None:
            is_over = True
            raise made.refusal
        yield made
        is_over = True
    finally:
        rests = False
        try:
            rests = is_over and not connection.is_crowded and await made.rest()
        finally:
            # Also where somebody gives up while it is told: a channel that is left open would keep the machine awake, and one less could be had.
            await (connection.spares.put(runs, running, STAYS_SECONDS) if rests else running.end())


async def _waiting(connection: Connection, runs: str, target: str) -> tuple[Spare, There] | None:
    """The program of an earlier talk, asked of this folder; None where there is none, or it is there no more."""
    running = connection.spares.take(runs)
    if running is None:
        return None
    made = There(running.process, connection.host)
    try:
        await made.begin(target)
    except SyncError as error:
        await running.end()
        if error.code != "sync.lost" or not connection.is_open:
            raise
        return None
    except BaseException:
        await running.end()
        raise
    return running, made


async def _fresh(connection: Connection, runs: str, target: str) -> tuple[Spare, There]:
    running = await Spare.start(connection, runs, WINDOW)
    try:
        made = There(running.process, connection.host)
        try:
            await made.begin(target, is_fresh=True)
        except SyncError as error:
            if error.code != "sync.lost" or not connection.is_open:
                raise
            words = ""
            with suppress(TimeoutError):
                words = await asyncio.wait_for(asyncio.shield(running.noise), NOISE_SECONDS)
            last = (words.strip().splitlines() or [""])[-1]
            raise SyncError(
                f"the machine could not begin a sync: {shown(last, MOST_WORDS) or 'its program ended at once'}",
                hint="it needs Python 3.8 or later",
                code="sync.no-python",
            ) from None
    except BaseException:
        await running.end()
        raise
    return running, made


class There:
    """A folder on the machine; one question at a time.

    Attributes
    ----------
    path
        Absolute, as the machine tells it.
    free
        Bytes left on its disk.
    refusal
        Why it is none to talk about: it is a file.
    """

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], host: str) -> None:
        self._process = process
        self._host = host
        self._frames = Frames()
        self._waiting: deque[Any] = deque()
        self._budget = 0
        self._patience = STALL_SECONDS
        self.path = ""
        self.exists = self.is_home = self.has_rsync = False
        self.free = 0
        self.refusal: Trouble | None = None

    # ------------------------------------------------------------ talking

    async def begin(self, target: str, *, is_fresh: bool = False) -> None:
        """Name the folder, and wait for what is said of it; to a fresh process the program is handed over first."""
        await self._write((program() if is_fresh else b"") + message(ask="open", folder=target))
        if is_fresh:
            await self._pass_greeting()
        self._budget, self._patience = MOST_GREETING, LIST_SECONDS
        try:
            told = await self._next()
        except Trouble as trouble:
            if trouble.code != "file":
                raise
            self.refusal = trouble
            return
        self.path, self.exists, self.is_home = (
            str(told.get("path")),
            told.get("exists") is True,
            told.get("home") is True,
        )
        self.has_rsync, free = told.get("rsync") is True, told.get("free")
        self.free = free if isinstance(free, int) else 0

    async def rest(self) -> bool:
        """Let the program wait for the next talk, which gets a `There` of its own; False where it still has something to say, or has gone."""
        if self._waiting or self._frames.has_begun:
            return False
        try:
            await self._write(message(ask="rest"))
        except SyncError:
            return False
        return True

    async def _pass_greeting(self) -> None:
        seen = b""
        while (at := seen.find(MARKER)) < 0:
            if len(seen) > MOST_GREETING:
                raise SyncError("no program of ours answers", code="sync.foul")
            seen += await self._read()
        self._waiting.extend(self._frames.feed(seen[at + len(MARKER) :]))

    async def _write(self, data: bytes) -> None:
        import asyncssh

        try:
            async with asyncio.timeout(STALL_SECONDS):
                self._process.stdin.write(data)
                await self._process.stdin.drain()
        except (OSError, TimeoutError, asyncssh.Error):
            raise self._lost() from None

    async def _read(self) -> bytes:
        import asyncssh

        try:
            async with asyncio.timeout(self._patience):
                data = await self._process.stdout.read(READ)
        except (OSError, TimeoutError, asyncssh.Error):
            raise self._lost() from None
        if not data:
            raise self._lost()
        return data

    def _lost(self) -> SyncError:
        return SyncError(
            f"the connection to {self._host} broke during a sync; whole files have arrived, nothing is half written",
            hint="run it again: it goes on from where it was",
            code="sync.lost",
        )

    async def _next(self) -> dict[str, Any]:
        while not self._waiting:
            data = await self._read()
            self._budget -= len(data)
            if self._budget < 0:
                raise Trouble("foul", "the machine says more than it was asked")
            self._waiting.extend(self._frames.feed(data))
        frame = self._waiting.popleft()
        if not isinstance(frame, dict):
            raise Trouble("foul", "the machine sent what was not asked for")
        if "trouble" in frame:
            raise Trouble(str(frame["trouble"])[:20], shown(str(frame.get("why")), MOST_WORDS))
        return frame

    async def _ask(self, ask: str, *, most: int = 1024 * 1024, **more: Any) -> dict[str, Any]:
        self._budget, self._patience = most, LIST_SECONDS
        await self._write(message(ask=ask, **more))
        return await self._next()

    # ------------------------------------------------------------ questions

    async def listing(self, rules: list[list[Any]], *, windows: bool, folds: bool) -> Listing:
        """What is in it, ignored names left out; names that may not come to this computer are among the skipped."""
        if not self.exists:
            return Listing()
        entries: list[Entry] = []
        frame = await self._ask("list", most=MOST_LISTED, rules=rules)
        async with asyncio.timeout(LIST_SECONDS):
            while "rows" in frame:
                entries += [checked_entry(row) for row in _list(frame["rows"])]
                if len(entries) > MOST_ENTRIES:
                    raise Trouble("many", f"holds more than {MOST_ENTRIES:,} entries")
                frame = await self._next()
        if frame.get("listed") != len(entries):
            raise Trouble("foul", "the machine's list of files is not whole")
        taken, refused = await asyncio.to_thread(
            taken_here, entries, Rules(rules, folds), windows=windows, folds=folds
        )
        skipped = [
            (str(name), Skip.__members__.get(str(why), str(why)))
            for name, why in map(_list, _list(frame.get("skipped"))[:MOST_SKIPPED])
        ] + refused
        more = max(0, len(skipped) - MOST_SKIPPED) + _count(frame.get("more_skipped"))
        ignored = tuple(str(name) for name in _list(frame.get("ignored"))[:3])
        whole = frame.get("is_whole") is True
        return Listing(
            taken,
            tuple(skipped[:MOST_SKIPPED]),
            more,
            ignored,
            _count(frame.get("ignored_count")),
            whole,
        )

    async def digests(self, names: Sequence[str]) -> dict[str, str]:
        """Digests of files; empty where one cannot be read."""
        return {name: str(told) async for name, told in self._each("digests", "digest", names)}

    async def parts(self, names: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Length and digest of the unfinished files there."""
        found = {name: _list(told) async for name, told in self._each("parts", "part", names)}
        return {
            name: (_count(told[0]), str(told[1])) for name, told in found.items() if len(told) == 2
        }

    async def _each(
        self, ask: str, answer: str, names: Sequence[str]
    ) -> AsyncIterator[tuple[str, Any]]:
        for some in _batches(names):
            frame = await self._ask(ask, names=some)
            for number, name in enumerate(some):
                # One answer a name, so that each file, however large, has its time.
                yield name, (frame if number == 0 else await self._next()).get(answer)

    async def delete(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Remove these; `(name, why)` of those that stay."""
        kept: list[tuple[str, str]] = []
        # Deepest first over all batches, so that a folder is empty by its turn.
        for some in _batches(sorted(names, reverse=True)):
            told = map(_list, _list((await self._ask("delete", names=some)).get("kept")))
            kept += [
                (str(pair[0]), shown(str(pair[1]), MOST_WORDS)) for pair in told if len(pair) == 2
            ]
        return kept

    # ------------------------------------------------------------ moving

    async def make(self) -> None:
        """Make the folder, should it not exist."""
        await self._ask("receive")
        await self._write(message(stop=True))
        await self._next()

    async def send(
        self,
        folder: Folder,
        entries: Sequence[Entry],
        modes: Sequence[Entry],
        offsets: dict[str, int],
        progress: Progress,
    ) -> Moved:
        """Files, folders and links of this computer to the machine."""
        moved = Moved()
        if not self.exists:
            await (
                self.make()
            )  # it may not be allowed, and then what follows is no message to anybody
        self._patience = STALL_SECONDS
        self._budget = 4096 * (len(entries) + len(modes) + 16)
        rows = [
            [e.name, offsets.get(e.name, 0), e.size, e.mtime, e.mode]
            for e in entries
            if e.kind == "f"
        ]

        def pieces() -> Iterator[bytes]:
            yield message(ask="receive")
            yield from (message(folder=e.name) for e in entries if e.kind == "d")
            yield from outgoing(folder, rows)
            yield from (message(link=e.name, to=e.link) for e in entries if e.kind == "l")
            yield from (message(mode=e.name, to=e.mode) for e in modes)
            yield message(stop=True)

        async def write() -> None:
            async for piece in _threaded(gathered(pieces())):
                await self._write(piece)
                moved.bytes += len(piece)
                progress(moved.bytes)

        async def read() -> None:
            while "received" not in (answer := await self._next()):
                if "ready" not in answer:
                    moved.take(answer)

        await _both(write(), read())
        return moved

    async def fetch(
        self,
        folder: Folder,
        entries: Sequence[Entry],
        modes: Sequence[Entry],
        offsets: dict[str, int],
        progress: Progress,
    ) -> Moved:
        """Files, folders and links of the machine to this computer. Only what is in `entries` is taken, at the sizes it has there."""
        moved = Moved()
        wanted = [e for e in entries if e.kind == "f"]
        receiver = Receiver(folder, {e.name: e.size for e in wanted})
        try:
            for start in range(0, len(wanted), BATCH):
                some = wanted[start : start + BATCH]
                await self._write(
                    message(
                        ask="send",
                        files=[
                            [e.name, offsets.get(e.name, 0), e.size, e.mtime, e.mode] for e in some
                        ],
                    )
                )
                # The machine reads again what is here already, before it sends a byte.
                self._patience = LIST_SECONDS if offsets else STALL_SECONDS
                await self._fetch_batch(receiver, moved, progress)
            frames: list[dict[str, Any]] = [{"folder": e.name} for e in entries if e.kind == "d"]
            frames += [{"link": e.name, "to": e.link} for e in entries if e.kind == "l"] + [
                {"mode": e.name, "to": e.mode} for e in modes
            ]
            for answer in await asyncio.to_thread(
                lambda: [receiver.take(frame) for frame in frames]
            ):
                moved.take(cast("dict[str, Any]", answer))
        finally:
            receiver.close()
        return moved

    async def _fetch_batch(self, receiver: Receiver, moved: Moved, progress: Progress) -> None:
        def consume(data: bytes) -> bool:
            for frame in self._frames.feed(data):
                if isinstance(frame, dict):
                    if "sent" in frame:
                        return True
                    if not frame.keys() & {"put", "end", "files"}:
                        raise Trouble("foul", "the machine sent what was not asked for")
                answer = receiver.take(frame)
                if answer is not None:
                    moved.take(answer)
            return False

        ended = False
        while not ended:
            data = await self._read()
            # Not left half-way: whoever is interrupted closes the file next.
            ended = await _finished(asyncio.to_thread(consume, data))
            moved.bytes += len(data)
            progress(moved.bytes)


async def _finished(work: Any) -> Any:
    """Await work in a thread; a cancellation waits for its end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _threaded(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces made in a thread, one ahead of whoever takes them."""
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
    """Run both; where one fails the other is cancelled, and its error is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _batches(names: Sequence[str]) -> Iterable[list[str]]:
    return (list(names[start : start + BATCH]) for start in range(0, len(names), BATCH))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Trouble("foul", "the machine's answer is malformed")
    return value


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
