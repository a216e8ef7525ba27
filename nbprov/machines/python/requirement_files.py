"""Read the files that a spec's `python` names, before a launch, since they may change later."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nbprov.machines.local_paths import checked_path, local_path
from nbprov.model.errors import NbprovError
from nbprov.model.sources import Repository
from nbprov.model.spec import PythonEnvironment
from nbprov.remote.sync.errors import MOST_WORDS, shown

from .pins import pinned

MOST_BYTES = 16_000_000
"""Bytes of one file; the largest locks have a few MB."""
INCLUDED = (".txt", ".in")
"""Suffixes of files that may be included from other folders; links are followed."""
MOST_FILES = 50
"""Files that include each other."""

LOCK, CHOSEN = "uv.lock", ".python-version"
PROJECT = (LOCK, "pyproject.toml")
"""The files that must be beside a lock."""

_OPTION = re.compile(
    r"\s*(?P<option>-r|--requirement|-c|--constraint)(?:\s+|=)(?P<path>[^\s#][^#]*)(?:#.*)?"
)
_LOCAL = re.compile(
    r"\s*(?:-e\b|--editable\b|\.{1,2}(?:/|\\|\s|$|\[)|/|~|file:"
    r"|(?:-f|--find-links|-i|--(?:extra-)?index-url)[\s=]+[./~])|[^#]*@\s*file:"
)


class PythonFilesError(NbprovError):
    """A file that `python` names is missing, or cannot be used on a machine."""

    code = "python.files"


@dataclass(frozen=True, slots=True)
class PythonSource:
    """The source of an environment.

    Attributes
    ----------
    kind
        `requirements`, or `project` for a lock.
    files
        Their texts by their names on the machine. They may hold log-ins of package indexes, so
        they are shown nowhere.
    label
        The request in words.
    there
        The lock's folder in the clone that `workdir` is; empty if the files are local.
    clone
        The repository and ref of that clone.
    places
        The files of this computer that were read.
    """

    kind: str
    version: str = ""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    label: str = ""
    there: str = ""
    clone: str = ""
    places: tuple[Path, ...] = field(default=(), compare=False, repr=False)

    @property
    def wish(self) -> str:
        """A digest of the request: of the files, or of their place if they are in a clone."""
        if not self.there:
            return self.key
        return hashlib.sha256(
            json.dumps([self.version, self.there, self.clone]).encode("utf-8", "surrogatepass")
        ).hexdigest()

    @property
    def noted(self) -> str:
        """What the ledger stores: the wish, and the key where it differs."""
        return f"{self.wish}:{self.key}" if self.there else self.key

    def is_wish_of(self, noted: str) -> bool:
        """Return whether a stored text has the same request."""
        return noted.partition(":")[0] == self.wish

    def is_source_of(self, noted: str) -> bool:
        """Return whether a stored text was made from exactly these files."""
        return noted.rpartition(":")[2] == self.key

    @property
    def key(self) -> str:
        """A digest of the source; equal sources make equal environments."""
        whole = json.dumps([self.kind, self.version, sorted(self.files.items())])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def request(self, *, lock: str = "", python: str = "") -> dict[str, object]:
        """Return the request to the machine.

        With `lock` and `python` of another node, the machine makes the same environment.
        """
        return {
            "key": self.key,
            "kind": self.kind,
            "version": self.version,
            "files": dict(self.files),
            "lock": lock,
            "python": python,
            "pins": "" if lock else pinned(),
        }


def read_source(
    python: PythonEnvironment | None, folder: Path, workdir: str | Repository = ""
) -> PythonSource | None:
    """Read what `python` names, relative to a folder; None if the spec has no environment.

    If `workdir` is a git repository, the lock belongs to it and is read on the machine; see
    `cloned_lock.py`.

    Raises
    ------
    PythonFilesError
        If a file is missing, names something that only this computer has, or is a lock that does
        not match its project.
    UnusablePath
        If a text can be no path of this computer.
    """
    if python is None:
        return None
    if (
        python.lock
        and isinstance(workdir, Repository)
        and not local_path(python.lock, Path(), "python").is_absolute()
    ):
        return PythonSource(
            "project",
            python.version,
            label=str(python),
            there=_in_clone(python.lock),
            clone=f"{workdir.url}\n{workdir.ref}",
        )
    if python.lock:
        path = local_path(python.lock, folder, "python")
        place = path if path.is_dir() else path.parent
        files = _project(place)
        places = tuple(place / name for name in files)
        return PythonSource("project", python.version, files, str(python), places=places)
    if not python.file:
        text = "".join(f"{line}\n" for line in python.requirements)
        return PythonSource("requirements", python.version, {"requirements.in": text}, str(python))
    path = local_path(python.file, folder, "python")
    if path.suffix.lower() == ".toml":
        project = {"pyproject.toml": _text(path)}
        return PythonSource("requirements", python.version, project, str(python), places=(path,))
    read: dict[Path, tuple[str, str]] = {}
    _include(path, read)
    texts, places = dict(read.values()), tuple(read)
    return PythonSource("requirements", python.version, texts, str(python), places=places)


def _project(place: Path) -> dict[str, str]:
    files = {name: _text(place / name) for name in PROJECT}
    check_lock(files, str(place / LOCK))
    chosen = place / CHOSEN
    return {**files, CHOSEN: _text(chosen)} if chosen.is_file() else files


def check_lock(files: Mapping[str, str], place: str, renew: str = "uv lock renews it") -> None:
    """Check that a lock matches its project.

    Parameters
    ----------
    renew
        What to do if it does not.

    Raises
    ------
    PythonFilesError
        Naming what the lock does not know.
    """
    # Imported here since it brings the TOML parser, which few cells need.
    from .lock_check import UnreadableFile, why_stale

    try:
        why = why_stale(files[LOCK], files["pyproject.toml"])
    except UnreadableFile as error:
        raise PythonFilesError(
            f"{place}: {shown(str(error), MOST_WORDS)}",
            hint="uv lock says more",
            code="python.lock",
        ) from None
    if why:
        raise PythonFilesError(
            f"{place} is not of its pyproject.toml any more: {shown(why, MOST_WORDS)}",
            hint=renew,
            code="python.stale-lock",
        )


def _in_clone(lock: str) -> str:
    """Return the folder of a lock within a clone, in POSIX form."""
    path = PurePosixPath(lock.replace("\\", "/"))
    if ".." in path.parts:
        raise PythonFilesError(
            f"python: {lock} is outside of the git repository that workdir names",
            hint="name a lock of the repository, or one of this computer by its whole path",
            code="python.outside",
        )
    return str(path.parent if path.name == LOCK else path)


def _include(path: Path, files: dict[Path, tuple[str, str]]) -> str:
    """Read a requirements file and those it includes; return its name on the machine."""
    place = Path(os.path.realpath(checked_path(path, "python")))
    if place in files:
        return files[place][0]
    if len(files) >= MOST_FILES:
        raise PythonFilesError(
            f"{path}: more than {MOST_FILES} files include each other",
            hint="name the packages in fewer files",
        )
    root = next(iter(files), place).parent
    if not place.is_relative_to(root) and place.suffix not in INCLUDED:
        # These files are sent to a machine, which `-r ../../.aws/credentials` must not abuse.
        raise PythonFilesError(
            f"{path} is outside of {root} and no {' or '.join(INCLUDED)} file;"
            " it is not sent to a machine",
            hint="copy what it says into the file that names it",
            code="python.outside",
        )
    name = "requirements.in" if not files else f"included-{len(files)}.txt"
    files[place] = (name, "")
    lines = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        match = _OPTION.fullmatch(line)
        if match is not None and "://" not in match["path"]:
            included = path.parent / match["path"].rstrip()
            line = f"{match['option']} {_include(included, files)}"
        elif match is None and _LOCAL.match(line):
            raise PythonFilesError(
                f"{path}, line {number}: {line.strip()[:60]!r} is of this computer,"
                " and no machine has it",
                hint="copy it with workdir or file_mounts and install it in setup:"
                " pip install -e ~/sky_workdir",
                code="python.local-path",
            )
        lines.append(line + "\n")
    files[place] = (name, "".join(lines))
    return name


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise PythonFilesError(
                f"{path} is larger than {MOST_BYTES / 1e6:g} MB", hint="is it the file you mean?"
            )
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PythonFilesError(f"{path} is not a text in UTF-8", hint="save it as UTF-8") from None
    except OSError as error:
        hint = (
            "uv lock makes it"
            if path.name == "uv.lock"
            else "python: reads files here, relative to the notebook's folder"
        )
        raise PythonFilesError(
            f"python: {path} cannot be read: {error.strerror or error}",
            hint=hint,
            code="python.missing",
        ) from None
