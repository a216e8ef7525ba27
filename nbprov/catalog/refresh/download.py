"""Fetch one cloud's prices, from the hosted mirror or the cloud itself, into a staging folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import fetch_merge, skypilot_csv
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.clouds.pricing import fetcher as prices
from nbprov.clouds.pricing.fetcher import FetchContext, Progress
from nbprov.clouds.web import error_text
from nbprov.clouds.web.client import HttpClient
from nbprov.model.clock import Instant
from nbprov.model.failures import Cause, CloudError, Failure

from .automatic import automatic_source, what_is_lacking
from .policy import FALLBACK, PRIMARY, UNHOSTED, Settings, Source
from .refresh_state import State

MOST_BYTES: Final = 64 << 20
"""The largest hosted file has 4 MB; a file of sixteen times that size is no price list."""
MALFORMED_SHARE: Final = 0.01
"""A file with a larger share of unreadable lines than this is not accepted as a price list."""
NOT_FOUND: Final = "404"
NOT_HOSTED: Final = "catalog.not-hosted"
NOT_READY: Final = "catalog.not-ready"

_UNSIGNED = "hosted for SkyPilot and not signed: whoever writes to that place can change them"
_MD5 = re.compile(r'"([0-9a-f]{32})"')


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch.

    Attributes
    ----------
    entries
        The rows of the staged files; empty if `unchanged`.
    unchanged
        Whether the service said that its file is the one in place.
    failed
        The regions that could not be read, with the reason; their old rows stay.
    """

    source: Source
    url: str = ""
    entries: tuple[PriceEntry, ...] = ()
    unchanged: bool = False
    etag: str = ""
    last_modified: str = ""
    received: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DownloadTask:
    """The input of a fetch.

    Attributes
    ----------
    known
        The state of the files in place, whose validators are sent with the request. An empty
        state fetches the file unconditionally.
    before
        The rows in place, or the shipped ones; rows that a new list does not cover are kept.
    staging
        The folder for the new files.
    """

    cloud: str
    settings: Settings
    http: HttpClient
    known: State
    before: Callable[[], Sequence[PriceEntry]]
    staging: Path
    now: Instant
    progress: Callable[[Progress], None]


def fetch(task: DownloadTask, source: Source) -> Fetched:
    """Fetch one cloud's prices.

    Raises
    ------
    CloudError
        If the prices could not be fetched.
    CatalogError
        If the answer is no price list.
    Stopped
        If the caller stopped it.
    """
    chosen: Source | None = task.settings.source(task.cloud) if source is Source.AUTO else source
    if chosen is Source.AUTO:
        chosen = automatic_source(task.settings, task.cloud)
    if chosen is None:
        raise CatalogError(
            f"{task.cloud} was not refreshed: {what_is_lacking(task.settings, task.cloud)}",
            hint="--source hosted takes the file hosted for SkyPilot, which is not signed",
            code="catalog.unsigned",
        )
    if chosen is not Source.AUTO:
        return hosted(task) if chosen is Source.HOSTED else provided(task)
    has_own = task.cloud in prices.known()
    if has_own and task.cloud in UNHOSTED:
        return provided(task)
    try:
        return hosted(task)
    except CatalogError as error:
        if error.code != NOT_HOSTED or not has_own:
            raise
    try:
        return provided(task)
    except CatalogError as error:
        if error.code != NOT_READY:
            raise
        raise CatalogError(
            f"no price file of {task.cloud} is hosted, and {error.message}", code=NOT_READY
        ) from None


def hosted(task: DownloadTask) -> Fetched:
    """Fetch the file of the v8 mirror.

    The fallback address is tried if the primary one has no usable file.
    """
    errors: list[CloudError | CatalogError] = []
    for url in task.settings.mirrors(task.cloud):
        try:
            return _from(task, url)
        except (CloudError, CatalogError) as error:
            errors.append(error)
    raise _worst(errors, task.cloud)


def _from(task: DownloadTask, url: str) -> Fetched:
    target = task.staging / skypilot_csv.FILE_NAME
    same = task.known.url == url
    got = task.http.download(
        url,
        target,
        etag=task.known.etag if same else "",
        last_modified=task.known.last_modified if same else "",
        most=MOST_BYTES,
        seen=lambda size: task.progress(Progress(0, 0, skypilot_csv.FILE_NAME, size)),
    )
    if got.unchanged:
        return Fetched(
            Source.HOSTED,
            url,
            unchanged=True,
            etag=got.etag or task.known.etag,
            last_modified=got.last_modified,
        )
    _whole(target, url, got.etag, got.md5)
    entries = _read(target, task.cloud)
    return Fetched(
        Source.HOSTED,
        url,
        entries,
        etag=got.etag,
        last_modified=got.last_modified,
        received=got.size,
        notes=_doubts(task, url),
    )


