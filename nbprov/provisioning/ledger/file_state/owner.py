"""The ledger's owner id, kept beside it: its machines are found by it where the ledger is lost."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from nbprov.model.files import durable

OWNER_FILE = "owner"
"""In the folder of the ledger. It is written once, and decides only where the ledger is lost."""

KEYS_FOLDER = "keys"

LOST = "lost"
"""The key in `meta` of the instant at which a new ledger was begun in the place of a lost one."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A ledger that was here and is not any more.

    Attributes
    ----------
    owner
        Its id; empty where that is not known.
    what
        What became of the file.
    """

    owner: str
    what: str

    def words(self, path: Path) -> str:
        """What a person should know."""
        found = (
            f"its id {self.owner} is kept, so %nbprov sweep names the machines that it launched"
            if self.owner
            else "its id is not known, so look for its machines in the clouds' consoles"
        )
        return (
            f"the ledger {path} {self.what}, though this home has been used: a new one is begun;"
            f" {found}; or restore it from a backup"
        )


def is_owner(value: object) -> bool:
    """Whether this can be an owner id."""
    return (
        isinstance(value, str)
        and re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}", value) is not None
    )


def loss_of(path: Path) -> Loss | None:
    """What was lost where the file of a ledger is gone or empty; None where it was never made.

    Raises
    ------
    OSError
        If the owner id beside it cannot be read: a ledger with another id would not know its
        machines.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size > 0:
            return _loss_of_journal(path)
    owner = _kept_owner(path.parent)
    if not owner and not _has_keys(path.parent):
        return None
    return Loss(owner, "is empty" if path.exists() else "is gone")


def _loss_of_journal(path: Path) -> Loss | None:
    """A ledger whose tables were in its journal alone has none without it."""
    owner = ""
    with contextlib.suppress(OSError):
        owner = _kept_owner(path.parent)
    with contextlib.suppress(OSError):
        if Path(f"{path}-wal").stat().st_size > 0:
            return None
    if not owner:
        return None
    return Loss(owner, "is without its journal (ledger.sqlite3-wal)")


def keep_owner(folder: Path, owner: str) -> None:
    """Write the owner id beside the ledger, unless one is there. A full disk is no obstacle.

    A file without an id, as a power cut or a full disk may have left, is written anew.
    """
    with contextlib.suppress(OSError):
        if not _kept_owner(folder):
            durable.write(folder / OWNER_FILE, f"{owner}\n".encode("ascii"), folder)


def _kept_owner(folder: Path) -> str:
    try:
        owner = (folder / OWNER_FILE).read_text(encoding="ascii").strip()
    except (FileNotFoundError, ValueError):
        return ""
    return owner if is_owner(owner) else ""


def _has_keys(folder: Path) -> bool:
    try:
        return any((folder / KEYS_FOLDER).iterdir())
    except OSError:
        return False
