"""Paths of this computer that a spec or a command names."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from nbprov.model.errors import UsageError
from nbprov.model.text.plain import one_line

MOST_SHOWN = 80
"""Characters of a path in an error."""


class UnusablePath(UsageError):
    """A text is no path of this computer, whatever is there."""

    code = "path.unusable"


def local_path(text: str, folder: Path, field: str) -> Path:
    """Return the path that a text names, with `~` replaced. It need not exist.

    Parameters
    ----------
    folder
        The folder that relative paths start at.
    field
        What named it, for the error: `workdir`.

    Raises
    ------
    UnusablePath
        If the text has a character that no path can hold, is too long, or begins with the home of
        somebody whom this computer does not know.
    """
    try:
        path = folder / Path(text).expanduser()
    except RuntimeError:
        owner = Path(text).parts[0]
        raise UnusablePath(
            f"{field}: {one_line(owner, MOST_SHOWN)} is nobody's home on this computer",
            hint="write ~/FOLDER for a folder of your own home, or ./~NAME for one of that name",
        ) from None
    except ValueError:
        raise _unfit(text, field) from None
    return checked_path(path, field)


def checked_path(path: Path, field: str) -> Path:
    """Return a path that a file could have; it need not exist.

    Raises
    ------
    UnusablePath
        As `local_path`.
    """
    try:
        path.lstat()
    except ValueError:  # a NUL, or half a pair of surrogates
        raise _unfit(str(path), field) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UnusablePath(
                f"{field}: {one_line(str(path), MOST_SHOWN)} is longer than a path of this"
                f" computer can be ({len(os.fsencode(path)):,} bytes)",
                hint="name a folder with a shorter path",
            ) from None
    return path


def _unfit(text: str, field: str) -> UnusablePath:
    return UnusablePath(
        f"{field}: {one_line(text, MOST_SHOWN)} holds a character that no path can hold"
        " (NUL, or half of a surrogate pair)",
        hint="write the path without it",
    )
