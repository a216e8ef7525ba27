"""Runs on a machine, in the environment of the spec's `python`: installs an engine beside it, in an environment that sees all of it.

Standard library only, Python 3.8 or later. Sent as text; what is wanted stands on the command line. The engine's own packages come first there
and everything else is that of `python`: its interpreter, its packages in their versions, and what is installed into it later.
"""
# Python 3.8 has its say, and only annotations may use newer forms.

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata

FOLDER = "engine"
"""Below the environment, with which it goes: another environment has another one."""
LINK, HELD = "nbprov-python.pth", "nbprov-held.txt"

_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+_-]*")


def plain(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def present() -> dict[str, str]:
    """Name and version of all that the environment of `python` holds."""
    every = ((dist.metadata["Name"], dist.version) for dist in metadata.distributions())
    return {
        plain(name): version
        for name, version in every
        if name and version and _VERSION.fullmatch(version)
    }


def lacking(wanted: list[str], held: dict[str, str]) -> list[str]:
    """What is still to be installed: a package that `python` has stays as it has it."""
    return [word for word in wanted if plain(re.split(r"[^\w.-]", word, maxsplit=1)[0]) not in held]


def make(place: str) -> str:
    """An empty environment that sees the one that this runs in; its interpreter."""
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(place)
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    own = next(
        os.path.join(place, name, python, "site-packages")
        for name in ("lib", "lib64")
        for python in sorted(os.listdir(os.path.join(place, name)))
        if python.startswith("python")
    )
    # Each as a folder of packages, not as a mere path: what `pip install -e` leaves there counts as well.
    lines = "".join("import site; site.addsitedir(%s)\n" % ascii(folder) for folder in folders)  # noqa: UP031
    with open(os.path.join(own, LINK), "w", encoding="ascii") as file:
        file.write(lines)
    return os.path.join(place, "bin", "python")


def main(wanted: list[str]) -> int:
    """Install what is wanted; the exit code of pip."""
    place, held = os.path.join(os.path.realpath(sys.prefix), FOLDER), present()
    python = make(place)
    constraints = os.path.join(place, HELD)
    with open(constraints, "w", encoding="ascii") as file:
        file.write("".join(name + "==" + version + "\n" for name, version in sorted(held.items())))
    # The pip is that of `python`, which has one always: it installs where the interpreter is, and counts what it sees as installed.
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--progress-bar",
        "off",
        "--disable-pip-version-check",
        "--constraint",
        constraints,
    ]
    return subprocess.call(
        [*command, *lacking(wanted, held)], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
