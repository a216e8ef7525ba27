"""One folder on a machine, served by a program over one ssh channel.

The program is sent as text, so nothing is installed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.loader import loading, reading_command
from nbprov.on_machine.sync_files import MOST_ENTRIES, MOST_SKIPPED, Rules, SyncFolder
from nbprov.on_machine.sync_protocol import Skip, SyncFailure, message
from nbprov.on_machine.sync_server import STAYS_SECONDS
from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch
from nbprov.remote.ssh.tar_copy import remote_path
from nbprov.remote.ssh.warm_programs import WarmProgram

from .errors import MOST_WORDS, SyncError, shown
from .folder_channel import LIST_SECONDS, MOST_GREETING, FolderChannel
from .listing import ListedPath, SyncListing, checked_entry, taken_here
from .transfer import BATCH, Progress, TransferResult, fetch, send

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

PROGRAM = ("sync_protocol", "sync_files", "sync_sender", "sync_receiver", "sync_server")
"""The modules that run on the machine, in the order of their imports."""
MOST_LISTED = 128 * 1024 * 1024
"""Bytes of a listing: 500 for each of the most entries."""
STDERR_WAIT: Seconds = 2.0
"""How long the last words of a program that failed are waited for."""
WINDOW = 8 * 1024 * 1024
"""Bytes that a machine may send ahead.

