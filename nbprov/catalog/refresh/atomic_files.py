"""Atomic file writes: a file is there whole or not at all, even after a power cut."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from nbprov.model.paths import close_to_others, make_folder, open_private


def md5(path: Path) -> str:
    """Return the MD5 of a file, which detects changes but is no protection against tampering."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if path.is_dir() and sys.platform == "win32":
        return  # Windows cannot open a folder, and journals its names
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes) -> None:
    """Write a file in one step: readers see either the old content or the new, whole."""
    make_folder(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        with open(fresh, "wb", opener=open_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    sync(path.parent)


def copy(source: Path, target: Path) -> None:
    """Copy one file's bytes and times in one step."""
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        shutil.copyfile(source, fresh)
        shutil.copystat(source, fresh)
        close_to_others(fresh)
        sync(fresh)
        os.replace(fresh, target)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    sync(target.parent)


def empty(folder: Path) -> Path:
    """Make this folder, or remove everything in it."""
    shutil.rmtree(folder, ignore_errors=True)
    return make_folder(folder)


def marks(paths: Iterable[Path]) -> dict[str, str]:
    """Return the MD5 of each of these files that exists, by file name."""
    return {path.name: md5(path) for path in paths if path.is_file()}
