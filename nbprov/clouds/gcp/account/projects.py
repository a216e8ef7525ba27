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
import time
from pathlib import Path

from nbprov.clouds.gcp import labels
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.files import durable
from nbprov.model.paths import home

EMPTY_SECONDS: Seconds = 3600.0
"""How long after its last create an empty project is still listed: its machines may appear late."""
GONE_SECONDS: Seconds = 24 * 3600.0
"""How long a project that Google does not know is still listed; after that it was deleted, with its
machines."""
LOOK = "look at its disk and its mode"
MEND = (
    "write the name of its project into it: one where Google's console shows machines with the"
    f" label {labels.OWNER}; if there is none, delete it"
)


def note(owner: str, project: str) -> None:
    """Record that a create in this project is about to be sent.

    Raises
    ------
    OSError
        If the disk cannot be written.
    """
    file = _file(owner, project)
    with contextlib.suppress(OSError):
        if file.read_text() == project:
            os.utime(file)
            return
    durable.write(file, project.encode())


def others(owner: str, project: str) -> list[str]:
    """Return the other projects in which the owner may have machines.

    Raises
    ------
    CloudError
        `transient` if a single record cannot be read: machines may be where it says, and what a
        listing lacks counts as gone.
    """
    found = []
    for file in _files(owner):
        try:
            name = file.read_bytes().decode().strip()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error), LOOK) from None
        except UnicodeDecodeError:
            name = ""
        if file == _file(owner, project):
            if name != project:  # damaged, and what it said is known
                with contextlib.suppress(OSError):
                    durable.write(file, project.encode())
            continue
        if file != _file(owner, name):
            raise _unreadable(file, "it is damaged", MEND) from None
        found.append(name)
    return found


def _files(owner: str) -> list[Path]:
    begin = f"{labels.short(owner)}-"
    try:
        names = sorted(os.listdir(folder()))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder(), error.strerror or str(error), LOOK) from None
    return [folder() / n for n in names if n.startswith(begin) and not n.endswith(".new")]


def _unreadable(path: Path, why: str, hint: str) -> CloudError:
    words = (
        f"{path}, which names a project with machines, cannot be read ({why}), so nothing is"
        f" concluded from what Google lists; {hint}"
    )
    return CloudError(Failure(Cause.TRANSIENT, words, "unreadable-record"))


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
