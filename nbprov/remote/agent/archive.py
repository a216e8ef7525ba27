"""The agent's archive: the package `on_machine/agent` as one zip file that Python can run."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from nbprov.on_machine.agent import ARCHIVE_PREFIX

PACKAGE = "nbprov_agent"
"""The package's name in the archive, where it must not be taken for nbprov itself."""
MAIN = f"import sys\nfrom {PACKAGE}.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
STAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same sources give the same bytes; the earliest in a zip."""
NAME_DIGITS = 16
SHIPPED = (".py", ".txt")
"""Suffixes of what it holds: the modules, and the list of ipykernel's packages."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive as it is shipped.

    Attributes
    ----------
    hash
        SHA-256 of the content, which a running agent tells of itself.
    """

    content: bytes
    hash: str

    @property
    def name(self) -> str:
        """The file's name on a machine. A running agent's archive is never replaced."""
        return f"{ARCHIVE_PREFIX}{self.hash[:NAME_DIGITS]}.pyz"


@cache
def agent_archive() -> Archive:
    """Make the archive, once a process."""
    sources = {"__main__.py": MAIN.encode(), **_sources(files("nbprov.on_machine.agent"), PACKAGE)}
    content = _packed(sources)
    return Archive(content, hashlib.sha256(content).hexdigest())


def _sources(folder: Traversable, name: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            found |= _sources(entry, path)
        elif entry.name.endswith(SHIPPED):
            # The same bytes from a checkout with the line ends of Windows.
            found[path] = entry.read_bytes().replace(b"\r\n", b"\n")
    return found


def _packed(sources: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compresslevel=9) as archive:
        for name in sorted(sources):
            member = zipfile.ZipInfo(name, STAMP)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # Unix, whatever this computer is
            member.external_attr = 0o100600 << 16
            archive.writestr(member, sources[name])
    return packed.getvalue()
