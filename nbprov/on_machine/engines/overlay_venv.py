"""Installs an engine beside the environment of the spec's `python`, in one that sees all of it.

It runs in the environment of `python`; what is wanted stands on the command line. The engine's own
packages come first in the new environment. Everything else is that of `python`: its interpreter,
its packages in their versions, and what is installed into it later.
"""

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
"""Lies below the environment of `python`, and so is removed with it."""
LINK, HELD = "nbprov-python.pth", "nbprov-held.txt"

_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+_-]*")


def plain(name: str) -> str:
    """Return a package name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def present() -> dict[str, str]:
    """Return the versions of all packages in the environment of `python`."""
    every = ((dist.metadata["Name"], dist.version) for dist in metadata.distributions())
    return {
        plain(name): version
        for name, version in every
        if name and version and _VERSION.fullmatch(version)
    }


def lacking(wanted: list[str], held: dict[str, str]) -> list[str]:
    """Return the packages that `python` does not have; those that it has stay as they are."""
    return [word for word in wanted if plain(re.split(r"[^\w.-]", word, maxsplit=1)[0]) not in held]


def make(place: str) -> str:
    """Make an empty environment that sees the current one, and return its interpreter."""
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(place)
    folders = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    own = next(
        os.path.join(place, name, python, "site-packages")
        for name in ("lib", "lib64")
        for python in sorted(os.listdir(os.path.join(place, name)))
        if python.startswith("python")
    )
    # `addsitedir` and no mere path, so that what `pip install -e` left there counts as well.
    lines = "".join(f"import site; site.addsitedir({folder!a})\n" for folder in folders)
    with open(os.path.join(own, LINK), "w", encoding="ascii") as file:
        file.write(lines)
    return os.path.join(place, "bin", "python")


def main(wanted: list[str]) -> int:
    """Install what is wanted, and return the exit code of pip."""
    place, held = os.path.join(os.path.realpath(sys.prefix), FOLDER), present()
    python = make(place)
    constraints = os.path.join(place, HELD)
    with open(constraints, "w", encoding="ascii") as file:
        file.write("".join(name + "==" + version + "\n" for name, version in sorted(held.items())))
    # The pip of `python` installs where the new interpreter is, and counts what that one sees.
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
