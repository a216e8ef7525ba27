"""Names under which files of a machine are stored here, so that no program runs them by itself.

What protects first is the place: pulled files lie in a folder of the cluster, where nobody works.
The names protect whoever steps into it all the same, opens a notebook there, or runs a tool that
walks down into it. The rule: a file keeps its name if its ending is one of data.
"""

from __future__ import annotations

import os
import unicodedata

from .data_names import HIDDEN, is_data_name

ENDING = ".pulled"
"""Put behind a name; what ends so is loaded by nothing."""

REPOSITORIES = ("head", "_darcs", "_fossil_")
"""Without `HEAD` no folder is a git repository, bare ones included, whose settings git would run as
commands. The marks of other systems begin with a dot, but for these two."""
IMPORTED = ("site-packages", "dist-packages")
"""Folders whose `.pth` files Python runs whenever it starts."""
METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""What Python takes for an installed package, with its entry points."""
INSTALLED = """
    node_modules bower_components jspm_packages web_modules __pypackages__ conda-meta cvs rcs
"""
"""Folders from which programs load whatever has the name they look for."""
BUNDLES = """
    .app .framework .bundle .kext .plugin .workflow .xcodeproj .xcworkspace .scptd
"""
"""Folders that a desktop opens as a program."""

_INSTALLED, _BUNDLES = frozenset(INSTALLED.split()), tuple(BUNDLES.split())


def inert_name(name: str) -> str:
    """Return the name under which a file of a machine is stored here.

    A file keeps its name if the name is one of data (`data_names.py`). Everything else gets
    `.pulled` behind it, and so do folders that are hidden, or that programs load from.

    Examples
    --------
    >>> inert_name("run1/scores.csv"), inert_name("a/numpy.py"), inert_name("x.git/HEAD")
    ('run1/scores.csv', 'a/numpy.py.pulled', 'x.git/HEAD.pulled')
    >>> inert_name(".vscode/a.json"), inert_name("Makefile"), inert_name("config.json")
    ('.vscode.pulled/a.json', 'Makefile.pulled', 'config.json')
    """
    folders, slash, last = name.rpartition("/")
    read = _read(last)
    is_inert = is_data_name(read) and not _is_live(read)
    return inert_folder(folders) + slash + (last if is_inert else last + ENDING)


def inert_folder(path: str) -> str:
    """Return the path under which a folder of a machine is stored here.

    Examples
    --------
    >>> inert_folder("runs/.vscode"), inert_folder("runs/build")
    ('runs/.vscode.pulled', 'runs/build')
    """
    return "/".join(part + ENDING if _is_live(_read(part)) else part for part in path.split("/"))


def repository_name(name: str) -> str:
    """Return the name with `.pulled` behind marks of repositories alone.

    It is used where a person asked for names as they are: a folder that became a repository would
    run commands of the machine on a mere `git status`.

    Examples
    --------
    >>> repository_name("x.git/HEAD"), repository_name(".envrc"), repository_name(".git/config")
    ('x.git/HEAD.pulled', '.envrc', '.git.pulled/config')
    """
    marks = (*REPOSITORIES, ".git", ".hg", ".svn", ".jj", ".bzr")
    return "/".join(p + ENDING if _read(p) in marks else p for p in name.split("/"))


def is_hidden(part: str) -> bool:
    """Return whether a part of a path begins with a dot, as programs read it."""
    return _read(part).startswith(".")


def is_imported(part: str) -> bool:
    """Return whether Python runs files of a folder of this name whenever it starts."""
    return _read(part) in IMPORTED


def is_in_repository(folder: str, name: str) -> bool:
    """Return whether a name lies in a bare git repository that is here already.

    There `config` and `commondir` are plain names too, and git would run what they say.
    """
    place = folder
    for part in ("", *name.split("/")[:-1]):
        place = os.path.join(place, part)
        if all(os.path.lexists(os.path.join(place, mark)) for mark in ("HEAD", "objects")):
            return True
    return False


def _is_live(read: str) -> bool:
    is_mark = read in REPOSITORIES or read in IMPORTED or read.endswith(METADATA)
    is_loaded = read in _INSTALLED or read.endswith(_BUNDLES)
    is_unseen = read.startswith(".") and read not in HIDDEN
    return is_mark or is_loaded or is_unseen or _is_short_git(read)


def _is_short_git(read: str) -> bool:
    return read.startswith("git~") and read[4:].isdigit()


def _read(part: str) -> str:
    # macOS ignores invisible characters, and Windows a dot or space at the end.
    seen = part if part.isascii() else "".join(c for c in part if unicodedata.category(c) != "Cf")
    return seen.casefold().rstrip(" .")
