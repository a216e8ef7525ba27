"""The steps of one sync: compare, move and delete files."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from nbprov.on_machine.sync_files import KEEP_FROM, SyncFolder
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.on_machine.transfer_limit import TransferLimit

from .client import RemoteFolder
from .listing import ListedPath, Stamp, SyncListing
from .options import SyncOptions
from .plan import SyncPlan, SyncRecord, decide, to_compare
from .records import record
from .rsync import LEAST_BYTES, carry, rsync_here, rsync_words
from .transfer import Progress, TransferResult


class SyncRun:
    """One sync of a folder here with one on a machine.

    Attributes
    ----------
    known
        The files that are known to be the same, which grows as files arrive.
    bytes
        What went over the connection so far.
    failed
        Code and reason of each file that did not arrive or was not deleted.
    """

    def __init__(
        self,
        options: SyncOptions,
        folder: SyncFolder,
        remote: RemoteFolder,
        known: dict[str, SyncRecord],
        progress: Progress,
        limit: TransferLimit,
    ) -> None:
        self.options, self.folder, self.remote, self._limit = options, folder, remote, limit
        self.known = known
        self.bytes = 0
        self.failed: dict[str, tuple[str, str]] = {}
        self._progress = progress

    async def plan(self, here: SyncListing, there: SyncListing) -> SyncPlan:
        """Compare what may be the same by digest, and decide what to move."""
        names = to_compare(here, there, self.known)
        mine, theirs = await self._both_digests(names)
        equal = [name for name in names if mine[name] and mine[name] == theirs.get(name)]
        for name in equal:
            source = here.entries[name]
            self._remember(source, source.stamp, there.entries[name].stamp, mine[name])
        return decide(
            self.options.direction,
            here,
            there,
            self.known,
            equal,
            delete=self.options.delete,
            modes=sys.platform != "win32",
            keep_names=self.options.keep_names,
        )

    async def _both_digests(self, names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        def digests() -> dict[str, str]:
            return {name: self.folder.digest(name) for name in names}

        return await asyncio.gather(asyncio.to_thread(digests), self.remote.digests(names))

    def _remember(self, source: ListedPath, here: Stamp, there: Stamp, digest: str) -> None:
        self.known[source.name] = record(here, there, digest, source.mtime)

    async def move(self, plan: SyncPlan) -> int:
        """Move files both ways; return how many have arrived.

        What arrived damaged, or changed meanwhile, is moved once more.
        """
        if plan.down or plan.modes_down:
            await asyncio.to_thread(self.folder.make)
        count = 0
        for entries, modes, up in (
            (plan.up, plan.modes_up, True),
            (plan.down, plan.modes_down, False),
        ):
            if entries or modes:
                count += await self._one_direction(plan, entries, modes, up=up)
        return count

    async def _one_direction(
        self,
        plan: SyncPlan,
        entries: Sequence[ListedPath],
        modes: Sequence[ListedPath],
        *,
        up: bool,
    ) -> int:
        brought = await self._by_rsync(plan, entries) if up else set()
        entries = tuple(entry for entry in entries if entry.name not in brought)
        moved = await self._transfer(entries, modes, await self._offsets(entries, up=up), up=up)
        again = [
            entry
            for entry in entries
            if self.failed.get(entry.name, ("", ""))[0] in ("digest", "changed")
        ]
        if again:
            again = await asyncio.to_thread(_as_now, self.folder, again) if up else again
            for entry in again:
                del self.failed[entry.name]
            more = await self._transfer(again, (), {}, up=up)
            moved.done.update(more.done)
        by_name = {entry.name: entry for entry in (*entries, *again)}
        for name, (stamp, digest) in moved.done.items():
            source = by_name.get(name)
            if source is not None:
                pair = (source.stamp, stamp) if up else (stamp, source.stamp)
                self._remember(source, *pair, digest)
        return len(brought) + len(moved.done)

    async def _by_rsync(self, plan: SyncPlan, entries: Sequence[ListedPath]) -> set[str]:
        """Let rsync send large files of which the machine has another content.

        Returns
        -------
        set
            The names of the files that are the same now, by digest.
        """
        replaced = set(plan.replaced)
        names = [
            e.name
            for e in entries
            if e.kind == "f" and e.size >= LEAST_BYTES and e.name in replaced
        ]
        if not names or not self.options.ssh or not self.remote.has_rsync:
            return set()
        rsync = await asyncio.to_thread(rsync_here)
        if not rsync:
            return set()
        before = self.bytes
        # However it ends: what it did not bring is sent over the open connection.
        words = rsync_words(rsync, self.options.ssh, self.folder.path, self.remote.path)
        await carry(words, names, lambda sent: self._count(before + sent), self._limit)
        mine, theirs = await self._both_digests(names)
        return {name for name in names if mine[name] and mine[name] == theirs.get(name)}

    def _count(self, total: int) -> None:
        self.bytes = total
        self._progress(total)

    async def _transfer(
        self,
        entries: Sequence[ListedPath],
        modes: Sequence[ListedPath],
        offsets: dict[str, int],
        *,
        up: bool,
    ) -> TransferResult:
        before = self.bytes
        act = self.remote.send if up else self.remote.fetch
        moved = await act(
            self.folder, entries, modes, offsets, lambda sent: self._count(before + sent)
        )
        self.failed.update({name: (code, why) for name, code, why in moved.failed})
        return moved

    async def _offsets(self, entries: Sequence[ListedPath], *, up: bool) -> dict[str, int]:
        """Return how many bytes of each large file the target has already.

        Its unfinished part counts if its digest is that of the source's beginning.
        """
        large = {e.name: e.size for e in entries if e.kind == "f" and e.size >= KEEP_FROM}
        if not large:
            return {}
        names = list(large)

        def parts_here() -> dict[str, tuple[int, str]]:
            return {name: self.folder.part(name) for name in names}

        parts = await self.remote.parts(names) if up else await asyncio.to_thread(parts_here)
        begun = {name: part for name, part in parts.items() if 0 < part[0] <= large.get(name, 0)}
        if not up:
            # The machine digests whole files only, so a part here is checked once the file is
            # complete. A wrong one is fetched again from the start.
            return {name: length for name, (length, _) in begun.items()}

        def same_beginnings() -> dict[str, int]:
            return {
                name: length
                for name, (length, digest) in begun.items()
                if self.folder.digest(name, length) == digest
            }

        return await asyncio.to_thread(same_beginnings)

    async def delete(self, plan: SyncPlan) -> int:
        """Delete what the plan says, if all files have arrived; return how much was deleted."""
        if self.failed:
            return 0
        kept: list[tuple[str, str]] = []
        if plan.delete_there:
            kept += await self.remote.delete(plan.delete_there)
        if plan.delete_here:
            kept += await asyncio.to_thread(lambda: list(self.folder.delete(plan.delete_here)))
        self.failed.update({n: ("delete", f"could not be deleted: {why}") for n, why in kept})
        for name in (*plan.delete_here, *plan.delete_there):
            self.known.pop(name, None)
        return len(plan.delete_there) + len(plan.delete_here) - len(kept)


def _as_now(folder: SyncFolder, entries: Sequence[ListedPath]) -> list[ListedPath]:
    """Return files that changed while they were read as they are now, without those now gone."""
    found: list[ListedPath] = []
    for entry in entries:
        with suppress(OSError, SyncFailure), folder.open(entry.name) as file:
            info = os.fstat(file.fileno())
            mode = info.st_mode & 0o777
            found.append(
                ListedPath(
                    entry.name, "f", info.st_size, info.st_mtime_ns, info.st_ctime_ns, mode, ""
                )
            )
    return found
