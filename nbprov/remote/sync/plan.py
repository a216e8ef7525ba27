"""What a sync would do, from two listings of one folder: pure functions, and nothing a machine says is believed unchecked."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from nbprov.on_machine.sync_files import Rules, Survey
from nbprov.on_machine.sync_protocol import Skip, Trouble, why_not_link, why_not_name

from .gitignore import IGNORE_FILES

Stamp = tuple[int, int, int]
"""Size, mtime and ctime in ns, as one side's file system tells them."""

_MOST_NUMBER = 1 << 62
_MOST_FOLDERS = 20_000
"""Whose being ignored is kept at hand: a list of names made to fill this computer's memory does not."""
_WINDOWS_WORDS = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}


class Direction(StrEnum):
    """Which way files go."""

    PUSH = "push"
    PULL = "pull"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (`f`), folder (`d`) or link (`l`) below a folder of a sync."""

    name: str
    kind: str
    size: int
    mtime: int
    ctime: int
    mode: int
    link: str

    @property
    def stamp(self) -> Stamp:
        """What changes when the content does."""
        return self.size, self.mtime, self.ctime


@dataclass(frozen=True, slots=True)
class Listing:
    """What one side has. `is_whole` is False where a part could not be read."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    more_skipped: int = 0
    ignored: tuple[str, ...] = ()
    ignored_count: int = 0
    is_whole: bool = True

    @classmethod
    def of(cls, survey: Survey) -> Listing:
        """This computer's own."""
        entries = {row[0]: Entry(*row) for row in survey.rows}
        return cls(
            entries,
            tuple(survey.skipped),
            survey.more_skipped,
            tuple(survey.ignored),
            survey.ignored_count,
            survey.is_whole,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """A file that was the same on both sides, by digest, when it looked like this.

    `is_sure` is False where it had just been written: its next change may fall into the same tick of the file system's clock.
    """

    here: Stamp
    there: Stamp
    digest: str
    is_sure: bool = True


def checked_entry(row: Any) -> Entry:
    """An entry as a machine tells it; its name and link may still be none that are taken along.

    Raises
    ------
    Trouble
        `foul`, if it is not made as an entry is.
    """
    if not isinstance(row, list) or len(row) != 7:
        raise Trouble("foul", "the machine's list of files is malformed")
    name, kind, *numbers, link = row
    whole = (
        all(type(n) is int and -_MOST_NUMBER < n < _MOST_NUMBER for n in numbers)
        and numbers[0] >= 0
    )
    if not (whole and isinstance(name, str) and isinstance(link, str) and kind in ("f", "d", "l")):
        raise Trouble("foul", "the machine's list of files is malformed")
    return Entry(name, kind, numbers[0], numbers[1], numbers[2], numbers[3], link)


def why_not_here(entry: Entry, *, windows: bool) -> str:
    """Why an entry of a machine is not taken to this computer; empty if it is."""
    why = why_not_name(entry.name) or (
        why_not_link(entry.name, entry.link) if entry.kind == "l" else ""
    )
    if why:
        return why
    parts = entry.name.split("/")
    if any(_is_git(part) for part in parts):
        return Skip.GIT_FOLDER
    if windows and any(_no_windows_name(part) for part in parts):
        return Skip.WINDOWS_NAME
    return Skip.WINDOWS_LINK if windows and entry.kind == "l" else ""


def _is_git(part: str) -> bool:
    # macOS reads over characters that nobody sees, Windows knows a folder by its short name too.
    read = part if part.isascii() else "".join(c for c in part if unicodedata.category(c) != "Cf")
    seen = read.casefold().rstrip(" .")
    return seen == ".git" or (seen.startswith("git~") and seen[4:].isdigit())


def _no_windows_name(part: str) -> bool:
    return (
        bool(set('<>:"|?*\\') & set(part))
        or part[-1] in " ."
        or part.split(".")[0].rstrip(" ").casefold() in _WINDOWS_WORDS
    )


def taken_here(
    entries: Iterable[Entry], rules: Rules, *, windows: bool, folds: bool
) -> tuple[dict[str, Entry], list[tuple[str, str]]]:
    """The entries of a machine that may come here, and `(name, why)` of the others.

    Parameters
    ----------
    rules
        The machine was told them; one that lists an ignored name all the same is not to write there.
    folds
        This computer's file system takes `A` and `a` for one name.
    """
    taken: dict[str, Entry] = {}
    refused: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    folders: dict[str, bool] = {"": False}

    def is_ignored(name: str, *, is_folder: bool) -> bool:
        above, parts = "", name.split("/")
        if len(folders) > _MOST_FOLDERS:
            folders.clear()
            folders[""] = False
        for part in parts[:-1]:
            folder = f"{above}/{part}" if above else part
            if folder not in folders:
                folders[folder] = folders[above] or rules.ignores(folder, True)
            above = folder
        return folders[above] or rules.ignores(name, is_folder)

    for entry in entries:
        why = why_not_here(entry, windows=windows)
        if not why and is_ignored(entry.name, is_folder=entry.kind == "d"):
            why = Skip.IGNORED
        above = entry.name.rpartition("/")[0]
        if not why and above and (above not in taken or taken[above].kind != "d"):
            why = Skip.FOLDER_MISSING
        key = _folded(entry.name) if folds else entry.name
        if not why and key in seen:
            why = Skip.SAME_NAME
        if why:
            refused.append((entry.name, why))
            continue
        seen[key] = entry.name
        taken[entry.name] = entry
    return taken, refused


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def apart(here: Listing, there: Listing) -> tuple[Listing, Listing]:
    """Two listings without what differs in letters' case alone, where this computer takes such names for one.

    Either would be taken for new and the other for gone, and an ignore rule for `secrets/` would not know `Secrets/`.
    """
    mine = {_folded(name): name for name in here.entries}
    gone = {
        one
        for name in there.entries
        if (own := mine.get(_folded(name), name)) != name
        for one in (name, own)
    }
    if not gone:
        return here, there
    why = tuple((name, Skip.LETTER_CASE) for name in sorted(gone))

    def is_kept(name: str) -> bool:
        parts = name.split("/")
        return not any("/".join(parts[: n + 1]) in gone for n in range(len(parts)))

    def cut(listing: Listing) -> Listing:
        return replace(
            listing,
            entries={n: e for n, e in listing.entries.items() if is_kept(n)},
            skipped=listing.skipped + why,
        )

    return cut(here), cut(there)


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What would move, and what would not and why.

    Attributes
    ----------
    up, down
        To the machine, and from it. Folders first, links last.
    modes_up, modes_down
        Files of the same content that can be run on one side only.
    same
        Files that are the same on both sides, with the digest that says so.
    replaced
        Names of files that take the place of another content.
    newer
        Those of them whose old content is newer than the one that replaces it.
    delete_there, delete_here
        Only with `delete`.
    conflicts
        Changed on both sides, and left alone; only where files go both ways.
    skipped
        `(name, why)`.
    notes
        What else a person should know before anything moves.
    """

    direction: Direction
    up: tuple[Entry, ...] = ()
    down: tuple[Entry, ...] = ()
    modes_up: tuple[Entry, ...] = ()
    modes_down: tuple[Entry, ...] = ()
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
    def files(self) -> list[Entry]:
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


def to_compare(here: Listing, there: Listing, known: Mapping[str, Known]) -> list[str]:
    """The files that may be the same: of one size, and not known to be the same as they stand."""
    return [
        name
        for name, mine in here.entries.items()
        if (theirs := there.entries.get(name)) is not None
        and mine.kind == theirs.kind == "f"
        and mine.size == theirs.size
        and not _is_known(mine, theirs, known.get(name))
    ]


def _is_known(mine: Entry, theirs: Entry, record: Known | None) -> bool:
    return (
        record is not None
        and record.is_sure
        and (mine.stamp, theirs.stamp) == (record.here, record.there)
    )


def decide(
    direction: Direction,
    here: Listing,
    there: Listing,
    known: Mapping[str, Known],
    equal: Iterable[str],
    *,
    delete: bool = False,
    modes: bool = True,
) -> SyncPlan:
    """What to do about two listings.

    Parameters
    ----------
    equal
        The names of `to_compare` whose digests are the same.
    delete
        What the source does not have (both ways: what one side has lost since the last sync) goes from the other.
    modes
        Whether this computer knows which files can be run.
    """
    work = _Deciding(direction, here, there, known, set(equal), modes)
    for name in sorted(here.entries.keys() | there.entries.keys()):
        work.one(name)
    if delete:
        work.deletions()
    work.keep_ignore_files()
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


def _in_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    order = {"d": 0, "f": 1, "l": 2}
    return tuple(sorted(entries, key=lambda entry: (order[entry.kind], entry.name)))


class _Deciding:
    def __init__(
        self,
        direction: Direction,
        here: Listing,
        there: Listing,
        known: Mapping[str, Known],
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
        self.up: list[Entry] = []
        self.down: list[Entry] = []
        self.modes_up: list[Entry] = []
        self.modes_down: list[Entry] = []
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

    def _is_same(self, name: str, mine: Entry, theirs: Entry) -> bool:
        if mine.kind != theirs.kind:
            return False
        if mine.kind == "l":
            return mine.link == theirs.link
        return name in self.equal or (
            mine.size == theirs.size and _is_known(mine, theirs, self.known.get(name))
        )

    def _mode(self, mine: Entry, theirs: Entry) -> None:
        if self.with_modes and mine.kind == "f" and (mine.mode ^ theirs.mode) & 0o100:
            if self.direction is Direction.PUSH:
                self.modes_up.append(mine)
            elif self.direction is Direction.PULL:
                self.modes_down.append(theirs)

    def _differs(self, name: str, mine: Entry, theirs: Entry) -> None:
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
        """An ignore file says what never leaves this computer: no machine writes or removes one here."""
        barred = {e.name for e in self.down if e.name.casefold() in IGNORE_FILES} | {
            n for n in self.delete_here if n.casefold() in IGNORE_FILES
        }
        self.down = [e for e in self.down if e.name not in barred]
        self.modes_down = [e for e in self.modes_down if e.name.casefold() not in IGNORE_FILES]
        self.delete_here = [n for n in self.delete_here if n not in barred]
        self.replaced = [n for n in self.replaced if n not in barred]
        self.newer = [n for n in self.newer if n not in barred]
        self.skipped += [(n, Skip.IGNORE_FILE) for n in sorted(barred)]

    # ------------------------------------------------------------ what goes

    def deletions(self) -> None:
        """Fill in what goes; nothing does where the side that decides could not be read whole, or is empty."""
        if self.direction is not Direction.PULL:
            self.delete_there = self._gone(self.here, self.there, "here", theirs=True)
        if self.direction is not Direction.PUSH:
            self.delete_here = self._gone(self.there, self.here, "on the machine", theirs=False)
        if self.direction is Direction.BOTH:
            goes = {*self.delete_here, *self.delete_there}
            self.up = [entry for entry in self.up if entry.name not in goes]
            self.down = [entry for entry in self.down if entry.name not in goes]

    def _gone(self, source: Listing, target: Listing, where: str, *, theirs: bool) -> list[str]:
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
        # What is there and cannot travel is not gone.
        kept = {name for name, _ in source.skipped}
        kept |= {
            "/".join(name.split("/")[:depth])
            for name in tuple(kept)
            for depth in range(1, name.count("/") + 1)
        }
        return sorted(entry.name for entry in extra if not _is_kept(entry.name, kept))

    def _was_same(self, entry: Entry, *, theirs: bool) -> bool:
        record = self.known.get(entry.name)
        return record is not None and entry.stamp == (record.there if theirs else record.here)


def _is_kept(name: str, kept: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:depth]) in kept for depth in range(1, len(parts) + 1))
