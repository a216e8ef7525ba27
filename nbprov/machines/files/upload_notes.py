"""Say before a launch what it would send to a machine, or read for it, that a stranger may want.

A task file may come from a stranger, and what its commands do with keys is theirs to choose.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from nbprov.machines.local_paths import local_path
from nbprov.machines.python.requirement_files import CHOSEN, PythonSource
from nbprov.model.sources import Repository, SourceKind, shown_source
from nbprov.model.spec import Spec
from nbprov.model.text.plain import one_line
from nbprov.remote.sync.inert_names import is_hidden

from .source_checks import local_sources

LOGINS = {
    SourceKind.S3: "AWS login",
    SourceKind.GS: "Google login",
    SourceKind.R2: "keys of Cloudflare R2",
}
"""What of this computer opens a bucket that is not public."""


def upload_notes(spec: Spec, folder: Path, python: PythonSource | None = None) -> Iterator[str]:
    """Yield a line for each thing that a spec takes from elsewhere than the notebook's folder.

    These are local paths outside it or hidden in it (links are followed first), buckets, and a git
    repository, which the logins of this computer may open.

    Parameters
    ----------
    spec
        With the values of its variables.
    python
        What its Python environment is made from.

    Raises
    ------
    UnusablePath
        If a text can be no path of this computer.
    """
    root = Path(os.path.realpath(folder))
    for field, source in local_sources(spec):
        yield from _path_note(field, local_path(source, root, field), root)
    for place in () if python is None else python.places:
        yield from _path_note("python", place, root)
    if isinstance(spec.workdir, Repository):
        url = one_line(spec.workdir.url)
        yield f"workdir: {url} is cloned with this computer's git login if it wants one"
    for source in dict.fromkeys(m.source for m in spec.file_mounts if m.kind in LOGINS):
        kind = next(m.kind for m in spec.file_mounts if m.source == source)
        shown = one_line(shown_source(source))
        yield f"file_mounts: {shown} is read with this computer's {LOGINS[kind]} if it wants one"


def _path_note(field: str, path: Path, root: Path) -> Iterator[str]:
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        yield (
            f"{field}: {one_line(str(real))} is sent to the machine; it is outside the"
            " notebook's folder"
        )
        return
    parts = real.relative_to(root).parts
    # The version of Python beside a lock is no secret, although its file is hidden.
    if any(map(is_hidden, parts[:-1] if field == "python" and real.name == CHOSEN else parts)):
        yield f"{field}: {one_line(str(real))} is sent to the machine; it is hidden"


def environment_note(names: Collection[str]) -> Iterator[str]:
    """Yield a line for the names whose values are of this kernel's environment."""
    if names:
        listed = one_line(", ".join(names))
        yield (
            f"the machine gets {listed} of this kernel's environment, unless --env says another"
            " value"
        )
