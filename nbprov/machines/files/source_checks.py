"""Check what a spec copies from this computer before a launch, when nothing is paid yet."""

from __future__ import annotations

import os
from pathlib import Path

from nbprov.model.sources import SourceKind
from nbprov.model.spec import Spec
from nbprov.on_machine.sync_files import SyncFolder
from nbprov.remote.sync.errors import SyncError


def check_sources(spec: Spec, folder: Path) -> None:
    """Check that local paths of `workdir` and `file_mounts` exist, and none is a whole home.

    Parameters
    ----------
    folder
        The folder that relative paths start at.

    Raises
    ------
    SyncError
        `sync.missing` or `sync.home`, naming the field and the path.
    """
    wanted = [("workdir", spec.workdir)] if isinstance(spec.workdir, str) and spec.workdir else []
    wanted += [
        ("file_mounts", mount.source)
        for mount in spec.file_mounts
        if mount.kind is SourceKind.LOCAL
    ]
    for field, source in wanted:
        path = folder / Path(source).expanduser()
        if not path.exists():
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
