"""One cloud's folder in `NBPROV_HOME/catalogs`: who owns its files, and how they are replaced.

A process that is killed during a replacement leaves the old prices or the new ones, never a
mixture. A cloud's prices are one file (`vms.csv`, as hosted) or three (nbprov's own form). One file
is replaced in one step. For three files, `KEY_FILE` is removed first, so that readers turn to the
whole copy in `.last-good` until the last of the new files is in place. `recover`, called under the
cloud's lease, finishes what a killed process left unfinished.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import price_files
from nbprov.catalog.sources.known_machines import Prices
from nbprov.catalog.sources.moved_prices import MovedPrices
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.catalog.sources.skypilot_csv import FILE_NAME as V8_FORM
from nbprov.catalog.sources.snapshot import FILE_NAMES as OWN_FORM
from nbprov.model.clock import Instant
from nbprov.model.files import durable
from nbprov.model.paths import make_folder

from . import atomic_files, refresh_state
from .file_lease import lease
from .refresh_state import State

KEY_FILE = "types.csv"
"""The file of the three that is removed first and written last.

Without it the other two do not count as a price list.
"""
KEPT = ".set-aside"
"""Folder for edited or damaged files that `force` or a recovery replaced.

Nothing that a person wrote is thrown away.
"""

REPLACE_TRIES, REPLACE_PAUSE = 20, 0.05
"""One second in total: readers hold a price file open for a few milliseconds."""


class Owner(StrEnum):
    """Who owns the files in a cloud's folder.

    NOBODY
        There are no files: the shipped prices hold.
    NBPROV
        The files are as a refresh wrote them.
    PERSON
        The files were written or changed by hand.
    DAMAGED
        The files are neither as a refresh wrote them nor readable.
    """

    NOBODY = "nobody"
    NBPROV = "nbprov"
    PERSON = "person"
    DAMAGED = "damaged"


class CloudFolder:
    """One cloud's folder. Changes need the cloud's lease; reads do not."""

    def __init__(self, root: Path, cloud: str) -> None:
        self.cloud = cloud
        self.path = root / cloud
        self.last_good = self.path / price_files.LAST_GOOD
        self._own = self.path / ".refresh"
        self.lock = self._own / "lock"
        self.staging = self._own / "next"
        self.difference = self._own / "changes.json.gz"
        self._state = self._own / "state.json"
        self._moved = MovedPrices.path(root, cloud)

    @property
    def state(self) -> State:
        """The remembered state of the cloud's refreshes."""
        return refresh_state.read(self._state)

    def remember(self, known: State, **changes: object) -> State:
        """Store this state with these changes, and return it."""
        return refresh_state.write(self._state, known, **changes)

    def marks(self) -> dict[str, str]:
        """The MD5 of each price file in place, by name."""
        return _marks(self.path)

    def owner(self, known: State | None = None) -> Owner:
        """Tell who owns the files in place."""
        known = self.state if known is None else known
        marks = self.marks()
        if not marks:
            return Owner.NOBODY
        if marks == known.marks:
            return Owner.NBPROV
        return Owner.PERSON if self._is_readable(self.path) else Owner.DAMAGED

    def changed_by_hand(self, known: State | None = None) -> tuple[str, ...]:
        """Return the files in place that differ from what nbprov wrote."""
        known = self.state if known is None else known
        return tuple(
            sorted(name for name, mark in self.marks().items() if known.marks.get(name) != mark)
        )

    def entries(self) -> list[PriceEntry]:
        """Return the price rows of the files in place; empty if there are no files.

        Raises
        ------
        CatalogError
            If they cannot be read.
        """
        return price_files.read_prices(self.path, self.cloud) if self.marks() else []

    # ------------------------------------------------------------ changes, under the lease

    def stage(self) -> Path:
        """Return an empty folder for the new files."""
        return atomic_files.empty(self.staging)

    def unstage(self) -> None:
        """Remove the staged files."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def moved(self) -> MovedPrices:
        """What is remembered of prices that moved by more than half."""
        return MovedPrices.read(self._moved)

    def remember_moved(self, moved: MovedPrices) -> None:
        """Store what is remembered of prices that moved."""
        if moved.in_doubt or moved.accepted or self._moved.exists():
            durable.write(self._moved, moved.to_json())

    def accept(self, prices: Prices) -> None:
        """Accept prices that moved. It takes the lease itself."""
        with lease(self.lock, stop=threading.Event()):
            moved = self.moved()
            moved.accept(prices)
            self.remember_moved(moved)

    def publish(self, coming: State) -> State:
        """Put the staged files in place, and store this state with their MD5 marks."""
        marks = _marks(self.staging)
        for name in marks:
            durable.sync(self.staging / name)
        durable.sync(self.staging)
        coming = replace(coming, marks=marks, pending={})
        self._keep_present()
        self.remember(self.state, pending=asdict(coming))
        self._switch(self.staging, marks, coming.fetched)
        self.remember(coming)
        self._copy_to_last_good()
        return coming

    def drop_if_empty(self) -> None:
        """Remove a folder that a failed refresh made and that holds no prices."""
        if not self.marks() and not self.last_good.exists():
            shutil.rmtree(self.path, ignore_errors=True)

    def recover(self) -> str:
        """Finish or undo what a killed process left unfinished, and restore damaged files.

        Returns what was done, in words; empty if nothing was done.
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
            make_folder(kept)
            atomic_files.copy(self.path / name, kept / name)

    def restore(self) -> bool:
        """Put back what the last refresh wrote; return False if no whole copy of it exists."""
        self.set_aside()
        return self._back() and self.owner() is Owner.NBPROV

    def clear(self) -> None:
        """Remove the files, so that the shipped prices hold again."""
        self.set_aside()
        # The copies go first: a reader that finds only some of the files would turn to them.
        shutil.rmtree(self.last_good, ignore_errors=True)
        self._remove(sorted(self.marks(), key=lambda name: name != KEY_FILE))
        self.remember(State(tried=self.state.tried))
        self.difference.unlink(missing_ok=True)

    def _back(self) -> bool:
        """Put the last good copy in place.

        A process that is killed on the way leaves a partial set of files, which `recover` restores
        again.
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
        """Finish or undo a replacement that was interrupted between its first and last step."""
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
        durable.sync(self.path)
        self._remove(sorted(others, key=lambda name: name != KEY_FILE))

    def _keep_present(self) -> None:
        """Copy the files in place to `.last-good`, where readers look during a replacement."""
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
        # The files in place are whole, so nobody needs the copies while they change.
        shutil.rmtree(self.last_good, ignore_errors=True)
        _replace(fresh, self.last_good)
        durable.sync(self.path)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()
        if names:
            durable.sync(self.path)

    def _is_partial(self, marks: Mapping[str, str]) -> bool:
        return bool(marks) and V8_FORM not in marks and len(marks) < len(OWN_FORM)

    def _is_readable(self, path: Path) -> bool:
        try:
            return bool(price_files.read_prices(path, self.cloud))
        except CatalogError:
            return False


def _marks(folder: Path) -> dict[str, str]:
    return atomic_files.marks(folder / name for name in (*OWN_FORM, V8_FORM))


def _replace(source: Path, target: Path) -> None:
    """Move a file into place; on Windows, wait for readers that have the old file open."""
    for left in reversed(range(REPLACE_TRIES if os.name == "nt" else 1)):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if not left:
                raise
            time.sleep(REPLACE_PAUSE)
