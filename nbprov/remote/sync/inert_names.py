"""Names under which files of a machine are stored here, so that no program runs them by itself.

What protects first is the place: pulled files lie in a folder of the cluster, where nobody works.
The names protect whoever steps into it all the same, opens a notebook there, or runs a tool that
walks down into it.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable

ENDING = ".pulled"
"""Put behind a name; what ends so is loaded by nothing."""

DATA = (".zarray", ".zgroup", ".zattrs", ".zmetadata", ".metadata", ".hydra")
"""Hidden names of data formats (zarr, PyTorch's distributed checkpoints, Hydra), which run
nothing. One that is missing here only gets another name."""
REPOSITORIES = ("head", "_darcs", "_fossil_")
"""Without `HEAD` no folder is a git repository, bare ones included, whose settings git would run as
commands. The marks of other systems begin with a dot, but for these two."""
IMPORTED = ("site-packages", "dist-packages")
"""Folders whose `.pth` files Python runs whenever it starts."""
METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""What Python takes for an installed package, with its entry points."""
PROGRAMS = """
    .py .pyw .pyc .pyo .pyd .pyx .pyz .pyi .so .dll .dylib .exe .com .msi .scr .pif .bat
    .cmd .ps1 .psm1 .psd1 .vbs .vbe .wsf .hta .lnk .url .reg .cpl .desktop .service .timer
    .plist .command .app .scpt .workflow .sh .bash .zsh .fish .csh .ksh .js .mjs .cjs .jsx
    .ts .mts .cts .tsx .rb .pl .pm .lua .tcl .php .cgi .r .jl .rs .go .java .jar .war .class
    .scala .sbt .kt .kts .groovy .gradle .swift .zig .nim .ex .exs .erl .clj .el .vim .nix
    .bzl .bazel .cmake .mk .mak .ninja .build .toml .cfg .ini .conf .properties .rproj
    .code-workspace
"""
"""Programs, what Windows and desktops open by running it, and what configures tools alone."""
TOOLS = """
    compose docker-compose docker-bake package composer deno tsconfig jsconfig dvc mkdocs
    pnpm-workspace lefthook taskfile skaffold devcontainer cmakelists cmakepresets devbox
    turbo nx lerna rush bower renovate serverless pom build workspace module configure
    wscript sconstruct sconscript autogen
"""
"""What tools look for whose configuration has no ending or one of data (`compose.yml`). Names
without an ending that end in `file` or `rc` (`Makefile`, `matplotlibrc`) need not be named."""
CONFIGURATION = ("json", "jsonc", "json5", "yml", "yaml", "txt", "xml")

_PROGRAMS, _TOOLS = tuple(PROGRAMS.split()), frozenset(TOOLS.split())


def inert_name(name: str) -> str:
    """Return the name under which a file of a machine is stored here.

    Plain data keep their names. Hidden names, marks of repositories, programs, and what tells tools
    what to run get `.pulled` behind the part of the name that says so.

    Examples
    --------
    >>> inert_name("run1/scores.csv"), inert_name("a/numpy.py"), inert_name("x.git/HEAD")
    ('run1/scores.csv', 'a/numpy.py.pulled', 'x.git/HEAD.pulled')
    >>> inert_name(".vscode/tasks.json"), inert_name("Makefile"), inert_name("config.json")
    ('.vscode.pulled/tasks.json', 'Makefile.pulled', 'config.json')
    """
    folders, slash, last = name.rpartition("/")
    is_live = _is_live(last) or _is_program(last)
    return inert_folder(folders) + slash + (last + ENDING if is_live else last)


def inert_folder(path: str) -> str:
    """Return the path under which a folder of a machine is stored here.

    Examples
    --------
    >>> inert_folder("runs/.vscode"), inert_folder("runs/build")
    ('runs/.vscode.pulled', 'runs/build')
    """
    return "/".join(part + ENDING if _is_live(part) else part for part in path.split("/"))


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


def _is_live(part: str) -> bool:
    read = _read(part)
    is_mark = read in REPOSITORIES or read in IMPORTED or read.endswith(METADATA)
    return is_mark or _is_short_git(read) or (read.startswith(".") and read not in DATA)


def _is_program(part: str) -> bool:
    read = _read(part)
    stem, _, endings = read.partition(".")
    if not endings:
        return stem in _TOOLS or stem.endswith(("file", "rc"))
    is_tools = stem in _TOOLS and endings.rpartition(".")[2] in CONFIGURATION
    return is_tools or read.endswith(tuple(_programs()))


def _is_short_git(read: str) -> bool:
    return read.startswith("git~") and read[4:].isdigit()


def _read(part: str) -> str:
    # macOS ignores invisible characters, and Windows a dot or space at the end.
    seen = part if part.isascii() else "".join(c for c in part if unicodedata.category(c) != "Cf")
    return seen.casefold().rstrip(" .")


def _programs() -> Iterable[str]:
    # Windows runs what its own list says.
    more = os.environ.get("PATHEXT", "").casefold().split(";") if sys.platform == "win32" else ()
    return (*_PROGRAMS, *(ending for ending in more if ending.startswith(".")))
