"""The steps of one pull: list, compare, choose names and fetch."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nbprov.on_machine.sync_files import KEEP_FROM
from nbprov.remote.sync.client import RemoteFolder
from nbprov.remote.sync.errors import SyncError
from nbprov.remote.sync.listing import ListedPath, SyncListing
from nbprov.remote.sync.records import load, save
from nbprov.remote.sync.sync import FREE_BYTES
from nbprov.remote.sync.transfer import Progress, TransferResult

from .local_names import LocalNames, RenamingFolder
from .options import PullOptions, PullResult

PASSES = 2
"""Files that arrive damaged, or change meanwhile, are listed and fetched once more."""
AGAIN = ("digest", "changed", "kept")
"""The codes of such failures."""


class PullRun:
    """Fetches what the rules leave of one folder on the machine."""

    def __init__(
        self,
        remote: RemoteFolder,
        here: RenamingFolder,
        options: PullOptions,
        rules: list[list[Any]],
        on_found: Callable[[int, int], object],
        progress: Progress,
    ) -> None:
        self._remote, self._here, self._options, self._rules = remote, here, options, rules
        self._on_found, self._progress = on_found, progress
        self._names = LocalNames(here, options, load(options.memory))
        self._before = 0

    async def run(self) -> PullResult:
        """Fetch the files, and remember what is the same."""
        done = PullResult(self._here.path)
        try:
            for number in range(PASSES):
                now, again = await self._pass()
                done = replace(
                    now,
                    files=done.files + now.files,
                    bytes=done.bytes + now.bytes,
                    same=now.same - done.files if number else now.same,
                    aside=done.aside + now.aside,
                    renamed=done.renamed + now.renamed,
                )
                if not again:
                    break
        finally:
            self._here.is_over = True
            known = self._names.known
            await asyncio.to_thread(save, self._options.memory, known, set(known))
        return done

    async def _pass(self) -> tuple[PullResult, bool]:
        windows = sys.platform == "win32"
        listing = await self._remote.listing(
            self._rules, windows=windows, folds=windows or sys.platform == "darwin"
        )
        wanted = {name: e for name, e in listing.entries.items() if e.kind != "d"}
        self._names.reset()
        to_digest = await asyncio.to_thread(
            lambda: [e.name for e in wanted.values() if self._names.may_be_same(e)]
        )
        digests = await self._remote.digests(to_digest)
        names, same, failed = await asyncio.to_thread(self._names.choose, wanted, digests)
        entries = [wanted[name] for name in names]
        self._on_found(len(entries), sum(e.size for e in entries))
        await asyncio.to_thread(self._check_room, entries)
        moved = await self._fetch(entries)
        # Remembered only now, as the file here is the machine's only once it has arrived.
        for name, (stamp, digest) in moved.done.items():
            if name in wanted:
                self._names.remember(names[name], stamp, wanted[name], digest)
        failed += [(name, why) for name, _, why in moved.failed]
        moved_names = {n: chosen for n, chosen in names.items() if n not in dict(failed)}
        renamed = {n: chosen for n, chosen in moved_names.items() if self._names.is_renamed(n)}
        aside = {n: c for n, c in moved_names.items() if c != self._names.given(n)}
        arrived = [e for e in entries if e.name in moved.done]
        result = PullResult(
            self._here.path,
            found=len(wanted) + sum(name != "." for name, _ in listing.skipped),
            files=len(arrived) + moved.made,
            bytes=sum(e.size for e in arrived),
            same=same,
            aside=tuple(aside.items()),
            renamed=tuple(renamed.items()),
            skipped=_skipped(listing),
            failed=tuple(failed),
        )
        return result, any(code in AGAIN for _, code, _ in moved.failed)

    async def _fetch(self, entries: Sequence[ListedPath]) -> TransferResult:
        if not entries:
            return TransferResult()
        await asyncio.to_thread(self._here.make)

        def parts() -> dict[str, int]:
            large = {e.name: e.size for e in entries if e.kind == "f" and e.size >= KEEP_FROM}
            begun = {name: self._here.part(name)[0] for name in large}
            return {name: length for name, length in begun.items() if 0 < length <= large[name]}

        before = self._before

        def progress(sent: int) -> None:
            self._before = before + sent
            self._progress(self._before)

        offsets = await asyncio.to_thread(parts)
        return await self._remote.fetch(self._here, entries, (), offsets, progress)

    def _check_room(self, entries: Sequence[ListedPath]) -> None:
        needs, near = sum(e.size for e in entries), self._here.path
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        free = shutil.disk_usage(near).free
        if needs and needs + FREE_BYTES > free:
            raise SyncError(
                f"{needs / 1e6:,.0f} MB do not fit on the disk of this computer,"
                f" which has {free / 1e6:,.0f} MB left",
                hint="nothing of it was moved: make room",
                code="sync.full",
            )


def _skipped(listing: SyncListing) -> tuple[tuple[str, str], ...]:
    more = listing.more_skipped
    return listing.skipped + ((("…", f"and {more:,} more"),) if more else ())
