"""Chosen files of a machine, brought here: by name or pattern, each one verified. What was changed here is never written over."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.on_machine.sync_files import KEEP_FROM, MOST_ENTRIES, Folder
from nbprov.on_machine.sync_protocol import Trouble
from nbprov.remote.sync.client import Moved, Progress, There, folder_there
from nbprov.remote.sync.errors import SyncError, shown
from nbprov.remote.sync.plan import Entry, Known, Listing, Stamp
from nbprov.remote.sync.sync import FREE_BYTES, FRESH_NS, load, save

from .autoload_names import why_apart
from .patterns import literal, only, split_pattern

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

log = logging.getLogger("nbprov.machines")

MOST_ASIDE = 100
"""Copies of one file that are kept beside it; with more somebody writes it here and there all the time."""
PASSES = 2
"""What arrived damaged, or was written meanwhile, is looked at anew and tried once more."""
AGAIN = ("digest", "changed", "kept")


@dataclass(frozen=True, slots=True)
class Wish:
    """What to bring here, and where to.

    Attributes
    ----------
    source
        A file, a folder or a pattern on the machine, absolute or below `~`. In a pattern `*`, `?` and `[…]` stay within a name, `**` stands
        for any folders, and names with a leading dot want a dot in the pattern.
    target
        Here: the folder to put it in, or its new name.
    own_name
        It keeps its own name, in the folder `target`.
    below
        Folders between `target` and what is brought: of another node than the head, or those that its name has above it.
    mark
        Ends the name of what is put beside a file that was changed here: `from-dev`.
    memory
        File that remembers what was brought; None remembers nothing, and takes every file here that differs for changed.
    is_worked_in
        It comes to a folder that programs here work in: what they would take by itself gets the name that `mark` ends, unless the pattern says it.
    """

    source: str
    target: Path
    own_name: bool = True
    below: str = ""
    mark: str = "from-machine"
    memory: Path | None = None
    is_worked_in: bool = False


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull did.

    Attributes
    ----------
    found
        Files and links that the machine has of it; none where it does not exist.
    files, bytes
        What was moved and verified, as the files are large.
    same
        Files that were here already.
    aside
        `(name, name here)` of what was put beside a file that was changed here.
    apart
        `(name here, pattern)` of what came under another name as a program here would take it by itself, and the pattern that brings it as it is.
    skipped, failed
        `(name, why)`: what cannot travel, and what did not arrive.
    here
        The folder that it came to.
    """

    here: str
    found: int = 0
    files: int = 0
    bytes: int = 0
    same: int = 0
    aside: tuple[tuple[str, str], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


class Landing(Folder):
    """A folder of this computer in which some files get other names than they have on the machine."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.renamed: dict[str, str] = {}

    def place(self, name: str, *, make: bool = False) -> str:
        """The path of a name, under the name that it gets here."""
        return super().place(self.renamed.get(name, name), make=make)

    def stands(self, name: str) -> os.stat_result | None:
        """What is here under this name; None where nothing is."""
        try:
            return os.lstat(super().place(name))
        except FileNotFoundError:
            return None
        except Trouble as trouble:
            if trouble.code == "missing":
                return None
            raise


# ---------------------------------------------------------------- a pull


async def pull(
    connection: Connection,
    wish: Wish,
    *,
    on_found: Callable[[int, int], object] = lambda files, size: None,
    progress: Progress = lambda sent: None,
    python: str = "python3",
) -> Pulled:
    """Bring files here, those that are missing or differ.

    Parameters
    ----------
    on_found
        Told how many files will come, and their bytes.
    progress
        Told the bytes that came over the line so far.

    Raises
    ------
    SyncError
        If the machine cannot be asked, the disk here is full, or the machine breaks the rules; whole files have arrived.
    CopyError
        If the source is no name on a machine.
    """
    try:
        return await _pull(connection, wish, on_found, progress, python)
    except Trouble as trouble:
        raise _error(trouble, wish) from None
    except (KeyError, ValueError, TypeError, TimeoutError) as error:
        # What nobody foresaw a machine to say ends here too, without a wall of text.
        log.info("a pull of %s: %s: %s", wish.source, type(error).__name__, error)
        raise _error(
            Trouble("foul", "the machine's answer is malformed, or did not come in time"), wish
        ) from None


async def _pull(
    connection: Connection,
    wish: Wish,
    on_found: Callable[[int, int], object],
    progress: Progress,
    python: str,
) -> Pulled:
    base, pattern = split_pattern(wish.source)
    if pattern:
        return await _from(
            connection,
            base,
            Landing(str(wish.target / wish.below)),
            wish,
            only(pattern),
            on_found,
            progress,
            python,
        )
    name, target = _last(wish.source), wish.target / wish.below
    here = Landing(str(target / name if wish.own_name else target))
    try:
        return await _from(connection, wish.source, here, wish, [], on_found, progress, python)
    except Trouble as trouble:
        if trouble.code != "file":
            raise
    folder = wish.source.rpartition("/")[0] or "/"
    return await _from(
        connection, folder, _for_file(wish, name), wish, literal(name), on_found, progress, python
    )


async def _from(
    connection: Connection,
    folder: str,
    here: Landing,
    wish: Wish,
    rules: list[list[Any]],
    on_found: Callable[[int, int], object],
    progress: Progress,
    python: str,
) -> Pulled:
    async with folder_there(connection, folder, python) as far:
        if not far.exists:
            return Pulled(here.path)
        if not rules and far.is_home:
            raise SyncError(
                f"{shown(wish.source)} holds the machine's whole home, its keys too",
                hint="name a folder below it",
                code="sync.home",
            )
        return await _Pull(far, here, wish, rules, on_found, progress).run()


def _last(source: str) -> str:
    return source.rstrip("/").rpartition("/")[2]


def _for_file(wish: Wish, name: str) -> Landing:
    own_name = wish.own_name or wish.target.is_dir()
    here = Landing(str((wish.target if own_name else wish.target.parent) / wish.below))
    if not own_name:
        here.renamed[name] = wish.target.name
    return here


@dataclass(slots=True)
class _Pull:
    far: There
    here: Landing
    wish: Wish
    rules: list[list[Any]]
    on_found: Callable[[int, int], object]
    progress: Progress
    known: dict[str, Known] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    before: int = 0

    async def run(self) -> Pulled:
        self.known, self.named = load(self.wish.memory), dict(self.here.renamed)
        done = Pulled(self.here.path)
        try:
            for number in range(PASSES):
                now, again = await self._pass()
                done = replace(
                    now,
                    files=done.files + now.files,
                    bytes=done.bytes + now.bytes,
                    same=now.same - done.files if number else now.same,
                    aside=done.aside + now.aside,
                    apart=done.apart + now.apart,
                )
                if not again:
                    break
        finally:
            self.here.is_over = True
            await asyncio.to_thread(save, self.wish.memory, self.known, set(self.known))
        return done

    async def _pass(self) -> tuple[Pulled, bool]:
        windows = sys.platform == "win32"
        listing = await self.far.listing(
            self.rules, windows=windows, folds=windows or sys.platform == "darwin"
        )
        wanted = {name: e for name, e in listing.entries.items() if e.kind != "d"}
        self.here.renamed = dict(self.named)
        self.here.standing = {}
        theirs = await self.far.digests(
            await asyncio.to_thread(
                lambda: [e.name for e in wanted.values() if self._may_be_same(e)]
            )
        )
        finals, same, failed = await asyncio.to_thread(self._settled, wanted, theirs)
        entries = [wanted[name] for name in finals]
        self.on_found(len(entries), sum(e.size for e in entries))
        await asyncio.to_thread(self._room, entries)
        moved = await self._fetch(entries)
        # Only now known: what stands here under a name is what was brought.
        for name, (stamp, digest) in moved.done.items():
            if name in wanted:
                self._remember(finals[name], stamp, wanted[name], digest)
        failed += [(name, why) for name, _, why in moved.failed]
        moved_aside = {
            n: final
            for n, final in finals.items()
            if final != self.named.get(n, n) and n not in dict(failed)
        }
        apart = {n: why for n in moved_aside if (why := self._apart(wanted[n]))}
        arrived = [e for e in entries if e.name in moved.done]
        return Pulled(
            self.here.path,
            found=len(wanted) + len(self._lost(listing)),
            files=len(arrived) + moved.made,
            bytes=sum(e.size for e in arrived),
            same=same,
            aside=tuple((n, final) for n, final in moved_aside.items() if n not in apart),
            apart=tuple((moved_aside[n], why) for n, why in apart.items()),
            skipped=listing.skipped
            + ((("…", f"and {listing.more_skipped:,} more"),) if listing.more_skipped else ()),
            failed=tuple(failed),
        ), any(code in AGAIN for _, code, _ in moved.failed)

    @staticmethod
    def _lost(listing: Listing) -> Sequence[tuple[str, str]]:
        return [pair for pair in listing.skipped if pair[0] != "."]

    async def _fetch(self, entries: Sequence[Entry]) -> Moved:
        if not entries:
            return Moved()
        await asyncio.to_thread(self.here.make)

        def parts() -> dict[str, int]:
            large = {e.name: e.size for e in entries if e.kind == "f" and e.size >= KEEP_FROM}
            begun = {name: self.here.part(name)[0] for name in large}
            return {name: length for name, length in begun.items() if 0 < length <= large[name]}

        begun = self.before

        def progress(sent: int) -> None:
            self.before = begun + sent
            self.progress(self.before)

        return await self.far.fetch(
            self.here, entries, (), await asyncio.to_thread(parts), progress
        )

    # ------------------------------------------------------------ under which name

    def _names(self, name: str) -> Iterator[str]:
        """The names that something may get here, the best first."""
        own = self.named.get(name, name)
        yield own
        yield f"{own}.{self.wish.mark}"
        yield from (f"{own}.{self.wish.mark}-{n}" for n in range(2, MOST_ASIDE))

    def _apart(self, entry: Entry) -> str:
        """The pattern that would bring it under its own name, which the wish does not; empty where it comes under that."""
        pattern = split_pattern(self.wish.source)[1] if self.wish.is_worked_in else ""
        return why_apart(pattern, entry.name, is_link=entry.kind == "l") if pattern else ""

    def _may_be_same(self, entry: Entry) -> bool:
        """Whether a digest of the machine's file is of use."""
        if entry.kind != "f":
            return False
        is_apart = bool(self._apart(entry))
        for name in self._names(entry.name):
            try:
                info = self.here.stands(name)
            except (OSError, Trouble):
                return False
            if info is None and is_apart and name == entry.name:
                continue
            if info is None:
                return False
            if (
                stat.S_ISREG(info.st_mode)
                and info.st_size == entry.size
                and not self._is_known(name, _stamp(info), entry)
            ):
                return True
        return False

    def _is_known(self, name: str, mine: Stamp, entry: Entry) -> bool:
        known = self.known.get(name)
        return (
            known is not None and known.is_sure and (known.here, known.there) == (mine, entry.stamp)
        )

    def _settled(
        self, wanted: Mapping[str, Entry], theirs: Mapping[str, str]
    ) -> tuple[dict[str, str], int, list[tuple[str, str]]]:
        """Under which name each file comes, how many are here already, and which cannot come."""
        finals: dict[str, str] = {}
        failed: list[tuple[str, str]] = []
        same = 0
        # Two files of the machine may want one name here: `a` that was changed here, and the machine's own `a.from-dev`.
        taken = {self.named.get(name, name): name for name in wanted}
        for name, entry in wanted.items():
            try:
                final = self._final(entry, theirs.get(name, ""), taken)
            except (OSError, Trouble) as error:
                failed.append((name, str(error)))
                continue
            if final is None:
                same += 1
                continue
            finals[name] = final
            if final != name:
                self.here.renamed[name] = final
            info = self.here.stands(final)
            if info is not None and self.here.standing is not None:
                self.here.standing[name] = _stamp(info)
        return finals, same, failed

    def _final(self, entry: Entry, theirs: str, taken: dict[str, str]) -> str | None:
        is_apart = bool(self._apart(entry))
        for name in self._names(entry.name):
            if taken.get(name, entry.name) != entry.name:
                continue
            info = self.here.stands(name)
            if (
                is_apart
                and name == entry.name
                and (info is None or not self._is_same(name, info, entry, theirs))
            ):
                continue
            if info is None or self._is_same(name, info, entry, theirs):
                taken[name] = entry.name
                return name if info is None else None
            if (
                entry.kind == "f"
                and stat.S_ISREG(info.st_mode)
                and self._is_as_brought(name, _stamp(info))
            ):
                taken[name] = entry.name
                return name
        raise Trouble("io", f"there are {MOST_ASIDE} copies of it here already")

    def _is_same(self, name: str, info: os.stat_result, entry: Entry, theirs: str) -> bool:
        if entry.kind == "l":
            return (
                stat.S_ISLNK(info.st_mode)
                and os.readlink(Folder(self.here.path).place(name)) == entry.link
            )
        if not stat.S_ISREG(info.st_mode) or info.st_size != entry.size:
            return False
        mine = _stamp(info)
        if self._is_known(name, mine, entry):
            return True
        if theirs and Folder(self.here.path).digest(name) == theirs:
            self._remember(name, mine, entry, theirs)
            return True
        return False

    def _is_as_brought(self, name: str, mine: Stamp) -> bool:
        known = self.known.get(name)
        if known is None or known.here != mine:
            return False
        return known.is_sure or Folder(self.here.path).digest(name) == known.digest

    def _remember(self, name: str, mine: Stamp, entry: Entry, digest: str) -> None:
        self.known[name] = Known(
            mine, entry.stamp, digest, time.time_ns() - max(entry.mtime, mine[2]) > FRESH_NS
        )

    def _room(self, entries: Sequence[Entry]) -> None:
        needs, near = sum(e.size for e in entries), self.here.path
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        free = shutil.disk_usage(near).free
        if needs and needs + FREE_BYTES > free:
            raise SyncError(
                f"{needs / 1e6:,.0f} MB do not fit on the disk of this computer, which has {free / 1e6:,.0f} MB left",
                hint="nothing of it was moved: make room",
                code="sync.full",
            )


def _stamp(info: os.stat_result) -> Stamp:
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns


def _error(trouble: Trouble, wish: Wish) -> SyncError:
    what = shown(wish.source)
    words = {
        "full": f"{what}: the disk of this computer is full; whole files have arrived, nothing is half written",
        "permission": f"{what} to {wish.target}: a folder {trouble.why}",
        "many": f"{what}: one folder {trouble.why}; {MOST_ENTRIES:,} are the most",
        "foul": f"{what}: the pull was broken off: {trouble.why}; nothing was written outside {wish.target}",
    }.get(trouble.code, f"{what}: {trouble.why}")
    return SyncError(words, code=f"sync.{shown(trouble.code, 20)}")


__all__ = ["Pulled", "Wish", "pull"]
