"""The price files of all clouds: refresh, status, differences, restore and paths."""

from __future__ import annotations

import concurrent.futures
import difflib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import price_files
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.clouds.pricing import fetcher
from nbprov.clouds.pricing.fetcher import FETCH_SECONDS
from nbprov.clouds.web.client import HttpClient
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import Interrupted, UsageError
from nbprov.runtime.waiting import SLICE
from nbprov.runtime.worker_pool import WorkerPool

from . import change_log
from .automatic import automatic_source, passed_over
from .cloud_folder import CloudFolder, Owner
from .file_lease import LeaseHeld, lease
from .policy import HOSTED, Settings, Source
from .price_diff import Differences, compare
from .refresh_cloud import RefreshJob, refresh, stop_all
from .status import CloudRefresh, CloudStatus, Outcome, Refreshed, Watch, interrupted
from .validation import Yardstick, joined, yardstick

AT_ONCE: Final = 4
"""Number of clouds that are fetched at the same time.

Reading a list takes processor time, which a notebook may need for its own work.
"""
LETTING_GO: Final[Seconds] = 0.8
"""How long an interrupt waits for running fetches to stop.

Replacements survive a crash, so nothing is lost after that time.
"""
AFTER_A_FAILURE: Final[Seconds] = 600.0
"""Time after which a failed refresh may be repeated automatically.

A source that is down is asked six times an hour at most.
"""

SHIPPED: Final = "shipped"
LAST: Final = "last"


