"""Durable files: one is there whole or not at all, even after a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from pathlib import Path

from nbprov.model.paths import PRIVATE_FILE, make_folder, open_private

_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""File systems that cannot flush a folder, such as some of a network, answer so."""


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":
        return  # Windows cannot open a folder, and journals its names
    handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not is_folder or error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def write(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file in one step: readers see either the old content or the new, whole.

    Parameters
    ----------
    root
        The home that it belongs to; by default `NBPROV_HOME` or what stands for it.

    Raises
    ------
    OSError
        If the disk cannot be written; then the old content is there.
    """
    make_folder(path.parent, root)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        with open(fresh, "wb", opener=open_private if root is None else _open_in_home) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    sync(path.parent)


def _open_in_home(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)
