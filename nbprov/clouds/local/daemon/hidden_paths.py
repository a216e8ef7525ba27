"""What of this computer a machine in bubblewrap sees: no home, no services, no secrets.

A machine shares the computer's loopback, on which the user's Jupyter kernels listen too. Who may
talk to them is told by files in the user's home, so a machine must not read those; with them, it
could run code here. Shown are the programs of the system, and the Python that machines run on.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nbprov.clouds.local.secret_places import FILE_VARIABLES, FOLDER_VARIABLES
from nbprov.model.paths import NoHome, home_path

from . import platform_calls

HOMES = (Path("/home"), Path("/root"))
"""The homes of all users: root's machines could read them all."""
SERVICES = (Path("/run"), Path("/var/run"))
"""Where the computer's init listens, and services that may power it off or run a program."""
SECRET_FILES = ("/etc/gshadow", "/etc/krb5.keytab")
"""What root's machines could read, since outside their box they are root."""
PREFIX_PARTS = ("bin", "lib", "lib64", "include", "libexec", "pyvenv.cfg")
"""What is shown of an installation of Python that is itself a home."""
SYSTEM_LINKS = (Path("/run/current-system"), Path("/run/opengl-driver"))
"""Where NixOS has the system's programs."""


class HiddenPaths(NamedTuple):
    """Folders and files that a machine must not see, and what it sees below them."""

    hidden: tuple[Path, ...]
    shown: tuple[Path, ...]


class ViewStep(NamedTuple):
    """One step of making a machine's view: hide a path, or show it read-only again."""

    path: Path
    is_shown: bool


def hidden_paths(private: Iterable[Path], environ: Mapping[str, str] | None = None) -> HiddenPaths:
    """Return what must not be visible in a machine, and which parts of it must be.

    Parameters
    ----------
    private
        Folders of nbprov that no machine may see.
    """
    env = os.environ if environ is None else environ
    homes = set(_real(_homes(env)))
    secret = [*SERVICES, *private, *_nbprov(), *_named(FOLDER_VARIABLES, env)]
    secret += [*_named(FILE_VARIABLES, env), *map(Path, SECRET_FILES)]
    secret += Path("/etc/ssh").glob("ssh_host_*_key")
    hidden = homes | {path for path in _real(secret) if _can_be_hidden(path)}
    python = {part for path in _python() for part in _parts(path, homes)}
    resolver = Path("/etc/resolv.conf").resolve()
    needed = {*python, *SYSTEM_LINKS, *([resolver] if resolver.is_file() else [])}
    return HiddenPaths(tuple(sorted(hidden)), tuple(sorted(needed)))


def view_steps(hidden: Iterable[Path], shown: Iterable[Path]) -> Iterator[ViewStep]:
    """Yield what is to be mounted over the computer's files, outermost first.

    The innermost path that a file lies in decides whether it is seen. What is both is hidden.
    """
    wanted = dict.fromkeys(shown, True) | dict.fromkeys(hidden, False)
    seen: dict[Path, bool] = {}
    for path in sorted(wanted, key=lambda one: (len(one.parts), one)):
        above = next((seen[one] for one in path.parents if one in seen), True)
        seen[path] = wanted[path]
        if wanted[path] != above:
            yield ViewStep(path, wanted[path])


def host_packages() -> list[str]:
    """Return the folders of packages that machines find beside their own."""
    places = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        places.append(site.getusersitepackages())
    return [p for p in places if os.path.isdir(p)]


def base_python() -> Path:
    """Return the interpreter that environments of machines are made from."""
    return Path(str(getattr(sys, "_base_executable", "") or sys.executable))


def _homes(env: Mapping[str, str]) -> list[Path]:
    """Return the homes; of one that is the root folder, its hidden folders."""
    found = [*HOMES]
    if sys.platform != "win32":
        import pwd

        with suppress(KeyError):
            found.append(Path(pwd.getpwuid(platform_calls.user_id()).pw_dir))
    if env.get("HOME"):
        found.append(Path(env["HOME"]))
    if any(home.resolve() == Path("/") for home in found):
        with suppress(OSError):
            found += [path for path in Path("/").iterdir() if path.name.startswith(".")]
    return [home for home in found if _can_be_hidden(home.resolve())]


def _can_be_hidden(path: Path) -> bool:
    """Whether a computer works without this folder: the system's own programs are needed."""
    system = {Path(p).resolve() for p in ("/", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")}
    return path not in {*system, Path("/usr/bin"), Path("/usr/sbin"), Path("/usr/lib")}


def _named(variables: Iterable[str], env: Mapping[str, str]) -> list[Path]:
    given = [part for name in variables for part in env.get(name, "").split(os.pathsep)]
    return [Path(part).expanduser() for part in given if part.startswith(("/", "~/"))]


def _nbprov() -> list[Path]:
    try:
        return [home_path()]
    except NoHome:
        return []  # so nothing of nbprov's is in it


def _real(paths: Iterable[Path]) -> list[Path]:
    return [path.resolve() for path in paths if os.path.exists(path)]


def _python() -> set[Path]:
    """Return where the Python of machines lies, under every name that it goes by."""
    base = base_python()
    named = [
        *(Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent, base.parent),
        *(Path(__file__).parent, *map(Path, host_packages())),
    ]
    return {*named, *_real(named), base, *_real([base])}


def _parts(path: Path, homes: set[Path]) -> list[Path]:
    """Return what is shown of a folder of Python's, which may have a home or secrets in it."""
    if any(home == path or home.is_relative_to(path) for home in homes if path != Path("/")):
        return [path / part for part in PREFIX_PARTS]
    return [path] if path != Path("/") else []
