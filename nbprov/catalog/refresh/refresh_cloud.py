"""Refresh one cloud, from taking the lease to publishing the new files."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources.moved_prices import MovedPrices
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.clouds import registry
from nbprov.clouds.pricing.fetcher import FETCH_SECONDS, Progress
from nbprov.clouds.web.client import HttpClient, Stopped
from nbprov.clouds.web.error_text import NOBODY
from nbprov.model.clock import Instant, Seconds, short_duration
from nbprov.model.failures import Cause, CloudError

from . import change_log
from .atomic_files import marks as marks_of
from .cloud_folder import CloudFolder, Owner
from .download import DownloadTask, Fetched, fetch
from .file_lease import LeaseHeld, lease
from .policy import Settings, Source
from .price_diff import Differences, compare
from .refresh_state import State
from .status import OFFLINE, CloudRefresh, Outcome, RefreshStep, Watch
from .validation import Yardstick, check, joined

JUST_NOW: Final[Seconds] = 60.0
"""Another kernel's prices are not fetched again if they are at most this old.

It applies to prices that the other kernel fetched while this one waited for the lease.
"""

log = logging.getLogger("nbprov.catalog")


@dataclass(frozen=True, slots=True)
class RefreshJob:
    """The input of one cloud's refresh.

    Attributes
    ----------
    shipped
        The cloud's rows that came with this release.
    others
        Returns the other clouds' prices, which a new list is compared with.
    clock
        Wall-clock time.
    stop
        Ends the refresh; its deadline sets it too.
    seconds
        How long the refresh may take.
    """

    folder: CloudFolder
    settings: Settings
    source: Source
    force: bool
    http: HttpClient
    stop: threading.Event
    shipped: Callable[[], Sequence[PriceEntry]]
    others: Callable[[], Yardstick]
    watch: Watch
    clock: Callable[[], Instant] = time.time
    seconds: Seconds = FETCH_SECONDS

    @property
    def cloud(self) -> str:
        """The cloud's name."""
        return self.folder.cloud


def stop_all(jobs: Iterable[RefreshJob]) -> None:
    """End these refreshes; each notices within a second."""
    for job in jobs:
        job.stop.set()


def refresh(job: RefreshJob) -> CloudRefresh:
    """Refresh one cloud.

    Any failure is reported in the result, and the prices in place then stay as they are.
    """
    begun, found, was_there = time.monotonic(), list[str](), job.folder.path.exists()
    alarm = threading.Timer(job.seconds, job.stop.set)
    alarm.daemon = True
    alarm.start()
    try:
        result = _refresh(job, found)
    except Stopped:
        result = _late_or_stopped(job, time.monotonic() - begun)
    except LeaseHeld:
        result = CloudRefresh(
            job.cloud,
            Outcome.PASSED,
            message="another kernel is still refreshing it; the next question sees its prices",
        )
    except OSError as error:
        result = _failed(
            job,
            f"the price files cannot be written: {error}",
            "catalog.unwritable",
            "is the disk full, or the folder read-only?",
        )
    except (CloudError, CatalogError) as error:
        result = _refused(job, error)
    except (
        Exception,
        SystemExit,
    ) as error:  # a plug-in's fetcher or an SDK may raise anything; other clouds go on
        log.exception("refresh of %s", job.cloud)
        result = _failed(
            job,
            f"its price reader failed: {type(error).__name__}: {error}",
            "catalog.fetcher",
            "the log says where",
        )
    alarm.cancel()
    if not was_there and registry.is_external(job.cloud):
        job.folder.drop_if_empty()  # the adapter may take it for a list that was fetched
    result = replace(result, seconds=time.monotonic() - begun, notes=(*found, *result.notes))
    job.watch(RefreshStep(job.cloud, result.outcome.value, result=result))
    return result


def _late_or_stopped(job: RefreshJob, seconds: Seconds) -> CloudRefresh:
    if seconds < job.seconds:
        return CloudRefresh(job.cloud, Outcome.STOPPED, message="stopped; the prices in place stay")
    return _failed(
        job,
        f"its prices did not arrive within {short_duration(job.seconds)}; those in place stay",
        "catalog.slow",
        f"%nbprov catalog refresh {job.cloud} tries again",
    )


def _refresh(job: RefreshJob, found: list[str]) -> CloudRefresh:
    """Refresh one cloud as `refresh` does; note repairs of earlier damage in `found`."""
    folder = job.folder
    if job.stop.is_set():
        raise Stopped
    with lease(
        folder.lock,
        stop=job.stop,
        waiting=lambda: job.watch(RefreshStep(job.cloud, "waiting for another kernel")),
    ) as waited:
        recovered = folder.recover()
        if recovered:
            found.append(recovered)
        known = folder.state
        as_asked = job.source in (Source.AUTO, known.source)
        if waited and as_asked and not job.force and 0 <= job.clock() - known.fetched < JUST_NOW:
            return CloudRefresh(
                job.cloud,
                Outcome.CURRENT,
                known.source,
                known.url,
                known.rows,
                message="another kernel has just refreshed it",
            )
        owner = folder.owner(known)
        if owner is Owner.PERSON and not job.force:
            return _edited(job, known)
        job.watch(RefreshStep(job.cloud, "asking"))
        known = folder.remember(known, tried=job.clock())
        try:
            return _renewed(job, owner, known)
        finally:
            folder.unstage()


