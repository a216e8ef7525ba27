"""Atomic copies of files: one is there whole or not at all, even after a power cut."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from nbprov.model.files import durable
from nbprov.model.paths import close_to_others, make_folder


def md5(path: Path) -> str:
    """Return the MD5 of a file, which detects changes but is no protection against tampering."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def copy(source: Path, target: Path) -> None:
    """Copy one file's bytes and times in one step."""
    fresh = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        shutil.copyfile(source, fresh)
        shutil.copystat(source, fresh)
        close_to_others(fresh)
        durable.sync(fresh)
        os.replace(fresh, target)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    durable.sync(target.parent)


def empty(folder: Path) -> Path:
    """Make this folder, or remove everything in it."""
    shutil.rmtree(folder, ignore_errors=True)
    return make_folder(folder)


def marks(paths: Iterable[Path]) -> dict[str, str]:
    """Return the MD5 of each of these files that exists, by file name."""
    return {path.name: md5(path) for path in paths if path.is_file()}
