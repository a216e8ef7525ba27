"""The files that a spec's `python` names, read here before anything is launched: later they may be other ones."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbprov.model.errors import NbprovError
from nbprov.model.python import PythonEnvironment

MOST_BYTES = 16_000_000
"""Of one file: the largest locks have a few MB."""
INCLUDED = (".txt", ".in")
"""How files end that others may include from elsewhere, links followed."""
MOST_FILES = 50
"""That include each other."""

_OPTION = re.compile(r"\s*(?P<option>-r|--requirement|-c|--constraint)(?:\s+|=)(?P<path>[^#]+?)\s*(?:#.*)?")
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
    """

    kind: str
    version: str = ""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    label: str = ""

    @property
    def key(self) -> str:
        """A digest of all of it: equal sources make equal environments."""
        whole = json.dumps([self.kind, self.version, sorted(self.files.items())])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def request(self, *, lock: str = "", python: str = "") -> dict[str, object]:
        """What the machine is asked for; with the exact list and version of another node where it shall have the same."""
        return {"key": self.key, "kind": self.kind, "version": self.version, "files": dict(self.files), "lock": lock, "python": python}


def read_source(python: PythonEnvironment | None, folder: Path) -> PythonSource | None:
    """Read what `python` names, relative to a folder; None where the spec asks for no environment.

    Raises
    ------
    PythonFiles
        If a file is not there, or names something of this computer that no machine has.
    """
    if python is None:
        return None
    if python.lock:
        return PythonSource("project", python.version, _project(folder / Path(python.lock).expanduser()), str(python))
    if not python.file:
        text = "".join(f"{line}\n" for line in python.requirements)
        return PythonSource("requirements", python.version, {"requirements.in": text}, str(python))
    path = folder / Path(python.file).expanduser()
    if path.suffix.lower() == ".toml":
        return PythonSource("requirements", python.version, {"pyproject.toml": _text(path)}, str(python))
    files: dict[Path, tuple[str, str]] = {}
    _include(path, files)
    return PythonSource("requirements", python.version, dict(files.values()), str(python))


def _project(path: Path) -> dict[str, str]:
    place = path if path.is_dir() else path.parent
    files = {name: _text(place / name) for name in ("uv.lock", "pyproject.toml")}
    chosen = place / ".python-version"
    return {**files, chosen.name: _text(chosen)} if chosen.is_file() else files


def _include(path: Path, files: dict[Path, tuple[str, str]]) -> str:
    """Read a requirements file and those it names; its name on the machine."""
    place = path.resolve()
    if place in files:
        return files[place][0]
    if len(files) >= MOST_FILES:
        raise PythonFiles(f"{path}: more than {MOST_FILES} files include each other", hint="name the packages in fewer files")
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
            raise PythonFiles(f"{path} is larger than {MOST_BYTES / 1e6:g} MB", hint="is it the file you mean?")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PythonFiles(f"{path} is not a text in UTF-8", hint="save it as UTF-8") from None
    except OSError as error:
        hint = "uv lock makes it" if path.name == "uv.lock" else "python: reads files here, relative to the notebook's folder"
        raise PythonFiles(f"python: {path} cannot be read: {error.strerror or error}", hint=hint, code="python.missing") from None