def _renewed(job: RefreshJob, owner: Owner, known: State) -> CloudRefresh:
    folder = job.folder
    before = cache(
        lambda: tuple(job.shipped() if owner in (Owner.NOBODY, Owner.DAMAGED) else folder.entries())
    )

    def progress(step: Progress) -> None:
        job.watch(RefreshStep(job.cloud, "reading", step))

    has_validators = owner is Owner.NBPROV and not job.force
    task = DownloadTask(
        job.cloud,
        job.settings,
        job.http,
        known if has_validators else State(),
        before,
        folder.stage(),
        job.clock(),
        progress,
    )
    fetched = fetch(task, job.source)
    if job.stop.is_set():
        raise Stopped
    if fetched.unchanged:
        return _still_current(job, known, fetched)
    job.watch(RefreshStep(job.cloud, "checking"))
    same_source = fetched.source is Source.HOSTED or known.source == fetched.source.value
    notes = check(
        job.cloud, fetched.entries, before(), job.others(), force=job.force, same_source=same_source
    )
    marks = marks_of(folder.staging.iterdir())
    if marks == known.marks == folder.marks():
        return _still_current(job, known, fetched)
    old, new = joined(job.cloud, before()), joined(job.cloud, fetched.entries)
    differences = compare(old, new)
    moved = folder.moved()
    moved.learn(old, new)
    if moved.before:
        notes += (
            f"{len(moved.before):,} prices moved by more than half: they are bought only if the"
            f" cloud confirms them, or after %nbprov catalog accept {job.cloud}",
        )
    if moved.changed:
        notes += (
            f"{len(moved.changed):,} prices are of other hardware under the same type than before:"
            f" they are bought only if the cloud confirms them, or after %nbprov catalog accept"
            f" {job.cloud}",
        )
    if job.stop.is_set():
        raise Stopped
    # Checked again: a person may have saved a file while the list was being fetched.
    owner = folder.owner(known)
    if owner is Owner.PERSON and not job.force:
        return _edited(job, known)
    if owner in (Owner.PERSON, Owner.DAMAGED):
        folder.set_aside()
    return _published(job, fetched, differences, (*fetched.notes, *notes), moved)


def _published(
    job: RefreshJob,
    fetched: Fetched,
    differences: Differences,
    notes: tuple[str, ...],
    moved: MovedPrices,
) -> CloudRefresh:
    folder, now = job.folder, job.clock()
    change_log.write(folder.difference, differences, marks_of(folder.staging.iterdir()))
    lost = tuple(
        f"{region} could not be read: {why}; its old rows stay"
        for region, why in sorted(fetched.failed.items())
    )
    coming = State(
        source=fetched.source.value,
        url=fetched.url,
        fetched=now,
        tried=now,
        etag=fetched.etag,
        last_modified=fetched.last_modified,
        rows=len(fetched.entries),
        notes=(*lost, *notes),
        changes=differences.counts(),
    )
    folder.remember_moved(moved)  # first: a new price is never seen without it
    folder.publish(coming)
    return CloudRefresh(
        job.cloud,
        Outcome.UPDATED,
        source=coming.source,
        url=coming.url,
        rows=coming.rows,
        received=fetched.received,
        differences=differences,
        failed=fetched.failed,
        notes=coming.notes,
    )


def _still_current(job: RefreshJob, known: State, fetched: Fetched) -> CloudRefresh:
    now = job.clock()
    for name in known.marks:
        # A v8 file's time stamp is the date of its prices, which have just been confirmed.
        os.utime(job.folder.path / name, (now, now))
    job.folder.remember(
        known,
        fetched=now,
        tried=now,
        error="",
        etag=fetched.etag,
        last_modified=fetched.last_modified,
    )
    return CloudRefresh(
        job.cloud, Outcome.CURRENT, known.source, known.url, known.rows, received=fetched.received
    )


def _edited(job: RefreshJob, known: State) -> CloudRefresh:
    names = ", ".join(job.folder.changed_by_hand(known))
    return CloudRefresh(
        job.cloud,
        Outcome.EDITED,
        known.source,
        known.url,
        message=f"{names}: edited by hand, so not overwritten",
        hint=f"%nbprov catalog restore {job.cloud} takes the edits back, refresh {job.cloud}"
        " --force fetches over them; a copy is kept of them",
        code="catalog.edited",
    )


def _refused(job: RefreshJob, error: CloudError | CatalogError) -> CloudRefresh:
    if isinstance(error, CatalogError):
        return _failed(job, error.message, error.code, error.hint)
    failure = error.failure
    if failure.code in NOBODY:
        return _failed(
            job,
            failure.message,
            f"{OFFLINE}.{failure.code}",
            "the prices in place stay",
            Outcome.OFFLINE,
        )
    later = failure.cause in (Cause.TRANSIENT, Cause.RATE_LIMIT)
    hint = "try again later; the prices in place stay" if later else failure.rule.advice
    return _failed(job, failure.message, f"cloud.{failure.cause.value}", hint)


def _failed(
    job: RefreshJob, message: str, code: str, hint: str, outcome: Outcome = Outcome.FAILED
) -> CloudRefresh:
    try:
        job.folder.remember(job.folder.state, error=message)
    except OSError:
        log.warning("the state of %s's prices cannot be kept", job.cloud)
    return CloudRefresh(job.cloud, outcome, message=message, hint=hint, code=code)
