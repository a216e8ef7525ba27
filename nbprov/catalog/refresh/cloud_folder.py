"""One cloud's folder in `NBPROV_HOME/catalogs`: whose its files are, and how they are replaced so
that a kill leaves the old or the new.

A cloud's prices are one file (`vms.csv`, as hosted) or three (nbprov's own form). One is replaced
in one step. Three cannot be: there, one of the old is taken away first, so that readers turn to the
whole copy in `.last-good`, until the last of the new ones is in place. What a kill leaves between
is finished by `recover`, under the cloud's lease."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import locations
from nbprov.catalog.sources.price_entry import Entry
from nbprov.catalog.sources.skypilot_csv import FILE_NAME as V8_FORM
from nbprov.catalog.sources.snapshot import FILE_NAMES as OWN_FORM
from nbprov.model.clock import Instant

from . import atomic_files, refresh_state
from .refresh_state import State

KEY_FILE = "types.csv"
"""The one of the three that is taken away first and comes last.

Without it the others are no price list.
"""
KEPT = ".set-aside"
"""Edited or damaged files that `force` or a recovery replaced.

Nothing a person wrote is thrown away.
"""

REPLACE_TRIES, REPLACE_PAUSE = 20, 0.05
"""One second in all: readers have a price file open for some milliseconds."""


class Owner(StrEnum):
    """Whose the files in a cloud's folder are.

    NOBODY
        There are none: the shipped prices hold.
    NBPROV
        They are as a refresh wrote them.
    PERSON
        They were written or changed by hand.
    DAMAGED
        They are neither as written nor readable.
    """

    NOBODY = "nobody"
    NBPROV = "nbprov"
    PERSON = "person"
    DAMAGED = "damaged"


class Folder:
    """One cloud's folder. Whoever changes anything holds its lease; looking needs none."""

    def __init__(self, root: Path, cloud: str) -> None:
        self.cloud = cloud
        self.path = root / cloud
        self.last_good = self.path / locations.LAST_GOOD
        self._own = self.path / ".refresh"
        self.lock = self._own / "lock"
        self.staging = self._own / "next"
        self.difference = self._own / "changes.json.gz"
        self._state = self._own / "state.json"

    @property
    def state(self) -> State:
        """What is remembered."""
        return refresh_state.read(self._state)

    def remember(self, known: State, **changes: object) -> State:
        """Keep what is known now, with these changes."""
        return refresh_state.write(self._state, known, **changes)

    def marks(self) -> dict[str, str]:
        """The MD5 of each price file in place, by name."""
        return _marks(self.path)

    def owner(self, known: State | None = None) -> Owner:
        """Whose the files in place are."""
        known = self.state if known is None else known
        marks = self.marks()
        if not marks:
            return Owner.NOBODY
        if marks == known.marks:
            return Owner.NBPROV
        return Owner.PERSON if self._is_readable(self.path) else Owner.DAMAGED

    def changed_by_hand(self, known: State | None = None) -> tuple[str, ...]:
        """The files in place that are not as nbprov wrote them."""
        known = self.state if known is None else known
        return tuple(
            sorted(name for name, mark in self.marks().items() if known.marks.get(name) != mark)
        )

    def entries(self) -> list[Entry]:
        """The price rows in place, as they stand in the files; none where there are no files.

        Raises
        ------
        CatalogError
            If they cannot be read.
        """
        return locations.read_prices(self.path, self.cloud) if self.marks() else []

    # ------------------------------------------------------------ changing; under the lease

    def stage(self) -> Path:
        """An empty folder for the files that are to be put in place."""
        return atomic_files.empty(self.staging)

    def unstage(self) -> None:
        """Take away what was staged."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def publish(self, coming: State) -> State:
        """Put what was staged in place, and keep this state of it with the marks of the files."""
        marks = _marks(self.staging)
        for name in marks:
            atomic_files.sync(self.staging / name)
        atomic_files.sync(self.staging)
        coming = replace(coming, marks=marks, pending={})
        self._keep_present()
        self.remember(self.state, pending=asdict(coming))
        self._switch(self.staging, marks, coming.fetched)
        self.remember(coming)
        self._copy_to_last_good()
        return coming

    def recover(self) -> str:
        """Finish or undo what a kill left, and put back what was damaged.

        Returns what was done, in words; empty where nothing was.
        """
        known = self.state
        marks = self.marks()
        done = ""
        if known.pending:
            done = self._settle(known, marks)
        elif self._is_partial(marks) or (
            marks and marks != known.marks and not self._is_readable(self.path)
        ):
            self.set_aside()
            done = (
                "its damaged files were replaced by the last good ones"
                if self._back()
                else "its damaged files were taken away"
            )
        self.unstage()
        return done

    def set_aside(self) -> None:
        """Keep a copy of the files in place that nbprov did not write."""
        for name in self.changed_by_hand():
            kept = self.path / KEPT
            kept.mkdir(exist_ok=True)
            atomic_files.copy(self.path / name, kept / name)

    def restore(self) -> bool:
        """Put back what the last refresh wrote; False where there is no whole copy of that."""
        self.set_aside()
        return self._back() and self.owner() is Owner.NBPROV

    def clear(self) -> None:
        """Take the files away: the shipped prices hold again."""
        self.set_aside()
        # Without the copies first: a reader that finds only some of the files turns to them.
        shutil.rmtree(self.last_good, ignore_errors=True)
        self._remove(sorted(self.marks(), key=lambda name: name != KEY_FILE))
        self.remember(State(tried=self.state.tried))
        self.difference.unlink(missing_ok=True)

    def _back(self) -> bool:
        """Put the last good copy in place; a kill on the way leaves what `recover` sees to be a
        part, and does again.
        """
        marks = _marks(self.last_good)
        if not marks or not self._is_readable(self.last_good):
            return False
        staged = self.stage()
        for name in marks:
            atomic_files.copy(self.last_good / name, staged / name)
        self._switch(staged, marks, self.state.fetched)
        return True

    def _settle(self, known: State, marks: Mapping[str, str]) -> str:
        """A kill came between the first and the last step of putting files in place."""
        coming = refresh_state.of(known.pending)
        if all(marks.get(name) == mark for name, mark in coming.marks.items()):
            self._remove([name for name in marks if name not in coming.marks])
            self.remember(coming)
            self._copy_to_last_good()
            return "a refresh that was cut short was finished"
        done = ""
        if self._is_partial(marks) or any(
            coming.marks.get(name) == mark for name, mark in marks.items()
        ):
            self._back()
            done = "a refresh that was cut short was undone"
        self.remember(self.state, pending={})
        return done

    def _switch(self, staged: Path, marks: Mapping[str, str], fetched: Instant) -> None:
        # The date of a v8 file is the date of its prices.
        names = sorted(marks, key=lambda name: (name == KEY_FILE, name))
        others = [name for name in self.marks() if name not in marks]
        if len(names) > 1 and not others:
            self._remove([KEY_FILE])
        for name in names:
            if fetched:
                os.utime(staged / name, (fetched, fetched))
            _replace(staged / name, self.path / name)
        atomic_files.sync(self.path)
        self._remove(sorted(others, key=lambda name: name != KEY_FILE))

    def _keep_present(self) -> None:
        """While files are exchanged readers turn to `.last-good`.

        It must be what is in place now.
        """
        marks = self.marks()
        if marks and marks != _marks(self.last_good) and self._is_readable(self.path):
            self._copy_to_last_good()

    def _copy_to_last_good(self) -> None:
        marks = self.marks()
        if marks == _marks(self.last_good):
            return
        fresh = atomic_files.empty(self._own / "last-good")
        for name in marks:
            atomic_files.copy(self.path / name, fresh / name)
        # What is in place is whole, so nobody needs the copies while they change.
        shutil.rmtree(self.last_good, ignore_errors=True)
        _replace(fresh, self.last_good)
        atomic_files.sync(self.path)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()
        if names:
            atomic_files.sync(self.path)

    def _is_partial(self, marks: Mapping[str, str]) -> bool:
        return bool(marks) and V8_FORM not in marks and len(marks) < len(OWN_FORM)

    def _is_readable(self, path: Path) -> bool:
        try:
            return bool(locations.read_prices(path, self.cloud))
        except CatalogError:
            return False


def _marks(folder: Path) -> dict[str, str]:
    return atomic_files.marks(folder / name for name in (*OWN_FORM, V8_FORM))


def _replace(source: Path, target: Path) -> None:
    """Move into place; a reader on Windows that has the old file open is waited for."""
    for left in reversed(range(REPLACE_TRIES if os.name == "nt" else 1)):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if not left:
                raise
            time.sleep(REPLACE_PAUSE)
