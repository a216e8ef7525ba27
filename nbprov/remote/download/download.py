"""Let a machine download files itself.

The links go there over one ssh channel, and never on a command line or into a log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.on_machine.transfer_limit import FILE_BYTES, TransferLimit, TransferWatch
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer
from nbprov.remote.remote_program import ANSWER_SECONDS, RemoteProgram, open_program
from nbprov.remote.ssh.tar_copy import remote_path
from nbprov.remote.sync.errors import MOST_WORDS, shown

from .errors import DownloadError, download_error
from .items import DownloadItem, DownloadLink, DownloadResult, Signer

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

PROGRAM = (
    *("sync_protocol", "sync_files", "transfer_limit"),
    *("download_http", "download_state", "download_file", "download"),
)
"""The modules that run on the machine, in the order of their imports."""
STALL_SECONDS: Seconds = 300.0
"""How long all files together may be too slow, and the longest silence of the machine.

The machine's own tries at a silent server end within 250 s, and name the file.
"""
CHECK_SECONDS: Seconds = 900.0
"""To read again what is there already: 60 GB at the speed of a slow disk."""
AHEAD = 64
"""Links handed out at a time.

Each gives access for a while, so it is signed shortly before it is used.
"""
CHECKED_AT_ONCE = 1000
"""Files in one question whether they are there already."""
MOST_SIGNED = 3
"""Links made for one file.

