"""AWS zone ids and the names one account has for them.

The catalogue's AWS zones are ids (`use1-az1`), the same for everybody; what an account calls
`us-east-1a` differs between accounts. A mapping is learnt when the account's keys are at hand and
kept as `catalogs/aws/az_mappings-<8 hex digits of the MD5 of the account>.csv` in nbprov's home.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from nbprov.catalog.errors import CatalogError

from .locations import user_folder

PREFIX = "az_mappings-"
HEADER = ("AvailabilityZone", "AvailabilityZoneName", "Region")
_ID_HEADERS = ("AvailabilityZone", "AvailabilityZone id")
_NAME = re.compile(r"^[a-z]{2}(-[a-z]+)+-\d(-[a-z]+-\d)?[a-z]$")


def looks_like_name(zone: str) -> bool:
    """Whether this is an account's name of an AWS zone and not an id.

    Examples
    --------
    >>> looks_like_name("us-east-1a"), looks_like_name("us-west-2-lax-1a"), looks_like_name("use1-az1"), looks_like_name("us-central1-a")
    (True, True, False, False)
    """
    return _NAME.match(zone.strip().lower()) is not None


def path_of(account: str) -> Path:
    """Where the mapping of an account is kept.

    The account's identity is hashed: the file's name gives none away.
    """
    return (
        user_folder()
        / "aws"
        / f"{PREFIX}{hashlib.md5(account.encode(), usedforsecurity=False).hexdigest()[:8]}.csv"
    )


def learn(account: str, pairs: Iterable[tuple[str, str, str]]) -> Path:
    """Keep an account's names, in one step; what was kept before goes.

    Parameters
    ----------
    pairs
        (zone id, zone name, region), as EC2's DescribeAvailabilityZones gives them.

    Raises
    ------
    CatalogError
        If the home cannot be written to.
    """
    place = path_of(account)
    temporary = ""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(
            dir=place.parent, prefix=".az_mappings-", suffix=".tmp"
        )
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows(sorted(set(pairs)))
        Path(temporary).replace(place)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()
        raise CatalogError(
            f"{place} cannot be written: {error}",
            hint="look at the folder's rights",
            code="catalog.unwritable",
        ) from error
    return place


def names(account: str = "") -> Mapping[str, str]:
    """Zone names by zone id, of this account; of the one that was learnt last where none is given.

    Empty where nothing is known.
    """
    try:
        place = path_of(account) if account else _latest()
        if place is None:
            return MappingProxyType({})
        status = place.stat()
        return _of_file(place, status.st_mtime_ns, status.st_size)
    except (OSError, UnicodeDecodeError, csv.Error):
        return MappingProxyType({})


def ids_of(name: str, account: str = "") -> tuple[str, ...]:
    """The zone ids that an account calls by this name: one, or none where no mapping knows it."""
    low = name.strip().lower()
    return tuple(zone for zone, known in names(account).items() if known.lower() == low)


def _latest() -> Path | None:
    return max(
        (user_folder() / "aws").glob(f"{PREFIX}*.csv"),
        key=lambda path: path.stat().st_mtime_ns,
        default=None,
    )


@lru_cache(maxsize=4)
def _of_file(place: Path, _changed: int, _size: int) -> Mapping[str, str]:
    with place.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.DictReader(file)
        found = {}
        for line in lines:
            zone = next((line[column] for column in _ID_HEADERS if line.get(column)), "")
            if zone and line.get("AvailabilityZoneName"):
                found[zone.strip()] = line["AvailabilityZoneName"].strip()
    return MappingProxyType(found)
