"""The files of one side of a sync. Everything that a machine lists is checked before it is used."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.on_machine.sync_files import Rules, Survey
from nbprov.on_machine.sync_protocol import Skip, SyncFailure, why_not_link, why_not_name

Stamp = tuple[int, int, int]
"""Size, mtime and ctime in ns, as one side's file system tells them."""

_MOST_NUMBER = 1 << 62
_MOST_FOLDERS = 20_000
"""Bound of a cache of ignored folders, so that a hostile list does not fill memory."""
_WINDOWS_WORDS = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}


@dataclass(frozen=True, slots=True)
class ListedPath:
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
class SyncListing:
    """What one side has. `is_whole` is False where a part could not be read."""

    entries: Mapping[str, ListedPath] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    more_skipped: int = 0
    ignored: tuple[str, ...] = ()
    ignored_count: int = 0
    is_whole: bool = True

    @classmethod
    def of(cls, survey: Survey) -> SyncListing:
        """Make the listing of this computer's own folder."""
        entries = {row[0]: ListedPath(*row) for row in survey.rows}
        return cls(
            entries,
            tuple(survey.skipped),
            survey.more_skipped,
            tuple(survey.ignored),
            survey.ignored_count,
            survey.is_whole,
        )


def checked_entry(row: Any) -> ListedPath:
    """Read an entry as a machine tells it; its name and link may still be refused later.

    Raises
    ------
    Trouble
        `foul`, if it does not have the form of an entry.
    """
    if not isinstance(row, list) or len(row) != 7:
        raise SyncFailure("foul", "the machine's list of files is malformed")
    name, kind, *numbers, link = row
    whole = (
        all(type(n) is int and -_MOST_NUMBER < n < _MOST_NUMBER for n in numbers)
        and numbers[0] >= 0
    )
    if not (whole and isinstance(name, str) and isinstance(link, str) and kind in ("f", "d", "l")):
        raise SyncFailure("foul", "the machine's list of files is malformed")
    return ListedPath(name, kind, numbers[0], numbers[1], numbers[2], numbers[3], link)


def why_not_here(entry: ListedPath, *, windows: bool) -> str:
    """Return why an entry of a machine is not taken to this computer; empty if it is."""
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
    # macOS ignores invisible characters, and Windows knows a folder by its short name too.
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
    entries: Iterable[ListedPath], rules: Rules, *, windows: bool, folds: bool
) -> tuple[dict[str, ListedPath], list[tuple[str, str]]]:
    """Return the entries of a machine that may come here, and `(name, why)` of the others.

    Parameters
    ----------
    rules
        The machine was told them. It may list an ignored name all the same, which must not be
        written.
    folds
        This computer's file system takes `A` and `a` for one name.
    """
    taken: dict[str, ListedPath] = {}
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


def apart(here: SyncListing, there: SyncListing) -> tuple[SyncListing, SyncListing]:
    """Return two listings without names that differ in letter case alone.

    They are used where this computer takes such names for one. Either would count as new and the
    other as gone, and an ignore rule for `secrets/` would not match `Secrets/`.
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

    def cut(listing: SyncListing) -> SyncListing:
        return replace(
            listing,
            entries={n: e for n, e in listing.entries.items() if is_kept(n)},
            skipped=listing.skipped + why,
        )

    return cut(here), cut(there)
