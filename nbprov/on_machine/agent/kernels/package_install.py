"""Install ipykernel into a virtual environment that sees the machine's own packages.

The environment's interpreter runs this. It has pip, whose parser of requirements is used.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from importlib import metadata
from typing import Any

REQUIREMENTS = "kernel-requirements.txt"
"""What comes with ipykernel: the version and SHA-256 of each package, for every Python."""
PIP = ("-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check")
VERIFIED = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--ignore-installed", "-r")
"""No dependency is looked up, since the list has them all. Nothing is built from source, as that
would fetch tools which no digest of ours covers."""


def parse(requirement: str) -> Any:
    """Return a requirement as pip reads it.

    Raises
    ------
    ValueError
        If pip would not read it.
    """
    from pip._vendor.packaging.requirements import Requirement

    return Requirement(requirement)


def entries(listed: str) -> dict[str, str]:
    """Return the lines of each package that this Python needs."""
    found: dict[str, str] = {}
    name = ""
    for line in listed.splitlines(keepends=True):
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            requirement = parse(line.rstrip("\\\n "))
            is_needed = requirement.marker is None or requirement.marker.evaluate()
            name = requirement.name if is_needed else ""
        if name:
            found[name] = found.get(name, "") + line
    return found


def versions(names: dict[str, str]) -> dict[str, str]:
    """Return the versions of those packages that are there, ours or the machine's."""
    importlib.invalidate_caches()
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def unfit(there: dict[str, str]) -> set[str]:
    """Return those packages that another one of them needs in another version."""
    found: set[str] = set()
    for text in (text for name in there for text in metadata.requires(name) or ()):
        try:
            need = parse(text)
        except ValueError:  # an old package of the machine, whose needs pip would not read either
            continue
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        applies = need.marker is None or need.marker.evaluate({"extra": ""})
        if name in there and applies and not need.specifier.contains(there[name], prereleases=True):
            found.add(name)
    return found


def main(folder: str) -> int:
    """Install what is missing, and return the exit code.

    What the machine has and ipykernel can use stays as it is, for the machine's other packages.
    """
    known = entries((pkgutil.get_data(__package__, REQUIREMENTS) or b"").decode("ascii"))
    path = os.path.join(folder, REQUIREMENTS)
    done: set[str] = set()
    there = versions(known)
    chosen = (set(known) - set(there)) | unfit(there)
    while chosen:
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(known[name] for name in sorted(chosen)))
        code = subprocess.call([sys.executable, *PIP, *VERIFIED, path], stdin=subprocess.DEVNULL)
        if code:
            return code
        done |= chosen
        chosen = unfit(versions(known)) - done
    return 0
