"""The files found at a remote source, and how the objects of a bucket become files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Protocol

from nbprov.clouds.web.proxies import unusable_proxy
from nbprov.on_machine.sync_protocol import why_not_name
from nbprov.remote.download.errors import DownloadError
from nbprov.remote.download.items import DownloadItem, Signer
from nbprov.remote.sync.errors import shown

MOST_OBJECTS = 100_000
"""Limit for one source.

More objects take minutes to list and hours to download; they are better packed into archives.
"""


@dataclass(frozen=True, slots=True)
class SourceListing:
    """The files at a source.

    Attributes
    ----------
    source
        The source in a form that may be shown.
    is_tree
        Whether it is a folder. If not, it is one file, whose item has its name at the source.
    skipped
        The objects that are not downloaded: `(name, why)`.
    cloud, region
        The bucket's cloud, by its name in nbprov, and region; empty where not known.
    """

    source: str
    items: tuple[DownloadItem, ...]
    is_tree: bool
    signer: Signer
    skipped: tuple[tuple[str, str], ...] = ()
    cloud: str = ""
    region: str = ""

    @property
    def bytes(self) -> int:
        """The size of all files whose size is known."""
        return sum(max(0, item.size) for item in self.items)


class Bucket(Protocol):
    """A bucket as one reader sees it."""

    def one(self, key: str) -> DownloadItem | None:
        """Return the object with exactly this key."""

    def items(self, prefix: str) -> Iterator[DownloadItem]:
        """Return all objects whose key starts with a prefix, named by their keys."""


def listed(
    objects: Bucket, path: str, uri: str
) -> tuple[tuple[DownloadItem, ...], tuple[tuple[str, str], ...], bool]:
    """Return what a path in a bucket means: the object with this key, else all below it.

    The result is the files, the skipped objects with the reason, and whether it is a folder.

    Raises
    ------
    DownloadError
        If there is nothing or too much, or if the only object's name cannot be a file name. What
        the bucket raises passes through.
    """
    if path and not path.endswith("/"):
        one = objects.one(path)
        if one is not None:
            items = chosen([one], path.rpartition("/")[0] + "/" if "/" in path else "")[0]
            if not items:
                raise DownloadError(
                    f"{shown(uri)}: its name cannot be a file name",
                    hint="copy it to another key first",
                    code="fetch.missing",
                )
            return items, (), False
    prefix = path if not path or path.endswith("/") else path + "/"
    rows: list[DownloadItem] = []
    for item in objects.items(prefix):
        rows.append(item)
        if len(rows) > MOST_OBJECTS:
            raise too_many(uri)
    items, skipped = chosen(rows, prefix)
    if not items:
        raise nothing(uri)
    return items, skipped, True


def chosen(
    rows: Iterable[DownloadItem], prefix: str
) -> tuple[tuple[DownloadItem, ...], tuple[tuple[str, str], ...]]:
    """Return the objects that become files below a target, and the others with the reason.

    Parameters
    ----------
    rows
        Objects whose `name` is still their key.
    prefix
        The part of the keys to remove.

    Examples
    --------
    >>> items = [DownloadItem("x/a", "x/a"), DownloadItem("x/../b", "x/../b")]
    >>> files, skipped = chosen(items, "x/")
    >>> [file.name for file in files], [(name, str(why)) for name, why in skipped]
    (['a'], [('x/../b', 'a name that leads out of the folder')])
    """
    taken: dict[str, DownloadItem] = {}
    skipped: list[tuple[str, str]] = []
    folders: set[str] = set()
    for row in rows:
        name = row.key[len(prefix) :]
        if not name or name.endswith("/"):
            if row.size > 0:
                skipped.append((row.key, "it has the name of a folder"))
            continue  # an empty object that marks a folder
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


def nothing(source: str) -> DownloadError:
    """Return the error for a source that does not exist."""
    return DownloadError(
        f"{shown(source)}: there is no object of this name, and none below it",
        hint="check the path; upper and lower case matter",
        code="fetch.missing",
    )


def too_many(source: str) -> DownloadError:
    """Return the error for a source with too many objects."""
    words = f"{shown(source)} holds more than {MOST_OBJECTS:,} objects"
    return DownloadError(
        words, hint="name a path below it, or pack them into archives", code="fetch.many"
    )


def denied(source: str, why: str, hint: str) -> DownloadError:
    """Return the error for a source that may not be read."""
    return DownloadError(
        f"{shown(source)} may not be read: {shown(why, 200)}", hint=hint, code="fetch.denied"
    )


def barred_by_proxy(
    source: str, error: BaseException, *, knows_socks: bool = True
) -> DownloadError | None:
    """Return the error for a source that this computer cannot ask through its proxy.

    None for an exception that means anything else.

    Parameters
    ----------
    knows_socks
        Whether the client that raised it has SOCKS proxies at all.
    """
    failure = unusable_proxy(error, knows_socks=knows_socks)
    if failure is None:
        return None
    return DownloadError(
        f"{shown(source)} could not be listed: {failure.message}",
        hint="correct that setting in the notebook (%env), or before Jupyter is started",
        code="fetch.unreachable",
    )