A connection of 100 MB/s with a round trip of 80 ms stays full; up to twice as much is held here.
"""


@cache
def program() -> bytes:
    """Return the program that the machine runs.

    It leaves by `os._exit`, as Python's own clean-up takes time and nothing here needs it.
    """
    return f"{loading(PROGRAM)}module.main()\nimport os\nos._exit(0)\n".encode()


@asynccontextmanager
async def open_remote_folder(
    connection: Connection,
    target: str,
    python: str = "python3",
    watch: TransferWatch | None = None,
) -> AsyncIterator[RemoteFolder]:
    """Open one folder of a machine, which need not exist.

    After a block that ended well, the program stays on the machine for a moment, for the next
    folder over this connection.

    Parameters
    ----------
    watch
        Counts what moves; whoever made it ends a transfer that is too slow.

    Raises
    ------
    CopyError
        If `target` is no place below the home or from the root.
    SyncError
        If it is a file, or the machine has no Python.
    """
    remote_path(target)
    command = reading_command(python, len(program()))
    watch = watch or TransferLimit().watch()
    running, made = await _waiting(connection, command, target, watch) or await _fresh(
        connection, command, target, watch
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
            rests = is_over and not connection.is_crowded and await made.channel.rest()
        finally:
            # Also after a cancellation: a channel that is left open would keep the machine awake
            # and take one of the few channels.
            if rests:
                await connection.warm_programs.put(command, running, STAYS_SECONDS)
            else:
                await running.end()


async def _waiting(
    connection: Connection, command: str, target: str, watch: TransferWatch
) -> tuple[WarmProgram, RemoteFolder] | None:
    """Open the folder with the program of an earlier sync; None where that has gone."""
    running = connection.warm_programs.take(command)
    if running is None:
        return None
    made = RemoteFolder(FolderChannel(running.process, connection.host, watch))
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


async def _fresh(
    connection: Connection, command: str, target: str, watch: TransferWatch
) -> tuple[WarmProgram, RemoteFolder]:
    running = await WarmProgram.start(connection.channel, command, WINDOW)
    try:
        made = RemoteFolder(FolderChannel(running.process, connection.host, watch))
        try:
            await made.begin(target, is_fresh=True)
        except SyncError as error:
            if error.code != "sync.lost" or not connection.is_open:
                raise
            words = ""
            with suppress(TimeoutError):
                async with asyncio.timeout(STDERR_WAIT):
                    words = await asyncio.shield(running.stderr_tail)
            last = (words.strip().splitlines() or [""])[-1]
            why = shown(last, MOST_WORDS) or "its program ended at once"
            raise SyncError(
                f"the machine could not begin a sync: {why}",
                hint="it needs Python 3.8 or later",
                code="sync.no-python",
            ) from None
    except BaseException:
        await running.end()
        raise
    return running, made


class RemoteFolder:
    """A folder on the machine; one question at a time.

    Attributes
    ----------
    path
        Absolute, as the machine tells it.
    free
        Bytes left on its disk.
    refusal
        Why it cannot be used: it is a file.
    """

    def __init__(self, channel: FolderChannel) -> None:
        self.channel = channel
        self.path = ""
        self.exists = self.is_home = self.has_rsync = False
        self.free = 0
        self.refusal: SyncFailure | None = None

    async def begin(self, target: str, *, is_fresh: bool = False) -> None:
        """Name the folder, and read what the machine says of it.

        Parameters
        ----------
        is_fresh
            The process has not got the program yet, which is sent first.
        """
        opening = message(ask="open", folder=target)
        await self.channel.write((program() if is_fresh else b"") + opening)
        if is_fresh:
            await self.channel.pass_greeting()
        self.channel.expect(MOST_GREETING, LIST_SECONDS)
        try:
            told = await self.channel.next()
        except SyncFailure as trouble:
            if trouble.code != "file":
                raise
            self.refusal = trouble
            return
        self.path = str(told.get("path"))
        self.exists, self.is_home = told.get("exists") is True, told.get("home") is True
        self.has_rsync, free = told.get("rsync") is True, told.get("free")
        self.free = free if isinstance(free, int) else 0

    async def listing(self, rules: list[list[Any]], *, windows: bool, folds: bool) -> SyncListing:
        """List the folder without ignored names.

        Names that may not come to this computer are among the skipped.
        """
        if not self.exists:
            return SyncListing()
        entries: list[ListedPath] = []
        frame = await self.channel.ask("list", most=MOST_LISTED, rules=rules)
        async with asyncio.timeout(LIST_SECONDS):
            while "rows" in frame:
                entries += [checked_entry(row) for row in _list(frame["rows"])]
                if len(entries) > MOST_ENTRIES:
                    raise SyncFailure("many", f"holds more than {MOST_ENTRIES:,} entries")
                frame = await self.channel.next()
        if frame.get("listed") != len(entries):
            raise SyncFailure("foul", "the machine's list of files is not whole")
        taken, refused = await asyncio.to_thread(
            taken_here, entries, Rules(rules, folds), windows=windows, folds=folds
        )
        skipped = [
            (str(name), Skip.__members__.get(str(why), str(why)))
            for name, why in map(_list, _list(frame.get("skipped"))[:MOST_SKIPPED])
        ] + refused
        return SyncListing(
            taken,
            tuple(skipped[:MOST_SKIPPED]),
            max(0, len(skipped) - MOST_SKIPPED) + _count(frame.get("more_skipped")),
            tuple(str(name) for name in _list(frame.get("ignored"))[:3]),
            _count(frame.get("ignored_count")),
            frame.get("is_whole") is True,
        )

    async def digests(self, names: Sequence[str]) -> dict[str, str]:
        """Return digests of files; empty where one cannot be read."""
        return {name: str(told) async for name, told in self._each("digests", "digest", names)}

    async def parts(self, names: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return length and digest of the unfinished files there."""
        found = {name: _list(told) async for name, told in self._each("parts", "part", names)}
        return {
            name: (_count(told[0]), str(told[1])) for name, told in found.items() if len(told) == 2
        }

    async def _each(
        self, ask: str, answer: str, names: Sequence[str]
    ) -> AsyncIterator[tuple[str, Any]]:
        for some in _batches(names):
            frame = await self.channel.ask(ask, names=some)
            for number, name in enumerate(some):
                # One answer for each name, so that the deadline holds for each file.
                yield name, (frame if number == 0 else await self.channel.next()).get(answer)

    async def delete(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Remove these; return `(name, why)` of those that stay."""
        kept: list[tuple[str, str]] = []
        # Deepest first over all batches, so that a folder is empty by its turn.
        for some in _batches(sorted(names, reverse=True)):
            told = map(_list, _list((await self.channel.ask("delete", names=some)).get("kept")))
            kept += [
                (str(pair[0]), shown(str(pair[1]), MOST_WORDS)) for pair in told if len(pair) == 2
            ]
        return kept

    async def make(self) -> None:
        """Make the folder, should it not exist."""
        await self.channel.ask("receive")
        await self.channel.write(message(stop=True))
        await self.channel.next()

    async def send(
        self,
        folder: SyncFolder,
        entries: Sequence[ListedPath],
        modes: Sequence[ListedPath],
        offsets: dict[str, int],
        progress: Progress,
    ) -> TransferResult:
        """Send files, folders and links of this computer; see `transfer.send`."""
        if not self.exists:
            # First: where it is not allowed, the machine would take the files for messages.
            await self.make()
        with self.channel.watch.moving(LIST_SECONDS if offsets else 0.0):
            return await send(self.channel, folder, entries, modes, offsets, progress)

    async def fetch(
        self,
        folder: SyncFolder,
        entries: Sequence[ListedPath],
        modes: Sequence[ListedPath],
        offsets: dict[str, int],
        progress: Progress,
    ) -> TransferResult:
        """Fetch files, folders and links to this computer; see `transfer.fetch`."""
        # The machine reads again what is here already, before it sends a byte.
        with self.channel.watch.moving(LIST_SECONDS if offsets else 0.0):
            return await fetch(self.channel, folder, entries, modes, offsets, progress)


def _batches(names: Sequence[str]) -> Iterable[list[str]]:
    return (list(names[start : start + BATCH]) for start in range(0, len(names), BATCH))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SyncFailure("foul", "the machine's answer is malformed")
    return value


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
