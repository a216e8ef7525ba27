"""Decide what a sync does, from two listings of one folder. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nbprov.on_machine.sync_protocol import Skip
from nbprov.remote.sync.listing import ListedPath, Stamp, SyncListing

from .gitignore import IGNORE_FILES
from .inert_names import inert_folder, inert_name, repository_name


class Direction(StrEnum):
    """Which way files go."""

    PUSH = "push"
    PULL = "pull"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """A file that was the same on both sides, by digest, when its stamps were these.

    `is_sure` is False where it had just been written: its next change may fall into the same tick
    of the file system's clock.
    """

    here: Stamp
    there: Stamp
    digest: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What would move, and what would not and why.

    Attributes
    ----------
    up, down
        To the machine, and from it. Folders first, links last.
    modes_up, modes_down
        Files of the same content that are executable on one side only.
    same
        Files that are the same on both sides, by digest or record.
    replaced
        Names of files that replace another content.
    newer
        Those of them whose old content is newer than the one that replaces it.
    delete_there, delete_here
        Only with `delete`.
    conflicts
        Changed on both sides, and left alone; only where files go both ways.
    skipped
        `(name, why)`.
    notes
        What else a user should know before anything moves.
    """

    direction: Direction
    up: tuple[ListedPath, ...] = ()
    down: tuple[ListedPath, ...] = ()
    modes_up: tuple[ListedPath, ...] = ()
    modes_down: tuple[ListedPath, ...] = ()
    same: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    delete_there: tuple[str, ...] = ()
    delete_here: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    ignored_count: int = 0
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> list[ListedPath]:
        """The files that would move, either way."""
        return [entry for entry in (*self.up, *self.down) if entry.kind == "f"]

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(entry.size for entry in self.files)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed on either side."""
        return not (
            self.up
            or self.down
            or self.modes_up
            or self.modes_down
            or self.delete_there
            or self.delete_here
        )


def to_compare(here: SyncListing, there: SyncListing, known: Mapping[str, SyncRecord]) -> list[str]:
    """Return the files that may be the same: of equal size, and not known to be the same."""
    return [
        name
        for name, mine in here.entries.items()
        if (theirs := there.entries.get(name)) is not None
        and mine.kind == theirs.kind == "f"
        and mine.size == theirs.size
        and not _is_known(mine, theirs, known.get(name))
    ]


def _is_known(mine: ListedPath, theirs: ListedPath, record: SyncRecord | None) -> bool:
    return (
        record is not None
        and record.is_sure
        and (mine.stamp, theirs.stamp) == (record.here, record.there)
    )


def decide(
    direction: Direction,
    here: SyncListing,
    there: SyncListing,
    known: Mapping[str, SyncRecord],
    equal: Iterable[str],
    *,
    delete: bool = False,
    modes: bool = True,
    keep_names: bool = False,
) -> SyncPlan:
    """Decide what to do about two listings.

    Parameters
    ----------
    equal
        The names of `to_compare` whose digests are the same.
    delete
        Delete from the target what the source does not have; both ways: what one side has lost
        since the last sync.
    modes
        Whether this computer knows which files are executable.
    keep_names
        Bring also files that are new here and whose ending is not one of data.
    """
    work = _Decision(direction, here, there, known, set(equal), modes)
    for name in sorted(here.entries.keys() | there.entries.keys()):
        work.one(name)
    if delete:
        work.deletions()
    work.keep_ignore_files()
    work.hold_back(keep_names=keep_names)
    sources = (
        [here]
        if direction is Direction.PUSH
        else [there]
        if direction is Direction.PULL
        else [here, there]
    )
    skipped = [pair for source in sources for pair in source.skipped] + work.skipped
    more = sum(source.more_skipped for source in sources)
    return SyncPlan(
        direction,
        up=_in_order(work.up),
        down=_in_order(work.down),
        modes_up=tuple(work.modes_up),
        modes_down=tuple(work.modes_down),
        same=tuple(work.same),
        replaced=tuple(work.replaced),
        newer=tuple(work.newer),
        delete_there=tuple(work.delete_there),
        delete_here=tuple(work.delete_here),
        conflicts=tuple(work.conflicts),
        skipped=tuple(dict.fromkeys(skipped)) + ((("…", f"and {more:,} more"),) if more else ()),
        ignored=sources[0].ignored,
        ignored_count=max(source.ignored_count for source in sources),
        notes=tuple(work.notes),
    )


def _in_order(entries: Sequence[ListedPath]) -> tuple[ListedPath, ...]:
    order = {"d": 0, "f": 1, "l": 2}
    return tuple(sorted(entries, key=lambda entry: (order[entry.kind], entry.name)))


class _Decision:
    def __init__(
        self,
        direction: Direction,
        here: SyncListing,
        there: SyncListing,
        known: Mapping[str, SyncRecord],
        equal: set[str],
        modes: bool,
    ) -> None:
        self.direction, self.here, self.there, self.known, self.equal, self.with_modes = (
            direction,
            here,
            there,
            known,
            equal,
            modes,
        )
        self.up: list[ListedPath] = []
        self.down: list[ListedPath] = []
        self.modes_up: list[ListedPath] = []
        self.modes_down: list[ListedPath] = []
        self.same: list[str] = []
        self.replaced: list[str] = []
        self.newer: list[str] = []
        self.conflicts: list[str] = []
        self.delete_here: list[str] = []
        self.delete_there: list[str] = []
        self.skipped: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def one(self, name: str) -> None:
        mine, theirs = self.here.entries.get(name), self.there.entries.get(name)
        if mine is None or theirs is None:
            if mine is not None and self.direction is not Direction.PULL:
                self.up.append(mine)
            elif theirs is not None and self.direction is not Direction.PUSH:
                self.down.append(theirs)
        elif "d" in (mine.kind, theirs.kind):
            if mine.kind != theirs.kind:
                self.skipped.append((name, Skip.FOLDER_OR_FILE))
        elif self._is_same(name, mine, theirs):
            self.same.append(name)
            self._mode(mine, theirs)
        else:
            self._differs(name, mine, theirs)

    def _is_same(self, name: str, mine: ListedPath, theirs: ListedPath) -> bool:
        if mine.kind != theirs.kind:
            return False
        if mine.kind == "l":
            return mine.link == theirs.link
        return name in self.equal or (
            mine.size == theirs.size and _is_known(mine, theirs, self.known.get(name))
        )

    def _mode(self, mine: ListedPath, theirs: ListedPath) -> None:
        if self.with_modes and mine.kind == "f" and (mine.mode ^ theirs.mode) & 0o100:
            if self.direction is Direction.PUSH:
                self.modes_up.append(mine)
            elif self.direction is Direction.PULL:
                self.modes_down.append(theirs)

    def _differs(self, name: str, mine: ListedPath, theirs: ListedPath) -> None:
        way = self.direction
        if way is Direction.BOTH:
            record = self.known.get(name)
            if record is None or (mine.stamp != record.here) == (theirs.stamp != record.there):
                self.conflicts.append(name)
                return
            way = Direction.PUSH if mine.stamp != record.here else Direction.PULL
        fresh, old = (mine, theirs) if way is Direction.PUSH else (theirs, mine)
        (self.up if way is Direction.PUSH else self.down).append(fresh)
        self.replaced.append(name)
        if old.mtime > fresh.mtime:
            self.newer.append(name)

    def keep_ignore_files(self) -> None:
        """Keep ignore files here as they are: they say what never leaves this computer."""
        barred = {e.name for e in self.down if e.name.casefold() in IGNORE_FILES} | {
            n for n in self.delete_here if n.casefold() in IGNORE_FILES
        }
        self.down = [e for e in self.down if e.name not in barred]
        self.modes_down = [e for e in self.modes_down if e.name.casefold() not in IGNORE_FILES]
        self.delete_here = [n for n in self.delete_here if n not in barred]
        self.replaced = [n for n in self.replaced if n not in barred]
        self.newer = [n for n in self.newer if n not in barred]
        self.skipped += [(n, Skip.IGNORE_FILE) for n in sorted(barred)]

    def hold_back(self, *, keep_names: bool) -> None:
        """Hold back what the machine may not bring here, where programs would run it.

        What is here already under its name may be changed: a person sent it, and asked for this.
        """
        held: dict[str, str] = {}
        for entry in self.down:
            name, is_new = entry.name, entry.name not in self.here.entries
            if self._is_in_repository(name) or (is_new and repository_name(name) != name):
                held[name] = Skip.REPOSITORY
            elif is_new and not keep_names and _stored_name(entry) != name:
                held[name] = Skip.RUNS
        self.down = [entry for entry in self.down if entry.name not in held]
        self.replaced = [name for name in self.replaced if name not in held]
        self.newer = [name for name in self.newer if name not in held]
        self.skipped += held.items()
        if not keep_names:
            self.modes_down = [entry for entry in self.modes_down if not entry.mode & 0o100]

    def _is_in_repository(self, name: str) -> bool:
        """Whether a name lies in a bare git repository of this computer."""
        parts = name.split("/")[:-1]
        return any(
            "/".join([*parts[:depth], "HEAD"]) in self.here.entries
            and "/".join([*parts[:depth], "objects"]) in self.here.entries
            for depth in range(len(parts) + 1)
        )

    # ------------------------------------------------------------ what goes

    def deletions(self) -> None:
        """Fill in what is deleted.

        Nothing is deleted where the side that decides could not be read whole, or is empty.
        """
        if self.direction is not Direction.PULL:
            self.delete_there = self._gone(self.here, self.there, "here", theirs=True)
        if self.direction is not Direction.PUSH:
            self.delete_here = self._gone(self.there, self.here, "on the machine", theirs=False)
        if self.direction is Direction.BOTH:
            goes = {*self.delete_here, *self.delete_there}
            self.up = [entry for entry in self.up if entry.name not in goes]
            self.down = [entry for entry in self.down if entry.name not in goes]

    def _gone(
        self, source: SyncListing, target: SyncListing, where: str, *, theirs: bool
    ) -> list[str]:
        extra = [entry for name, entry in target.entries.items() if name not in source.entries]
        if self.direction is Direction.BOTH:
            extra = [entry for entry in extra if self._was_same(entry, theirs=theirs)]
        if not extra:
            return []
        if not source.is_whole or source.more_skipped:
            self.notes.append(f"nothing is deleted: the folder {where} could not be read whole")
            return []
        if not source.entries:
            self.notes.append(f"nothing is deleted: the folder {where} is empty")
            return []
        # What is there and cannot travel does not count as gone.
        kept = {name for name, _ in source.skipped}
        kept |= {
            "/".join(name.split("/")[:depth])
            for name in tuple(kept)
            for depth in range(1, name.count("/") + 1)
        }
        return sorted(entry.name for entry in extra if not _is_kept(entry.name, kept))

    def _was_same(self, entry: ListedPath, *, theirs: bool) -> bool:
        record = self.known.get(entry.name)
        return record is not None and entry.stamp == (record.there if theirs else record.here)


def _stored_name(entry: ListedPath) -> str:
    return inert_folder(entry.name) if entry.kind == "d" else inert_name(entry.name)


def _is_kept(name: str, kept: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:depth]) in kept for depth in range(1, len(parts) + 1))
