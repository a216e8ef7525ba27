"""Say before a launch what it would send to a machine from elsewhere than the notebook's folder.

A task file may come from a stranger, and what its commands do with keys is theirs to choose.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from nbprov.machines.local_paths import local_path
from nbprov.model.spec import Spec
from nbprov.model.text.plain import one_line
from nbprov.remote.sync.inert_names import is_hidden

from .source_checks import local_sources


def upload_notes(spec: Spec, folder: Path) -> Iterator[str]:
    """Yield a line for each local path that is outside the notebook's folder, or hidden in it.

    Links are followed first.

    Raises
    ------
    UnusablePath
        If a text can be no path of this computer.
    """
    root = Path(os.path.realpath(folder))
    for field, source in local_sources(spec):
        path = Path(os.path.realpath(local_path(source, root, field)))
        if not path.is_relative_to(root):
            yield (
                f"{field}: {one_line(str(path))} is sent to the machine; it is outside the"
                " notebook's folder"
            )
        elif any(map(is_hidden, path.relative_to(root).parts)):
            yield f"{field}: {one_line(str(path))} is sent to the machine; it is hidden"


def environment_note(names: Collection[str]) -> Iterator[str]:
    """Yield a line for the names whose values are of this kernel's environment."""
    if names:
        listed = one_line(", ".join(names))
        yield (
            f"the machine gets {listed} of this kernel's environment, unless --env says another"
            " value"
        )