One may run out while others are used, and its signer's own log-in may end.
"""
KEPT_FREE = 50_000_000
"""Bytes left free on a disk that is filled: a full disk breaks more than a copy."""


async def download(
    connection: Connection,
    folder: str,
    items: Sequence[DownloadItem],
    signer: Signer,
    *,
    is_tree: bool,
    source: str,
    progress: Callable[[int], None] = lambda count: None,
    python: str = "python3",
    limit: TransferLimit = TransferLimit(),  # noqa: B008 - it does not change
) -> DownloadResult:
    """Let a machine download files into a folder, except those that are there unchanged.

    Parameters
    ----------
    is_tree
        Whether the folder itself is the target, which then must not be the home.
    source
        What messages call the place it comes from.
    progress
        Called with the bytes that are there by now, those of earlier runs included.
    limit
        The least speed and the longest time of each file; the time is that of all together, too.

    Raises
    ------
    DownloadError
        Files that have arrived by then are whole, and the next run goes on.
    """
    remote_path(folder)
    try:
        async with (
            bounded_transfer(limit) as watch,
            open_program(connection, PROGRAM, python) as remote,
        ):
            told = await remote.ask({"open": folder, "limit": limit.numbers}, ANSWER_SECONDS)
            _check_place(folder, told, is_tree=is_tree)
            stale = await _stale(remote, items)
            same = len(items) - len(stale)
            before = sum(item.size for item in items if item.size > 0) - sum(
                item.size for item in stale if item.size > 0
            )
            _check_room(stale, told, source)
            progress(before)
            run = _Run(remote, stale, signer, source, lambda moved: progress(before + moved), watch)
            with watch.moving(STALL_SECONDS):
                await run.carry_out()
            run.note((await remote.ask({"stop": True}, ANSWER_SECONDS))["moved"])
            return DownloadResult(len(stale) - run.same, run.bytes, same + run.same)
    except SyncFailure as trouble:
        raise download_error(trouble.code, trouble.why, source, "") from None
    except TransferTooSlow as slow:
        raise download_error("stalled", f"the download {slow}", source, "") from None
    except (KeyError, ValueError, TypeError, IndexError):
        raise download_error("foul", "the machine's answer is malformed", source, "") from None


def _check_place(folder: str, told: Mapping[str, Any], *, is_tree: bool) -> None:
    if told.get("file") is True:
        raise DownloadError(
            f"{shown(folder)} is a file on the machine",
            hint="choose another target",
            code="fetch.place",
        )
    if is_tree and told.get("home") is True:
        raise DownloadError(
            f"{shown(folder)} is the machine's whole home:"
            " what is in a bucket could replace its keys and settings",
            hint="name a folder below it",
            code="fetch.place",
        )


async def _stale(remote: RemoteProgram, items: Sequence[DownloadItem]) -> list[DownloadItem]:
    """Return the files that are missing on the machine or differ there."""
    known = [item for item in items if item.size >= 0]
    found = [item for item in items if item.size < 0]
    for start in range(0, len(known), CHECKED_AT_ONCE):
        some = known[start : start + CHECKED_AT_ONCE]
        rows = [[i.name, i.size, i.etag, i.md5] for i in some]
        numbers = (await remote.ask({"check": rows}, CHECK_SECONDS))["stale"]
        if not isinstance(numbers, list) or not all(
            type(n) is int and 0 <= n < len(some) for n in numbers
        ):
            raise SyncFailure("foul", "the machine's answer is malformed")
        found += [some[number] for number in sorted(set(numbers))]
    return found


def _check_room(items: Sequence[DownloadItem], told: Mapping[str, Any], source: str) -> None:
    needs, free = sum(max(0, item.size) for item in items), told.get("free")
    if isinstance(free, int) and needs and needs + KEPT_FREE > free:
        raise DownloadError(
            f"{source}: {needs / 1e9:,.1f} GB do not fit on the machine's disk,"
            f" which has {free / 1e9:,.1f} GB left",
            hint="ask for more by disk_size in resources, or name less of the bucket",
            code="fetch.full",
        )


class _Run:
    """The files that one node downloads.

    Attributes
    ----------
    bytes
        What has come so far.
    same
        Files that the machine found to be there unchanged after all.
    """

    def __init__(
        self,
        remote: RemoteProgram,
        items: Sequence[DownloadItem],
        signer: Signer,
        source: str,
        progress: Callable[[int], None],
        watch: TransferWatch,
    ) -> None:
        self._remote, self._items, self._signer = remote, items, signer
        self._watch = watch
        self._source, self._progress = source, progress
        self._tries: dict[int, int] = {}
        self.bytes = self.same = 0

    async def carry_out(self) -> None:
        """Hand out links as answers come.

        A refused link is replaced. The first other failure ends the run.
        """
        waiting, out = deque(range(len(self._items))), 0
        failed: list[tuple[DownloadItem, str, str]] = []
        while waiting or out:
            batch = [waiting.popleft() for _ in range(min(len(waiting), AHEAD - out))]
            if batch:
                out += await self._hand_out(batch)
            answer = await self._remote.next(STALL_SECONDS)
            if "moved" in answer:
                self.note(answer["moved"])
                continue
            number = answer["got"] if "got" in answer else answer["failed"]
            if type(number) is not int or self._tries.get(number, 0) < 1:
                raise SyncFailure("foul", "the machine speaks of a file it was not asked for")
            out -= 1
            self._watch.moved(FILE_BYTES)
            if "got" in answer:
                self.same += answer["same"] is True
                del self._tries[number]
            elif answer["code"] == "denied" and await self._has_another(number):
                waiting.appendleft(number)
            else:
                why = shown(str(answer["why"]), MOST_WORDS)
                failed.append((self._items[number], str(answer["code"])[:20], why))
                waiting.clear()  # the links already handed out may still succeed
        if failed:
            item, code, why = failed[0]
            raise download_error(code, why, self._source, item.key)

    def note(self, moved: Any) -> None:
        """Note how many bytes have come."""
        if type(moved) is not int or not 0 <= moved < 1 << 60:
            raise SyncFailure("foul", "the machine's answer is malformed")
        # It falls where a part turned out to be of another version.
        self._watch.moved(max(0, moved - self.bytes))
        self.bytes = moved
        self._progress(moved)

    async def _hand_out(self, numbers: Sequence[int]) -> int:
        def signed() -> list[tuple[int, DownloadLink | None]]:
            return [
                (number, self._signer.link(self._items[number], self._tries.get(number, 0)))
                for number in numbers
            ]

        for number, link in await asyncio.to_thread(signed):
            item = self._items[number]
            if link is None:
                raise download_error("denied", "no link can be made", self._source, item.key)
            self._tries[number] = self._tries.get(number, 0) + 1
            await self._remote.tell(
                get=number,
                name=item.name,
                url=link.url,
                headers=dict(link.headers),
                size=item.size,
                etag=item.etag,
                md5=item.md5,
                sha256=item.sha256,
            )
        return len(numbers)

    async def _has_another(self, number: int) -> bool:
        tries = self._tries[number]
        if tries >= MOST_SIGNED:
            return False
        return await asyncio.to_thread(self._signer.link, self._items[number], tries) is not None
