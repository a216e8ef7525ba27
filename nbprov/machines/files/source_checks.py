"""Check what a spec copies from this computer before a launch, when nothing is paid yet."""

from __future__ import annotations

import os
from pathlib import Path

from nbprov.machines.local_paths import local_path
from nbprov.model.sources import SourceKind
from nbprov.model.spec import Spec
from nbprov.on_machine.sync_files import SyncFolder
from nbprov.remote.sync.errors import SyncError


def local_sources(spec: Spec) -> list[tuple[str, str]]:
    """Return the local paths of `workdir` and `file_mounts` as written, each behind its field."""
    workdir = spec.workdir if isinstance(spec.workdir, str) else ""
    mounts = [mount.source for mount in spec.file_mounts if mount.kind is SourceKind.LOCAL]
    return [*([("workdir", workdir)] if workdir else []), *(("file_mounts", m) for m in mounts)]


def check_sources(spec: Spec, folder: Path) -> None:
    """Check that local paths of `workdir` and `file_mounts` exist, and none is a whole home.

    Parameters
    ----------
    folder
        The folder that relative paths start at.

    Raises
    ------
    SyncError
        `sync.missing`, `sync.permission` or `sync.home`, naming the field and the path.
    UnusablePath
        If a text can be no path of this computer.
    """
    for field, source in local_sources(spec):
        path = local_path(source, folder, field)
        try:
            is_there = path.exists()
        except OSError as error:
            raise SyncError(
                f"{field}: {path} cannot be read: {error.strerror or error}",
                hint="let this account read it, or name another path",
                code="sync.permission",
            ) from None
        if not is_there:
            raise SyncError(
                f"{field}: {path} does not exist",
                hint="paths are relative to the notebook's folder",
                code="sync.missing",
            )
        if SyncFolder(os.path.realpath(path)).is_home_or_above():
            raise SyncError(
                f"{field}: {path} holds your whole home, keys and settings too",
                hint="name a folder below it",
                code="sync.home",
            )
