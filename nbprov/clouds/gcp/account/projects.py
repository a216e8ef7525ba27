"""In which projects an owner's machines may be, so that another project in the environment does not make them look gone.

A listing is of one project. Where a notebook is opened with another `GOOGLE_CLOUD_PROJECT` than the one a machine was made in, a listing of that
project alone lacks the machine, and what a listing lacks counts as ended while it runs on. So a create notes its project first, in a file
of its own (nothing to tear, nothing to lock), and every listing asks all of them until one is empty and its last create is long over.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from nbprov.clouds.gcp import labels
from nbprov.model.clock import Seconds
from nbprov.model.paths import home

EMPTY_SECONDS: Seconds = 3600.0
"""A project with no machine is asked for so long after its last create, which may make its machine late."""
GONE_SECONDS: Seconds = 24 * 3600.0
"""A project that Google does not know is asked for so long; then it was deleted, and its machines with it."""


def note(owner: str, project: str) -> None:
    """Write down that a create in this project is about to be sent.

    Raises
    ------
    OSError
        The disk takes nothing.
    """
    file = _file(owner, project)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(OSError):
        if file.read_text() == project:
            os.utime(file)
            return
    draft = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.new")
    draft.write_text(project)
    draft.replace(file)


def others(owner: str, project: str) -> list[str]:
    """The projects beside this one in which the owner may have machines."""
    found = []
    for file in sorted(folder().glob(f"{labels.short(owner)}-*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            name = file.read_text().strip()
            if name and name != project and file == _file(owner, name):
                found.append(name)
    return found


def drop_old(owner: str, project: str, seconds: Seconds) -> bool:
    """Forget a project whose last create is so long ago; whether it was."""
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
    """Where the notes are."""
    return home() / "clouds" / "gcp"


def _file(owner: str, project: str) -> Path:
    return folder() / f"{labels.short(owner)}-{labels.short(project, 12)}"
