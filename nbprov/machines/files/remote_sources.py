"""What is fetched from a bucket or the web: looked at from here, so that it is known before a machine fetches any of it."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urldefrag, urlsplit

from nbprov.model.sources import SourceKind, shown_source, source_kind
from nbprov.remote.download.download import Item, Link

from .gcs import look_at_gs
from .s3 import look_at_r2, look_at_s3
from .source_listing import Found


def look(uri: str) -> Found:
    """Look at a source. Blocking.

    Raises
    ------
    FetchError
        If there is none, or it may not be read.
    """
    kind = source_kind(uri)
    if kind is SourceKind.S3:
        return look_at_s3(uri)
    if kind is SourceKind.R2:
        return look_at_r2(uri)
    if kind is SourceKind.GS:
        return look_at_gs(uri)
    return look_at_web(uri)


class _SameLink:
    """A link that anybody may use."""

    def __init__(self, url: str) -> None:
        self._url = url

    def link(self, item: Item, tries: int) -> Link | None:
        return Link(self._url) if tries == 0 else None


def look_at_web(uri: str) -> Found:
    """A file on the web. Nothing is asked of its server from here, which may be one that only the machine can reach."""
    address, fragment = urldefrag(uri)
    name = PurePosixPath(urlsplit(address).path).name or "file"
    item = Item(name, shown_source(address), sha256=fragment.removeprefix("sha256=").lower())
    return Found(shown_source(uri), (item,), False, _SameLink(address))
