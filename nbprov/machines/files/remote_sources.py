"""List what a bucket or the web holds at a source, before a machine downloads any of it."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urldefrag, urlsplit

from nbprov.model.clock import Seconds
from nbprov.model.sources import SourceKind, shown_source, source_kind
from nbprov.on_machine.transfer_limit import in_words
from nbprov.remote.download.errors import DownloadError
from nbprov.remote.download.items import DownloadItem, DownloadLink
from nbprov.runtime.worker_pool import WorkerPool

from .gcs import list_gcs
from .s3 import list_r2, list_s3
from .source_listing import SourceListing

LISTING_SECONDS: Seconds = 600.0
"""What a listing may take over all: the most objects are 100 pages."""

_listings = WorkerPool("listings")


async def list_in_time(uri: str, seconds: Seconds = LISTING_SECONDS) -> SourceListing:
    """List a source, within a time over all.

    Raises
    ------
    DownloadError
        As `list_source`, and if it takes longer.
    """
    try:
        return await _listings.run(list_source, uri, seconds=seconds)
    except TimeoutError:
        raise DownloadError(
            f"{shown_source(uri)} was not listed within {in_words(seconds)}",
            hint="run the cell again, or name a path below it",
            code="fetch.stalled",
        ) from None


def list_source(uri: str) -> SourceListing:
    """List a source. Blocking.

    Raises
    ------
    DownloadError
        If it does not exist, or may not be read.
    """
    kind = source_kind(uri)
    if kind is SourceKind.S3:
        return list_s3(uri)
    if kind is SourceKind.R2:
        return list_r2(uri)
    if kind is SourceKind.GS:
        return list_gcs(uri)
    return list_web(uri)


class _PlainLink:
    """A link that needs no key."""

    def __init__(self, url: str) -> None:
        self._url = url

    def link(self, item: DownloadItem, tries: int) -> DownloadLink | None:
        return DownloadLink(self._url) if tries == 0 else None


def list_web(uri: str) -> SourceListing:
    """Return a file on the web.

    Its server is not asked from here, since perhaps only the machine can reach it.
    """
    address, fragment = urldefrag(uri)
    name = PurePosixPath(urlsplit(address).path).name or "file"
    item = DownloadItem(
        name, shown_source(address), sha256=fragment.removeprefix("sha256=").lower()
    )
    return SourceListing(shown_source(uri), (item,), False, _PlainLink(address))
