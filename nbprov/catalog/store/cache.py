"""The parsed prices as a cache file, so that other kernels do not parse them again.

The file's name is a hash of the inputs' content: another release, a refreshed folder or an edited
line has another file, and two kernels that make the same one write the same bytes. A second small
file remembers the inputs' sizes and times, so that a usual start need not hash them. Nothing
depends on the cache: if it cannot be written or read, the store is made in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources.price_files import CloudFiles
from nbprov.model.paths import make_folder

from .columns import FORMAT, ColumnStore

Files = Mapping[str, CloudFiles]
Stamp = list[list[str | int]]

SETTLED_NS = 2_000_000_000
"""A file is settled if it changed at least this long before it was hashed.

A later change could fall within one tick of its time stamp (2 s on FAT).
"""
TRIES = 2
"""How often files that are replaced during a read are read again.

Each file is whole by itself, but the files may belong to two refreshes.
"""
KEEP_SECONDS = 30 * 24 * 3600.0
"""Older caches are removed when a new one is made; a kernel that needs one makes it again."""


def load(files: Files, folder: Path) -> ColumnStore:
    """Return the store of these files from the cache in `folder`, or make it.

    A store that was made is written to the cache if the folder allows it.
    """
    stamp = _stamp(files)
    paths = sorted(str(p) for sources in files.values() for p in sources.paths)
    pointer = folder / f"catalog-{FORMAT}-{_digest(paths)}.json"
    known = _pointed(pointer, stamp)
    if known is not None:
        store = _open(_place(folder, known))
        if store is not None:
            store.content = known
            return store
    for _ in range(TRIES):
        stamp, content = _stamp(files), _content(files)
        store = _open(_place(folder, content)) if content != known else None
        if store is not None:
            break
        from .builder import (
            # needed only without a cache: a kernel's first table does not import the readers
            build,
        )

        data = build(files)
        if _content(files) == content:
            store = _kept(data, folder, content)
            break
    else:
        return ColumnStore.of(
            data
            # Valid prices of unknown content, since the files keep changing: the next question
            # reads them again.
        )
    store.content = content
    _write(
        pointer,
        json.dumps({"content": content, "stamp": stamp, "checked": time.time_ns()}).encode(),
    )
    return store


def _kept(data: bytes, folder: Path, content: str) -> ColumnStore:
    place = _place(folder, content)
    if _write(place, data):
        _prune(folder, place)
        store = _open(place)  # mapped, so that the bytes need not stay in memory
        if store is not None:
            return store
    return ColumnStore.of(data)


def _place(folder: Path, content: str) -> Path:
    return folder / f"catalog-{FORMAT}-{content}.bin"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _stamp(files: Files) -> Stamp:
    """Return size and time of every file, in an order that tells which is read first."""
    stamp: Stamp = []
    for cloud, sources in files.items():
        for path in sources.paths:
            try:
                status = path.stat()
                stamp.append([cloud, path.name, status.st_size, status.st_mtime_ns])
            except OSError:
                stamp.append([cloud, path.name, -1, 0])
    return stamp


def _content(files: Files) -> str:
    """Return a hash of everything that the store is made of.

    A file that cannot be read counts as well, since its cloud then comes from other files.
    """
    sha = hashlib.sha256()
    for cloud, sources in files.items():
        # A v8 file's time stamp is the date of its prices; labels and file names show in
        # `Catalog.info`.
        sha.update(
            (
                f"{cloud}\0{sources.passed_over}\0{len(sources.overrides)}\0"
                f"{[choice.label for choice in sources.choices]}\0"
            ).encode()
        )
        for path in sources.paths:
            try:
                data = path.read_bytes()
                sha.update(
                    (
                        f"{path.parent.name}/{path.name}\0{len(data)}\0"
                        f"{int(path.stat().st_mtime) // 86400}\0"
                    ).encode()
                )
                sha.update(data)
            except OSError as error:
                sha.update(f"{path.name}\0{error.errno}\0".encode())
    return sha.hexdigest()[:32]


def _pointed(pointer: Path, stamp: Stamp) -> str | None:
    """Return the content last seen with this stamp; None if that cannot be relied on."""
    try:
        noted = json.loads(pointer.read_bytes())
        if noted["stamp"] != stamp or any(
            int(line[3]) > noted["checked"] - SETTLED_NS for line in stamp
        ):
            return None
        return str(noted["content"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _open(place: Path) -> ColumnStore | None:
    try:
        with place.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return ColumnStore.of(memoryview(mapped))
    except (OSError, ValueError, CatalogError):
        return None


def _write(place: Path, data: bytes) -> bool:
    """Put a file in place in one step; return False if the folder does not allow it."""
    try:
        make_folder(place.parent)
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".catalog-", suffix=".tmp")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True


def _prune(folder: Path, keep: Path) -> None:
    limit = time.time() - KEEP_SECONDS
    for path in [*folder.glob("catalog-*"), *folder.glob(".catalog-*.tmp")]:
        with contextlib.suppress(OSError):
            if path != keep and path.stat().st_mtime < limit:
                path.unlink()
