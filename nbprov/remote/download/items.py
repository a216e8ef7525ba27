"""Values of a download: a file, a link to it, whoever makes links, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DownloadItem:
    """One file to download.

    Attributes
    ----------
    name
        Where it goes, below the target.
    key
        What its source calls it.
    size
        Bytes; -1 where only its server knows.
    etag
        The version that was listed; empty where only its server knows.
    md5, sha256
        Hexadecimal digests of its content; empty where they are not known.
    """

    name: str
    key: str
    size: int = -1
    etag: str = ""
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class DownloadLink:
    """How to download one file just now. It may hold a key, so its repr shows nothing of it."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Signer(Protocol):
    """Makes links; blocking, and called in a thread."""

    def link(self, item: DownloadItem, tries: int) -> DownloadLink | None:
        """Return a link for a file, or None where there is no other to offer.

        Parameters
        ----------
        tries
            How many links to this file the server has refused already.
        """


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """What a node has downloaded: files, their bytes, and files that were there before."""

    files: int = 0
    bytes: int = 0
    same: int = 0
