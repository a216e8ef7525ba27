"""The projects in which an owner's machines may be.

A listing covers one project. If a notebook is opened with another `GOOGLE_CLOUD_PROJECT` than the
one a machine was created in, a listing of that project lacks the machine, and a machine that a
listing lacks counts as ended. So each create records its project first, in a file of its own, which
needs no lock and cannot be half written. Every listing asks all recorded projects until one is
empty and its last create is long ago.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from nbprov.clouds.gcp import labels
from nbprov.model.clock import Seconds
from nbprov.model.paths import home, make_folder, open_private

EMPTY_SECONDS: Seconds = 3600.0
"""How long after its last create an empty project is still listed: its machines may appear late."""
GONE_SECONDS: Seconds = 24 * 3600.0
"""How long a project that Google does not know is still listed; after that it was deleted, with its
machines."""


def note(owner: str, project: str) -> None:
    """Record that a create in this project is about to be sent.

    Raises
    ------
    OSError
        If the disk cannot be written.
    """
    file = _file(owner, project)
    make_folder(file.parent)
    with contextlib.suppress(OSError):
        if file.read_text() == project:
            os.utime(file)
            return
    draft = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.new")
    with open(draft, "w", encoding="utf-8", opener=open_private) as out:
        out.write(project)
    draft.replace(file)


def others(owner: str, project: str) -> list[str]:
    """Return the other projects in which the owner may have machines."""
    found = []
    for file in sorted(folder().glob(f"{labels.short(owner)}-*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            name = file.read_text().strip()
            if name and name != project and file == _file(owner, name):
                found.append(name)
    return found


def drop_old(owner: str, project: str, seconds: Seconds) -> bool:
    """Forget a project whose last create is older than `seconds`; return whether it was."""
    file = _file(owner, project)
    try:
        if 0 <= time.time() - file.stat().st_mtime < seconds:
            return False
        file.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def folder() -> Path:
    """Return the folder of the records."""
    return home() / "clouds" / "gcp"


def _file(owner: str, project: str) -> Path:
    return folder() / f"{labels.short(owner)}-{labels.short(project, 12)}"
