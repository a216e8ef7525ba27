"""Price folders with the store made of them, and a check whether any file has changed since."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources.price_files import Layout, Stamp, stamp
from nbprov.model.paths import home

from .cache import SETTLED_NS

if TYPE_CHECKING:
    from .columns import ColumnStore


class WatchedFolders:
    """Price folders, and the store that the first question makes of them.

    All views of one catalogue share it.
    """

    def __init__(self, layout: Layout, cache: Path | None) -> None:
        self.layout = layout
        self.cache = cache
        self._lock = threading.Lock()
        self._store: ColumnStore | None = None
        self._watched: tuple[str, ...] = ()
        self._stamp: Stamp = ()
        self._stamped_at = 0

    @property
    def store(self) -> ColumnStore:
        if self._store is None:
            with self._lock:
                if self._store is None:
                    self._store = self._load()
        return self._store

    def has_changed(self) -> bool:
        """Whether a file or folder may have changed since the store was made.

        It is also true while the last change is too recent for time stamps to tell.
        """
        if self._store is None:
            return False
        if stamp(self._watched) != self._stamp:
            return True
        return any(seen[0] > self._stamped_at - SETTLED_NS for seen in self._stamp)

    def reread(self) -> WatchedFolders:
        """Return the same folders as they are now, or this object if nothing in them changed."""
        fresh = WatchedFolders(self.layout, self.cache)
        if (
            self._store is not None
            and fresh.store.content
            and fresh.store.content == self._store.content
        ):
            self._watched, self._stamp, self._stamped_at = (
                fresh._watched,
                fresh._stamp,
                fresh._stamped_at,
            )
            return self
        return fresh

    def _load(self) -> ColumnStore:
        from nbprov.catalog.sources.price_files import find

        from .cache import load

        found = find(self.layout)
        # Stamped before the files are read, so that a change in between is seen next time.
        self._watched, self._stamped_at = found.watched, time.time_ns()
        self._stamp = stamp(found.watched)
        if not found.files and self.layout.layers:
            raise CatalogError(
                f"no price files in {', '.join(str(layer.folder) for layer in self.layout.layers)}",
                hint="a folder holds one folder a cloud, with vms.csv or with types.csv,"
                " prices.csv and sources.csv",
                code="catalog.empty",
            )
        return load(found.files, self.cache if self.cache is not None else home() / "cache")