def _doubts(task: DownloadTask, url: str) -> tuple[str, ...]:
    """Return what a person should know of prices that lie where others may change them."""
    if url not in (base.replace("{cloud}", task.cloud) for base in (PRIMARY, FALLBACK)):
        return ()
    has_own = task.cloud in prices.known()
    own = f"; --source provider asks {task.cloud} itself" if has_own else ""
    return (f"{_UNSIGNED}{own}",)


def provided(task: DownloadTask) -> Fetched:
    """Fetch the cloud's own price list, and merge it with the rows that were known before."""
    fetcher = prices.find(task.cloud)
    if fetcher is None:
        raise CatalogError(
            f"{task.cloud} has no price list of its own that nbprov reads",
            hint="take the hosted one: --source hosted",
            code="catalog.no-fetcher",
        )
    received = 0

    def progress(step: Progress) -> None:
        nonlocal received
        received = max(received, step.received)
        task.progress(step)

    context = FetchContext(
        http=task.http,
        today=datetime.fromtimestamp(task.now, UTC).strftime("%Y-%m-%d"),
        regions=task.settings.regions.get(task.cloud, ()),
        endpoints=task.settings.endpoints.get(task.cloud, {}),
        progress=progress,
    )
    lacking = fetcher.ready(context)
    if lacking:
        raise CatalogError(
            f"{task.cloud} cannot be asked for its prices: {lacking}", code=NOT_READY
        )
    try:
        listed = fetcher.fetch(context)
    except OSError as error:
        raise CloudError(
            Failure(Cause.TRANSIENT, f"{type(error).__name__}: {error}", code=type(error).__name__)
        ) from error
    entries = fetch_merge.merge(task.before(), listed, task.cloud)
    good = [positive for entry in entries if (positive := _positive(entry)) is not None]
    notes = list(listed.notes)
    if len(good) < len(entries):
        notes.append(f"{len(entries) - len(good):,} rows without a price above zero were left out")
    fetch_merge.write(task.staging, good)
    return Fetched(
        Source.PROVIDER,
        listed.source,
        tuple(good),
        received=received,
        failed=dict(listed.failed),
        notes=tuple(notes),
    )


def _positive(entry: PriceEntry) -> PriceEntry | None:
    """Return the entry with only its positive prices; None if it has none."""
    on_demand, spot = (
        price if price is not None and price > 0 else None
        for price in (entry.on_demand, entry.spot)
    )
    return (
        None
        if on_demand is None and spot is None
        else entry._replace(on_demand=on_demand, spot=spot)
    )


def _whole(path: Path, url: str, etag: str, md5: str) -> None:
    """Check that a downloaded file is complete.

    A cut shows in the last line of a file, and S3 gives a file's MD5 as its tag.
    """
    said = _MD5.fullmatch(etag)
    size = path.stat().st_size
    with path.open("rb") as file:
        if error_text.is_page(file.read(200)):
            raise error_text.web_page(url)
        file.seek(max(0, size - 1))
        ends = file.read() == b"\n"
    if not ends or (said is not None and said[1] != md5):
        raise CatalogError(
            "the file that was sent is cut short",
            hint="try again later; the prices in place stay",
            code="catalog.torn",
        )


def _read(path: Path, cloud: str) -> tuple[PriceEntry, ...]:
    try:
        reading = skypilot_csv.read(path, cloud)
    except CatalogError as error:
        message = error.message.replace(f"{path.parent.name}/{path.name}", "the file that was sent")
        raise CatalogError(message, hint="the prices in place stay", code=error.code) from None
    bad = reading.left_out[skypilot_csv.MALFORMED]
    lines = len(reading.entries) + sum(reading.left_out.values())
    if bad > max(1, lines) * MALFORMED_SHARE:
        raise CatalogError(
            f"{bad:,} of {lines:,} lines that were sent cannot be read",
            hint="the prices in place stay",
            code="catalog.malformed",
        )
    return tuple(reading.entries)


def _worst(errors: list[CloudError | CatalogError], cloud: str) -> CloudError | CatalogError:
    """Choose the error that stands for several addresses.

    It says that nothing is hosted, or that nobody answers, only if that holds for every address.
    """
    if not errors:
        return CatalogError(
            "no mirror is set", hint="catalog.toml: [mirror] primary", code="catalog.no-mirror"
        )
    told = [error for error in errors if _code(error) != NOT_FOUND]
    if not told:
        return CatalogError(
            f"no price file of {cloud} is hosted",
            hint=f"own prices: overrides/{cloud}.csv",
            code=NOT_HOSTED,
        )
    return next((error for error in told if _code(error) not in error_text.NOBODY), told[0])


def _code(error: CloudError | CatalogError) -> str:
    return error.failure.code if isinstance(error, CloudError) else error.code
