"""The files that a spec's `python` names, read here before anything is launched: later they may be other ones."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nbprov.model.errors import NbprovError
from nbprov.model.python_env import PythonEnvironment
from nbprov.model.sources import Repository
from nbprov.remote.sync.errors import MOST_WORDS, shown

MOST_BYTES = 16_000_000
"""Of one file: the largest locks have a few MB."""
INCLUDED = (".txt", ".in")
"""How files end that others may include from elsewhere, links followed."""
MOST_FILES = 50
"""That include each other."""

LOCK, CHOSEN = "uv.lock", ".python-version"
PROJECT = (LOCK, "pyproject.toml")
"""The files of a lock that must be there."""

_OPTION = re.compile(
    r"\s*(?P<option>-r|--requirement|-c|--constraint)(?:\s+|=)(?P<path>[^#]+?)\s*(?:#.*)?"
)
_LOCAL = re.compile(
    r"\s*(?:-e\b|--editable\b|\.{1,2}(?:/|\\|\s|$|\[)|/|~|file:|(?:-f|--find-links|-i|--(?:extra-)?index-url)[\s=]+[./~])|[^#]*@\s*file:"
)


class PythonFiles(NbprovError):
    """A file that `python` names is not there, or cannot be used on a machine."""

    code = "python.files"


@dataclass(frozen=True, slots=True)
class PythonSource:
    """What an environment is made from.

    Attributes
    ----------
    kind
        `requirements`, or `project` for a lock.
    files
        Their texts by the name they get on the machine. They may hold a log-in of an index, so they are shown nowhere.
    label
        What was asked for, in words.
    there
        Where the lock lies in the clone that `workdir` is; empty where the files are those of this computer.
    clone
        Of which repository, at which ref.
    """

    kind: str
    version: str = ""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    label: str = ""
    there: str = ""
    clone: str = ""

    @property
    def wish(self) -> str:
        """A digest of what a cell asks for: that of the files, or, where these are in a clone, of their place."""
        if not self.there:
            return self.key
        return hashlib.sha256(
            json.dumps([self.version, self.there, self.clone]).encode("utf-8", "surrogatepass")
        ).hexdigest()

    @property
    def noted(self) -> str:
        """What the ledger keeps of it: the wish first, and what it came to, where that is something else."""
        return f"{self.wish}:{self.key}" if self.there else self.key

    def is_wish_of(self, noted: str) -> bool:
        """Whether what the ledger keeps was asked for in these words."""
        return noted.partition(":")[0] == self.wish

    def is_source_of(self, noted: str) -> bool:
        """Whether what the ledger keeps is made from these very files."""
        return noted.rpartition(":")[2] == self.key

    @property
    def key(self) -> str:
        """A digest of all of it: equal sources make equal environments."""
        whole = json.dumps([self.kind, self.version, sorted(self.files.items())])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def request(self, *, lock: str = "", python: str = "") -> dict[str, object]:
        """What the machine is asked for; with the exact list and version of another node where it shall have the same."""
        return {
            "key": self.key,
            "kind": self.kind,
            "version": self.version,
            "files": dict(self.files),
            "lock": lock,
            "python": python,
        }


def read_source(
    python: PythonEnvironment | None, folder: Path, workdir: str | Repository = ""
) -> PythonSource | None:
    """Read what `python` names, relative to a folder; None where the spec asks for no environment.

    A lock beside a `workdir` that is a git repository is one of that repository, and is read on the machine (`python_there.py`).

    Raises
    ------
    PythonFiles
        If a file is not there, or names something of this computer that no machine has, or if a lock is not of its project any more.
    """
    if python is None:
        return None
    if (
        python.lock
        and isinstance(workdir, Repository)
        and not Path(python.lock).expanduser().is_absolute()
    ):
        return PythonSource(
            "project",
            python.version,
            label=str(python),
            there=_in_clone(python.lock),
            clone=f"{workdir.url}\n{workdir.ref}",
        )
    if python.lock:
        return PythonSource(
            "project",
            python.version,
            _project(folder / Path(python.lock).expanduser()),
            str(python),
        )
    if not python.file:
        text = "".join(f"{line}\n" for line in python.requirements)
        return PythonSource("requirements", python.version, {"requirements.in": text}, str(python))
    path = folder / Path(python.file).expanduser()
    if path.suffix.lower() == ".toml":
        return PythonSource(
            "requirements", python.version, {"pyproject.toml": _text(path)}, str(python)
        )
    files: dict[Path, tuple[str, str]] = {}
    _include(path, files)
    return PythonSource("requirements", python.version, dict(files.values()), str(python))


def _project(path: Path) -> dict[str, str]:
    place = path if path.is_dir() else path.parent
    files = {name: _text(place / name) for name in PROJECT}
    check_lock(files, str(place / LOCK))
    chosen = place / CHOSEN
    return {**files, CHOSEN: _text(chosen)} if chosen.is_file() else files


def check_lock(files: Mapping[str, str], place: str, renew: str = "uv lock renews it") -> None:
    """See that a lock is of its project.

    Parameters
    ----------
    renew
        What to do where it is not.

    Raises
    ------
    PythonFiles
        Naming what the lock does not know.
    """
    # With it comes the reader of TOML: every session has this module, and few cells name a lock.
    from .lock_check import Unreadable, why_stale

    try:
        why = why_stale(files[LOCK], files["pyproject.toml"])
    except Unreadable as error:
        raise PythonFiles(
            f"{place}: {shown(str(error), MOST_WORDS)}",
            hint="uv lock says more",
            code="python.lock",
        ) from None
    if why:
        raise PythonFiles(
            f"{place} is not of its pyproject.toml any more: {shown(why, MOST_WORDS)}",
            hint=renew,
            code="python.stale-lock",
        )


def _in_clone(lock: str) -> str:
    """The folder of a lock below a clone, in POSIX form."""
    path = PurePosixPath(lock.replace("\\", "/"))
    if ".." in path.parts:
        raise PythonFiles(
            f"python: {lock} is outside of the git repository that workdir names",
            hint="name a lock of the repository, or one of this computer by its whole path",
            code="python.outside",
        )
    return str(path.parent if path.name == LOCK else path)


def _include(path: Path, files: dict[Path, tuple[str, str]]) -> str:
    """Read a requirements file and those it names; its name on the machine."""
    place = path.resolve()
    if place in files:
        return files[place][0]
    if len(files) >= MOST_FILES:
        raise PythonFiles(
            f"{path}: more than {MOST_FILES} files include each other",
            hint="name the packages in fewer files",
        )
    root = next(iter(files), place).parent
    if not place.is_relative_to(root) and place.suffix not in INCLUDED:
        # What is read here goes to a machine: `-r ../../.aws/credentials` in somebody's repository must not take it there.
        raise PythonFiles(
            f"{path} is outside of {root} and no {' or '.join(INCLUDED)} file; it is not sent to a machine",
            hint="copy what it says into the file that names it",
            code="python.outside",
        )
    name = "requirements.in" if not files else f"included-{len(files)}.txt"
    files[place] = (name, "")
    lines = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        match = _OPTION.fullmatch(line)
        if match is not None and "://" not in match["path"]:
            line = f"{match['option']} {_include(path.parent / match['path'], files)}"
        elif match is None and _LOCAL.match(line):
            raise PythonFiles(
                f"{path}, line {number}: {line.strip()[:60]!r} is of this computer, and no machine has it",
                hint="copy it with workdir or file_mounts and install it in setup: pip install -e ~/sky_workdir",
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
            raise PythonFiles(
                f"{path} is larger than {MOST_BYTES / 1e6:g} MB", hint="is it the file you mean?"
            )
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PythonFiles(f"{path} is not a text in UTF-8", hint="save it as UTF-8") from None
    except OSError as error:
        hint = (
            "uv lock makes it"
            if path.name == "uv.lock"
            else "python: reads files here, relative to the notebook's folder"
        )
        raise PythonFiles(
            f"python: {path} cannot be read: {error.strerror or error}",
            hint=hint,
            code="python.missing",
        ) from None
