"""What is fetched from a bucket or the web: looked at from here, so that it is known before a machine fetches any of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import urldefrag, urlsplit

from nbprov.model.sources import SourceKind, shown_source, source_kind
from nbprov.on_machine.sync_protocol import why_not_name
from nbprov.remote.download.download import Item, Link, Signer
from nbprov.remote.download.errors import FetchError
from nbprov.remote.sync.errors import shown

MOST_OBJECTS = 100_000
"""Of one source: more are minutes of listing and hours of small files, and are better packed into archives."""


@dataclass(frozen=True, slots=True)
class Found:
    """What lies at a source.

    Attributes
    ----------
    source
        As it may be shown.
    is_tree
        Whether it is a folder; else it is one file, whose item has the name it has there.
    skipped
        `(name, why)` of objects that are not fetched.
    cloud, region
        Whose bucket it is and where, as the clouds here are called; empty where it is not known.
    """

    source: str
    items: tuple[Item, ...]
    is_tree: bool
    signer: Signer
    skipped: tuple[tuple[str, str], ...] = ()
    cloud: str = ""
    region: str = ""

    @property
    def bytes(self) -> int:
        """Of all files whose size is known."""
        return sum(max(0, item.size) for item in self.items)


def look(uri: str) -> Found:
    """Look at a source. Blocking.

    Raises
    ------
    FetchError
        If there is none, or it may not be read.
    """
    kind = source_kind(uri)
    if kind is SourceKind.S3:
        from .s3 import look_at_s3

        return look_at_s3(uri)
    if kind is SourceKind.R2:
        from .s3 import look_at_r2

        return look_at_r2(uri)
    if kind is SourceKind.GS:
        from .gcs import look_at_gs

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


class Objects(Protocol):
    """The objects of a bucket, as one who may see them."""

    def one(self, key: str) -> Item | None:
        """The object of exactly this key."""

    def items(self, prefix: str) -> Iterator[Item]:
        """All objects whose key begins so, named by their keys."""


def listed(
    objects: Objects, path: str, uri: str
) -> tuple[tuple[Item, ...], tuple[tuple[str, str], ...], bool]:
    """What a path in a bucket means: the object of this key, else all below it. What becomes files, what does not and why, and whether it is a folder.

    Raises
    ------
    FetchError
        There is nothing, or too much, or its name can be none of a file; and what the bucket raises.
    """
    if path and not path.endswith("/"):
        one = objects.one(path)
        if one is not None:
            items = chosen([one], path.rpartition("/")[0] + "/" if "/" in path else "")[0]
            if not items:
                raise FetchError(
                    f"{shown(uri)}: its name can be none of a file",
                    hint="copy it to another key first",
                    code="fetch.missing",
                )
            return items, (), False
    prefix = path if not path or path.endswith("/") else path + "/"
    rows: list[Item] = []
    for item in objects.items(prefix):
        rows.append(item)
        if len(rows) > MOST_OBJECTS:
            raise too_many(uri)
    items, skipped = chosen(rows, prefix)
    if not items:
        raise nothing(uri)
    return items, skipped, True


def chosen(
    rows: Iterable[Item], prefix: str
) -> tuple[tuple[Item, ...], tuple[tuple[str, str], ...]]:
    """The objects that become files below a target, and those that do not, with the reason.

    Parameters
    ----------
    rows
        Objects whose `name` is still their key.
    prefix
        What is taken off the keys.

    Examples
    --------
    >>> chosen([Item("x/a", "x/a"), Item("x/../../etc", "x/../../etc"), Item("x/", "x/")], "x/")
    ((Item(name='a', key='x/a', size=-1, etag='', md5='', sha256=''),), (('x/../../etc', 'a name that leads out of the folder'),))
    """
    taken: dict[str, Item] = {}
    skipped: list[tuple[str, str]] = []
    folders: set[str] = set()
    for row in rows:
        name = row.key[len(prefix) :]
        if not name or name.endswith("/"):
            if row.size > 0:
                skipped.append((row.key, "it has the name of a folder"))
            continue  # an empty object that stands for a folder
        why = why_not_name(name)
        if not why and "\ufffd" in name:
            why = "a name that is no text"
        if why:
            skipped.append((row.key, why))
            continue
        taken[name] = replace(row, name=name)
        folders.update(str(parent) for parent in PurePosixPath(name).parents)
    skipped += [
        (taken.pop(name).key, "others lie below it as in a folder")
        for name in sorted(folders & taken.keys())
    ]
    return tuple(taken.values()), tuple(skipped)


def nothing(source: str) -> FetchError:
    """There is nothing at a source."""
    return FetchError(
        f"{shown(source)}: there is no object of this name, and none below it",
        hint="see that the path is right, upper and lower case too",
        code="fetch.missing",
    )


def too_many(source: str) -> FetchError:
    """There is more at a source than is fetched one by one."""
    words = f"{shown(source)} holds more than {MOST_OBJECTS:,} objects"
    return FetchError(
        words, hint="name a path below it, or pack them into archives", code="fetch.many"
    )


def denied(source: str, why: str, hint: str) -> FetchError:
    """A source may not be read."""
    return FetchError(
        f"{shown(source)} may not be read: {shown(why, 200)}", hint=hint, code="fetch.denied"
    )


__all__ = ["MOST_OBJECTS", "Found", "chosen", "denied", "listed", "look", "look_at_web"]