class PriceFileStore:
    """The price files of a user's home.

    Parameters
    ----------
    home
        The folder with `catalogs` and `catalog.toml` in it.
    options
        What a notebook sets beside `catalog.toml`; asked at every use.
    shipped
        Folder of the prices that came with this release.
    http
        Makes the HTTP client, given the event that stops it.
    seconds
        How long one cloud's refresh may take.
    """

    def __init__(
        self,
        home: Path,
        *,
        options: Callable[[], Mapping[str, Any]] = dict,
        shipped: Path | None = None,
        http: Callable[[threading.Event], HttpClient] = lambda stop: HttpClient(stop=stop),
        clock: Callable[[], Instant] = time.time,
        seconds: Seconds = FETCH_SECONDS,
    ) -> None:
        self._seconds = seconds
        self.home = home
        self.root = home / price_files.USER_FOLDER
        self._options = options
        self._shipped = shipped_folder() if shipped is None else shipped
        self._http = http
        self._clock = clock
        self._workers = WorkerPool("prices", most=AT_ONCE)

    def settings(self) -> Settings:
        """The settings as they are now.

        Raises
        ------
        CatalogError
            If `catalog.toml` cannot be used.
        """
        return Settings.read(self.home, self._options())

    def clouds(self) -> list[str]:
        """Return the clouds whose prices can be refreshed, sorted.

        These are clouds with stored or shipped prices and clouds with a price list of their own.
        """
        places = [
            place
            for root in (self._shipped, self.root)
            if root.is_dir()
            for place in root.iterdir()
        ]
        kept = {
            place.name
            for place in places
            if not place.name.startswith((".", "_")) and next(place.glob("*.csv"), None)
        }
        return sorted(kept | set(fetcher.known()) - {"local"})

    def folder(self, cloud: str) -> CloudFolder:
        """Return one cloud's folder, by its exact name."""
        return CloudFolder(self.root, cloud)

    def named(self, clouds: Sequence[str]) -> list[str]:
        """Return clouds in the catalogue's spelling, each once.

        A cloud without stored prices is accepted if it is, or could be, on the mirror.

        Raises
        ------
        UsageError
            If one cannot be a cloud's name, or looks like a slip for one.
        """
        known = sorted({*self.clouds(), *HOSTED})
        result = []
        for written in clouds:
            name = written.strip().lower()
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            if name not in known and (close or not name.isidentifier()):
                raise UsageError(
                    f"no prices are kept of {written!r}",
                    hint=f"did you mean {close[0]}?" if close else f"clouds: {', '.join(known)}",
                )
            result.append(name)
        return list(dict.fromkeys(result))

    def refresh(
        self,
        clouds: Sequence[str] | None = None,
        *,
        source: Source = Source.AUTO,
        force: bool = False,
        watch: Watch = lambda step: None,
        tick: Callable[[], object] = lambda: None,
        stop: threading.Event | None = None,
    ) -> Refreshed:
        """Fetch prices, a few clouds at a time, and publish the lists that pass validation.

        The call blocks; an interrupt returns within a second.

        Parameters
        ----------
        clouds
            None: all but those whose policy is never, and, without a named source, those that
            cannot be asked themselves.
        force
            Replace edited files too, of which a copy is kept; fetch unchanged files; accept lists
            with far fewer rows.
        watch
            Called with the progress, from any thread.
        tick
            Called in the caller's thread while it waits.
        stop
            Set this event to end the refresh from another thread.

        Raises
        ------
        UsageError, CatalogError
            If a cloud has no such name, or `catalog.toml` cannot be used. What goes wrong with one
            cloud is in the result instead.
        Interrupted
            On Ctrl-C. Every cloud's prices are whole then, the old or the new.
        """
        settings = self.settings()
        wanted = self.clouds() if clouds is None else self.named(clouds)
        passed = passed_over(wanted, settings, source) if clouds is None else {}
        stop = threading.Event() if stop is None else stop
        jobs = self._jobs([n for n in wanted if n not in passed], settings, source, force, watch)
        futures = {name: self._workers.submit(partial(refresh, job)) for name, job in jobs.items()}
        try:
            while concurrent.futures.wait(futures.values(), SLICE).not_done:
                tick()
                if stop.is_set():
                    stop_all(jobs.values())
        except KeyboardInterrupt:
            stop_all(jobs.values())
            concurrent.futures.wait(futures.values(), LETTING_GO)
            raise Interrupted(
                interrupted({name: f.result() for name, f in futures.items() if f.done()})
            ) from None
        results = {name: future.result() for name, future in futures.items()}
        results |= {
            name: CloudRefresh(name, Outcome.PASSED, message=why) for name, why in passed.items()
        }
        return Refreshed(results[name] for name in wanted)

    def _jobs(
        self,
        names: Sequence[str],
        settings: Settings,
        source: Source,
        force: bool,
        watch: Watch,
    ) -> dict[str, RefreshJob]:
        http, others = self._http(threading.Event()), self._others()
        # Each cloud has a stop of its own, which its deadline sets too.
        stops = {name: threading.Event() for name in names}
        return {
            name: RefreshJob(
                self.folder(name),
                settings,
                source,
                force,
                http.stopped_by(stops[name]),
                stops[name],
                partial(self.shipped, name),
                others,
                watch,
                self._clock,
                self._seconds,
            )
            for name in names
        }

    def due(self) -> list[str]:
        """Return the clouds that are due for an automatic refresh."""
        settings, now = self.settings(), self._clock()
        if not settings.automatic:
            return []
        return [
            name
            for name in self.clouds()
            if (at := self._next(name, settings)) is not None and at <= now
        ]

    def _next(self, cloud: str, settings: Settings) -> Instant | None:
        every = settings.policy(cloud).every
        if every is None or not settings.automatic or automatic_source(settings, cloud) is None:
            return None
        known = self.folder(cloud).state
        renewed = known.fetched + every
        return max(renewed, known.tried + min(AFTER_A_FAILURE, every)) if known.error else renewed

    def shipped(self, cloud: str) -> tuple[PriceEntry, ...]:
        """Return the rows of a cloud that came with this release; empty if it has none."""
        try:
            return tuple(price_files.read_prices(self._shipped / cloud, cloud))
        except CatalogError:
            return ()

    def present(self, cloud: str) -> tuple[PriceEntry, ...]:
        """Return the rows of a cloud that hold now."""
        try:
            own = self.folder(cloud).entries()
        except CatalogError:
            own = []
        return tuple(own) or self.shipped(cloud)

    def _others(self) -> Callable[[], Yardstick]:
        lock = threading.Lock()
        made: list[Yardstick] = []

        def once() -> Yardstick:
            with lock:
                if not made:
                    made.append(yardstick({name: self.present(name) for name in self.clouds()}))
                return made[0]

        return once

    def status(self, clouds: Sequence[str] | None = None) -> list[CloudStatus]:
        """Return the state of each cloud's prices. Nothing is fetched, and no prices are read."""
        settings = self.settings()
        return [
            self._status(name, settings)
            for name in (self.clouds() if clouds is None else self.named(clouds))
        ]

    def _status(self, cloud: str, settings: Settings) -> CloudStatus:
        folder = self.folder(cloud)
        known = folder.state
        marks = folder.marks()
        owner = Owner.NBPROV if marks and marks == known.marks else folder.owner(known)
        shipped = SHIPPED if (self._shipped / cloud).is_dir() else ""
        source = {Owner.NOBODY: shipped, Owner.PERSON: "yours"}.get(owner, known.source)
        if owner is Owner.PERSON and known.source:
            source = f"{known.source}, edited"
        return CloudStatus(
            cloud=cloud,
            source=source,
            owner=owner,
            fetched=known.fetched,
            policy=settings.policy(cloud),
            next_refresh=self._next(cloud, settings),
            edited=folder.changed_by_hand(known) if owner is Owner.PERSON else (),
            changes=known.changes,
            notes=known.notes,
            error=known.error,
        )

    def diff(self, cloud: str = "", *, against: str = LAST) -> Differences:
        """Return the changes of each cloud's last refresh, or the changes since this release.

        Parameters
        ----------
        cloud
            Empty: all.
        against
            `last` or `shipped`.

        Raises
        ------
        UsageError
            If there is no such cloud, or `against` is neither.
        """
        if against not in (LAST, SHIPPED):
            raise UsageError(
                "prices are compared with those of the last refresh or the shipped ones, not"
                f" {against!r}",
                hint="last or shipped",
            )
        found: list[Any] = []
        for name in self.named([cloud]) if cloud else self.clouds():
            folder = self.folder(name)
            if against == LAST:
                found += change_log.read(folder.difference, folder.state.marks)
            elif folder.marks():
                found += compare(joined(name, self.shipped(name)), joined(name, self.present(name)))
        return Differences(found)

    def restore(self, cloud: str = "", *, to: str = LAST) -> dict[str, str]:
        """Put back earlier prices. Files that a person wrote are kept in `.set-aside` beside them.

        Parameters
        ----------
        cloud
            Empty: all.
        to
            `last`: as the last refresh wrote them, and the shipped ones where they are so already.
            `shipped`: those of this release.

        Returns
        -------
        dict
            By cloud, what was done; clouds with nothing to do are left out.

        Raises
        ------
        UsageError
            If there is no such cloud, or `to` is neither.
        """
        if to not in (LAST, SHIPPED):
            raise UsageError(
                f"prices go back to the last refresh or to the shipped ones, not to {to!r}",
                hint="last or shipped",
            )
        done = {}
        for name in self.named([cloud]) if cloud else self.clouds():
            folder = self.folder(name)
            if not folder.marks():
                continue
            try:
                with lease(folder.lock, stop=threading.Event()):
                    what = self._restore(folder, to, named=bool(cloud))
            except LeaseHeld:
                what = "not restored: another kernel is refreshing it"
            if what:
                done[name] = what
        return done

    def _restore(self, folder: CloudFolder, to: str, *, named: bool) -> str:
        folder.recover()
        edited = folder.owner() in (Owner.PERSON, Owner.DAMAGED)
        if to == LAST and edited and folder.restore():
            return "as the last refresh wrote them"
        if not (to == SHIPPED or edited or named):
            return ""
        folder.clear()
        return "the shipped prices" if self.shipped(folder.cloud) else "no prices are left of it"

    def path(self, cloud: str = "") -> Path:
        """Return the folder of all prices, or that of one cloud, preferring its own files."""
        if not cloud:
            return self.root
        (name,) = self.named([cloud])
        folder = self.folder(name)
        shipped = self._shipped / name
        return folder.path if folder.marks() or not shipped.is_dir() else shipped
