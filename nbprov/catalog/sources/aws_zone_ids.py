"""AWS zone ids, and the names that one account has for them.

The catalogue's AWS zones are ids (`use1-az1`), which are the same for everybody; the zone that an
account calls `us-east-1a` differs between accounts. The mapping is stored when the account's keys
are at hand, as `catalogs/aws/az_mappings-<8 hex digits of the MD5 of the account>.csv` in nbprov's
home.
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
from nbprov.model.paths import make_folder

from .price_files import user_folder

PREFIX = "az_mappings-"
HEADER = ("AvailabilityZone", "AvailabilityZoneName", "Region")
_ID_HEADERS = ("AvailabilityZone", "AvailabilityZone id")
_NAME = re.compile(r"^[a-z]{2}(-[a-z]+)+-\d(-[a-z]+-\d)?[a-z]$")


def looks_like_name(zone: str) -> bool:
    """Tell whether this is an account's name of an AWS zone and not an id.

    Examples
    --------
    >>> looks_like_name("us-east-1a"), looks_like_name("us-west-2-lax-1a")
    (True, True)
    >>> looks_like_name("use1-az1"), looks_like_name("us-central1-a")
    (False, False)
    """
    return _NAME.match(zone.strip().lower()) is not None


def path_of(account: str) -> Path:
    """Return the file of an account's mapping.

    Its name holds a hash, so that it does not disclose the account.
    """
    return (
        user_folder()
        / "aws"
        / f"{PREFIX}{hashlib.md5(account.encode(), usedforsecurity=False).hexdigest()[:8]}.csv"
    )


def learn(account: str, pairs: Iterable[tuple[str, str, str]]) -> Path:
    """Store an account's zone names in one step, replacing earlier ones.

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
        make_folder(place.parent)
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
    """Return zone names by zone id, of this account or of the last one that was stored.

    The answer is empty if no names are known.
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
    """Return the zone ids that an account calls by this name: one, or none if no mapping has it."""
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
