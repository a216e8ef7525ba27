"""Choose the name under which each file of a machine is stored here.

A file that was changed here is never overwritten: the machine's is put beside it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping

from nbprov.on_machine.sync_files import SyncFolder
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.remote.sync.inert_names import inert_name, is_in_repository, repository_name
from nbprov.remote.sync.listing import ListedPath, Stamp
from nbprov.remote.sync.plan import SyncRecord
from nbprov.remote.sync.records import record

from .options import PullOptions

MOST_ASIDE = 100
"""Copies of one file that are kept beside it.

More of them mean that something here and something there write it all the time.
"""


class RenamingFolder(SyncFolder):
    """A folder of this computer in which some files get other names than on the machine.

    What arrives in it is never executable.
    """

    modes = 0o666

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.renamed: dict[str, str] = {}

    def place(self, name: str, *, make: bool = False) -> str:
        """Return the path of a file, under the name that it gets here."""
        return super().place(self.renamed.get(name, name), make=make)

    def existing(self, name: str) -> os.stat_result | None:
        """Return what is here under exactly this name, or None."""
        try:
            return os.lstat(super().place(name))
        except FileNotFoundError:
            return None
        except SyncFailure as trouble:
            if trouble.code == "missing":
                return None
            raise


class LocalNames:
    """The names that the files of one pull get.

    Parameters
    ----------
    known
        The files that an earlier pull brought, which grows as files are found the same.
    """

    def __init__(
        self, here: RenamingFolder, options: PullOptions, known: dict[str, SyncRecord]
    ) -> None:
        self._here, self._options, self.known = here, options, known
        self._given = dict(here.renamed)

    def given(self, name: str) -> str:
        """Return the name that a file gets where nothing stands in its way."""
        own = self._given.get(name, name)
        return repository_name(own) if self._options.keep_names else inert_name(own)

    def is_renamed(self, name: str) -> bool:
        """Return whether a file gets another name, since its own is not one of data."""
        return self.given(name) != self._given.get(name, name)

    def reset(self) -> None:
        """Forget what was chosen, before the files are listed again."""
        self._here.renamed = dict(self._given)
        self._here.standing = {}

    def remember(self, name: str, stamp: Stamp, entry: ListedPath, digest: str) -> None:
        """Note that a file here is the same as the machine's."""
        self.known[name] = record(stamp, entry.stamp, digest, max(entry.mtime, stamp[2]))

    def may_be_same(self, entry: ListedPath) -> bool:
        """Return whether the digest of the machine's file is needed to tell."""
        if entry.kind != "f":
            return False
        own = self._given.get(entry.name, entry.name)
        for name in self._candidates(entry.name):
            try:
                info = self._here.existing(name)
            except (OSError, SyncFailure):
                return False
            if info is None and name == own != self.given(entry.name):
                continue
            if info is None:
                return False
            is_candidate = stat.S_ISREG(info.st_mode) and info.st_size == entry.size
            if is_candidate and not self._is_known(name, stamp_of(info), entry):
                return True
        return False

    def choose(
        self, wanted: Mapping[str, ListedPath], digests: Mapping[str, str]
    ) -> tuple[dict[str, str], int, list[tuple[str, str]]]:
        """Choose the names of all files that are to come.

        Returns
        -------
        tuple
            The name here of each file to fetch, how many files are here already, and
            `(name, why)` of those that cannot come.
        """
        names: dict[str, str] = {}
        failed: list[tuple[str, str]] = []
        same = 0
        # Two files of the machine may get one name here: `a`, which was changed here, and the
        # machine's own `a.from-dev`.
        taken = {self.given(name): name for name in wanted}
        for name, entry in wanted.items():
            try:
                chosen = self._choose_one(entry, digests.get(name, ""), taken)
            except (OSError, SyncFailure) as error:
                failed.append((name, str(error)))
                continue
            if chosen is None:
                same += 1
                continue
            names[name] = chosen
            if chosen != name:
                self._here.renamed[name] = chosen
            info = self._here.existing(chosen)
            if info is not None and self._here.standing is not None:
                self._here.standing[name] = stamp_of(info)
        return names, same, failed

    def _candidates(self, name: str) -> Iterator[str]:
        """Yield the names that a file may get here, the best first."""
        own, mark = self.given(name), self._options.mark
        if self.is_renamed(name):
            yield self._given.get(name, name)  # it counts if it is here, and is the same
        yield own
        yield f"{own}.{mark}"
        yield from (f"{own}.{mark}-{n}" for n in range(2, MOST_ASIDE))

    def _choose_one(self, entry: ListedPath, digest: str, taken: dict[str, str]) -> str | None:
        own, is_renamed = self._given.get(entry.name, entry.name), self.is_renamed(entry.name)
        if is_in_repository(self._here.path, own):
            raise SyncFailure("io", "its folder here is a git repository, which could run it")
        for name in self._candidates(entry.name):
            if taken.get(name, entry.name) != entry.name:
                continue
            info = self._here.existing(name)
            is_same = info is not None and self._is_same(name, info, entry, digest)
            if is_renamed and name == own and not is_same:
                continue
            if info is None or is_same:
                taken[name] = entry.name
                return name if info is None else None
            is_file = entry.kind == "f" and stat.S_ISREG(info.st_mode)
            if is_file and self._is_as_brought(name, stamp_of(info)):
                taken[name] = entry.name
                return name
        raise SyncFailure("io", f"there are {MOST_ASIDE} copies of it here already")

    def _is_known(self, name: str, stamp: Stamp, entry: ListedPath) -> bool:
        known = self.known.get(name)
        return (
            known is not None
            and known.is_sure
            and (known.here, known.there) == (stamp, entry.stamp)
        )

    def _is_same(self, name: str, info: os.stat_result, entry: ListedPath, digest: str) -> bool:
        unnamed = SyncFolder(self._here.path)
        if entry.kind == "l":
            return stat.S_ISLNK(info.st_mode) and os.readlink(unnamed.place(name)) == entry.link
        if not stat.S_ISREG(info.st_mode) or info.st_size != entry.size:
            return False
        stamp = stamp_of(info)
        if self._is_known(name, stamp, entry):
            return True
        if digest and unnamed.digest(name) == digest:
            self.remember(name, stamp, entry, digest)
            return True
        return False

    def _is_as_brought(self, name: str, stamp: Stamp) -> bool:
        known = self.known.get(name)
        if known is None or known.here != stamp:
            return False
        return known.is_sure or SyncFolder(self._here.path).digest(name) == known.digest


def stamp_of(info: os.stat_result) -> Stamp:
    """Return what changes when a file's content does."""
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns
