"""An index of launches that may have machines, with their region and account.

A listing covers one account and the regions in use. If a notebook runs with another profile, or
with fewer regions in `NBPROV_AWS_REGIONS`, a listing lacks machines that still run, and a machine
that a listing lacks counts as ended. So each create is recorded here first, in a file of its own,
which needs no lock and cannot be half written. The record stays until a listing of its account
shows that no machine of it is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.files import durable
from nbprov.model.paths import home

LATE: Seconds = 600.0
"""How long after a create its machines may be missing from a listing. EC2's advice on eventual
consistency speaks of minutes."""
LOOK = "look at its disk and its mode"
_TOKEN = re.compile(r"[0-9A-Za-z_-]{1,64}$")


@dataclass(frozen=True, slots=True)
class IndexedLaunch:
    """One launch.

    Attributes
    ----------
    account
        The number of the account; empty if it was not known when the create was sent.
    count
        How many machines its first create asked for.
    ids
        The ids of its machines; none before EC2 returned them.
    at
        When its create was last sent.
    """

    token: str
    owner: str
    region: str
    account: str = ""
    instance_type: str = ""
    name: str = ""
    spot: bool = False
    count: int = 1
    ids: tuple[str, ...] = ()
    at: Instant = 0.0

    @property
    def is_late(self) -> bool:
        """Whether machines that are not listed by now will never be."""
        return not 0 <= time.time() - self.at < LATE

    def path(self) -> Path:
        """Return its file."""
        return folder() / f"{self.token}.json"


def folder() -> Path:
    """Return the folder of the records."""
    return home() / "clouds" / "aws"


def write(note: IndexedLaunch) -> None:
    """Write a record, replacing the earlier one of the same launch.

    Raises
    ------
    CloudError
        `bad_request` if the disk cannot be written: no machine may be created without a record of
        it.
    """
    if not _TOKEN.match(note.token):
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                ("the token of a launch must be usable as a file name"),
                "bad-token",
            )
        )
    try:
        durable.write(note.path(), json.dumps(asdict(note)).encode())
    except OSError as error:
        words = f"{folder()} cannot be written to: {error.strerror}"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "no-disk")) from None


def read(token: str) -> IndexedLaunch | None:
    """Return the record of a launch, or None.

    Raises
    ------
    CloudError
        `transient` if it cannot be read: it says where the launch's machines are.
    """
    return _of_file(folder() / f"{token}.json") if _TOKEN.match(token) else None


def of_owner(owner: str) -> list[IndexedLaunch]:
    """Return all records of an owner.

    Raises
    ------
    CloudError
        `transient` if a single one cannot be read: machines may be where it says, and what a
        listing lacks counts as gone.
    """
    notes = [_of_file(file) for file in _files()]
    return [note for note in notes if note is not None and note.owner == owner]


def of_ids(ids: Iterable[str]) -> dict[str, IndexedLaunch]:
    """Return the records of these machines, by id.

    One that cannot be read is left out: other machines have to be ended all the same.
    """
    wanted, found = set(ids), dict[str, IndexedLaunch]()
    with contextlib.suppress(CloudError):
        for file in _files():
            with contextlib.suppress(CloudError):
                note = _of_file(file)
                found |= {one: note for one in note.ids if one in wanted} if note else {}
    return found


def drop(note: IndexedLaunch) -> None:
    """Remove the record of a launch that cannot have machines."""
    with contextlib.suppress(OSError):
        note.path().unlink(missing_ok=True)


def seen(note: IndexedLaunch, alive: Iterable[str], account: str) -> None:
    """Update a record with the machines that a listing of its account shows as alive.

    A disk that cannot be written leaves the record as it was.
    """
    there = tuple(sorted(alive))
    with contextlib.suppress(CloudError):
        if not there and note.is_late:
            drop(note)
        elif (there, account) != (tuple(sorted(note.ids)), note.account):
            write(replace(note, ids=there, account=account))


def _files() -> list[Path]:
    try:
        return [folder() / name for name in sorted(os.listdir(folder())) if name.endswith(".json")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder(), error.strerror or str(error), LOOK) from None


def _of_file(file: Path) -> IndexedLaunch | None:
    """Read a record; None if the file is gone or foreign."""
    try:
        found = json.loads(file.read_bytes())
        if found["token"] != file.stem:
            return None
        return IndexedLaunch(
            **{**found, "ids": tuple(map(str, found["ids"])), "at": float(found["at"])}
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error), LOOK) from None
    except (ValueError, TypeError, KeyError):
        hint = (
            f"look in EC2's console for machines with the tag nbprov-token={file.stem}, in each"
            " account and region that you use; end them, and then delete that file"
        )
        raise _unreadable(file, "it is damaged", hint) from None


def _unreadable(path: Path, why: str, hint: str) -> CloudError:
    words = (
        f"{path}, which says where machines are, cannot be read ({why}), so nothing is concluded"
        f" from what EC2 lists; {hint}"
    )
    return CloudError(Failure(Cause.TRANSIENT, words, "unreadable-record"))
